"""Lets the oldest records of a compacted queue go, where the topic is kept for a time and not for ever: the audit.

    expire    files whose records all are too old, or for which there is no room--> unlisted; the first one that stays is copied
              without those records

It is not done for each record that grows too old: one may stay up to SLACK_MS longer, so that a file is copied once a day. As
with `merge`, a stop or an error changes nothing. The compaction's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...model.plain_dataclass import dataclass
from .compacted_files import CompactedReader
from .compacted_rows import ROW_BYTES
from .compaction_work import Limits, without_rows_below

if TYPE_CHECKING:
    from .compacted_manifest import Manifest

SLACK_MS: Final = 86_400_000
_SLACK_SHARE: Final = 16  # of the bytes: so much more than needed goes, so that it is not needed again at once


@dataclass(frozen=True, slots=True)
class Keeping:
    """How long records stay, and how many bytes of them, rows too. Whichever is reached first counts."""

    time_ms: int
    bytes_max: int


def expire(folder: str, manifest: Manifest, queue_id: int, keeping: Keeping, now_ms: int, limits: Limits) -> Manifest:
    """Returns the manifest that is on the disk then.

    Raises CorruptRecordError, StoreFormatError (a file that is damaged stays as it is), StepStopped, OSError.
    """
    if not manifest.files:
        return manifest
    before_ms = now_ms - keeping.time_ms
    size_bytes = sum(file.size_bytes for file in manifest.files)
    with CompactedReader(folder, manifest.files[0]) as reader:
        is_old = reader.row(0).stored_ms < before_ms - min(SLACK_MS, keeping.time_ms)
    if not is_old and size_bytes <= keeping.bytes_max:
        return manifest
    excess = size_bytes - keeping.bytes_max
    too_many = excess + keeping.bytes_max // _SLACK_SHARE if excess > 0 else 0
    first = _first_kept(folder, manifest, before_ms, too_many, limits)
    return without_rows_below(folder, manifest, queue_id, first, limits)


def _first_kept(folder: str, manifest: Manifest, before_ms: int, too_many: int, limits: Limits) -> int:
    """The queue offset of the oldest record that stays: it is young enough, and `too_many` bytes are before it."""
    gone_bytes = 0
    for file in manifest.files:
        limits.check()
        with CompactedReader(folder, file) as reader:
            rows = reader.all_rows()
        sizes = rows["size"].astype("i8") + ROW_BYTES
        before = gone_bytes + sizes.cumsum() - sizes
        stays = (rows["stored_ms"] >= before_ms) & (before >= too_many)
        if stays.any():
            return int(rows["offset"][stays.argmax()])
        gone_bytes += int(sizes.sum())
    return manifest.covered
