"""Prepares the log of a closed store for a broker of RocketMQ: the last step of `zenit store hand-over`.

RocketMQ writes no end mark behind its appends. Our recycled segments are overwritten in place, so behind its last message
there would be records of an earlier use, which its recovery and ours could count as part of the log. So this step changes:

    log        bytes behind the end become zeros, durably; segments behind it are deleted
    checksums  their last file says that entries are missing behind the end: RocketMQ writes none
    spares     files kept to be written over are deleted, also those of queues and of the index, and prepared index
               files: RocketMQ treats every file of that folder as a complete one

Each step may be repeated after a crash. Nothing before the end changes, and our broker can open the store as before.
"""

from __future__ import annotations

import os
from typing import Any, Final

from ...model.errors import StoreFormatError
from ..config import StoreConfig
from ..index.key_index import INDEX_FOLDER
from ..integrity.recovery import LastStop, LogSurvey
from ..log.commit_log import SPARE_FOLDER, CommitLog
from ..log.segment import sync_directory
from ..log.spare_files import SPARE_INDEX_FOLDER, SPARE_QUEUE_FOLDER
from ..opening.checkpoint import read_checkpoint
from ..opening.store_files import StoreLock, read_abort
from ..opening.store_opening import find_segment_bytes, scanning_kernel, survey_begin
from ..upkeep import CHECKPOINT_FILE

_SPARES: Final = (SPARE_FOLDER, SPARE_QUEUE_FOLDER, SPARE_INDEX_FOLDER)


def hand_over_store(directory: str, *, dry_run: bool = False) -> dict[str, Any]:
    """{"log_end", "segment_bytes", "spare_files"}: the end of the log, the size of its files, the number of deleted spares.
    `dry_run`: changes nothing.

    Raises StoreLocked if a broker has it open, StoreFormatError if it is no store or its broker did not close it,
    OSError.
    """
    segment_bytes = find_segment_bytes(directory)
    if segment_bytes is None:
        raise StoreFormatError(directory, "it has no commit log; name a broker's store")
    with StoreLock(directory):
        if read_abort(directory) is not None:
            raise StoreFormatError(directory, "its broker was not stopped cleanly; start it once more, and stop it")
        log = CommitLog(directory, segment_bytes=segment_bytes)
        try:
            end = _find_end(directory, log)
            if not dry_run:
                log.cut(end)
                log.checksums.truncate(end, others_follow=True)
        finally:
            log.close()
        spares = [path for name in _SPARES for path in _files_in(os.path.join(directory, name))]
        unready = [path for path in _files_in(os.path.join(directory, INDEX_FOLDER)) if path.endswith(".new")]
        if not dry_run:
            _delete([*spares, *unready])
        spare_files = len(spares)
    return {"log_end": end, "segment_bytes": segment_bytes, "spare_files": spare_files}


def _find_end(directory: str, log: CommitLog) -> int:
    """The end that the next start would find."""
    checkpoint = read_checkpoint(os.path.join(directory, CHECKPOINT_FILE))
    kernel = scanning_kernel(StoreConfig(), log.segment_bytes)
    begin = survey_begin(log, checkpoint, kernel, clean=True)
    survey = LogSurvey(log, kernel, check_body_crc=False, last_stop=LastStop.of(None))
    flushed = checkpoint.flushed_offset or 0
    return max(survey.run(begin, flushed).end, flushed)  # what was on the disk belongs to the log, damaged or not


def _files_in(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in os.listdir(folder)] if os.path.isdir(folder) else []


def _delete(paths: list[str]) -> None:
    for path in paths:
        os.unlink(path)
    for folder in {os.path.dirname(path) for path in paths}:
        sync_directory(folder)
