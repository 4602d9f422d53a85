"""The store that is backed up: read beside its broker, or while that is stopped. Nothing is written.

Only what is confirmed and on the disk is read, as the store's checkpoint says: it may be a second old. Every byte is held to
the log's checksums first, so what has rotted is never uploaded. A segment that retention deletes meanwhile is noticed by its
name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from ...broker.group.cluster_file import ClusterFile
from ...broker.group.epoch_file import read_epochs
from ...broker.replication.beginning import is_beginning_noted
from ...broker.replication.epochs import EpochList
from ...broker.replication.replica_files import ReplicaFiles
from ...model.errors import OffsetOutOfRange, StoreFormatError
from ...record.codes import BLANK_BYTES, RUN_BLANK
from ...record.kernel import whole_records
from ...store.checksum.checksum_reader import ChecksumReader
from ...store.config import StoreConfig
from ...store.integrity.log_check import LogChecker
from ...store.integrity.scrub_reader import ScrubReader
from ...store.log.commit_log import CHECKSUM_FOLDER, COMMIT_LOG_FOLDER
from ...store.log.segment import list_segments
from ...store.offline.offline_log import READ_BYTES, log_beside, tried_again
from ...store.opening.checkpoint import read_checkpoint
from ...store.opening.store_opening import find_segment_bytes, has_commit_log, scanning_kernel
from ...store.upkeep import CHECKPOINT_FILE
from .plan import SourceFacts

SAMPLE_BYTES: Final = 64 << 10


class SegmentGone(Exception):
    """Retention has deleted a segment while it was read."""


class DamageFound(Exception):
    """The log is damaged in [begin, end)."""

    def __init__(self, begin: int, end: int) -> None:
        super().__init__(begin, end)
        self.begin = begin
        self.end = end


class BackupSource:
    """One store. All methods raise StoreFormatError, OSError."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def look(self) -> SourceFacts:
        """What there is now. Raises StoreFormatError if it is no store, or one that no broker of ours has closed or served."""
        if not has_commit_log(self.directory):
            raise StoreFormatError(self.directory, "it has no commit log; name a broker's store")
        if is_beginning_noted(self.directory):
            raise StoreFormatError(self.directory, "it is about to begin anew; start it once more as a replica")
        membership = ReplicaFiles.membership(self.directory)
        segment_bytes = find_segment_bytes(self.directory) or StoreConfig().segment_bytes
        rows = read_epochs(self.directory)
        checkpoint = read_checkpoint(os.path.join(self.directory, CHECKPOINT_FILE))
        bases = tried_again(lambda: list_segments(os.path.join(self.directory, COMMIT_LOG_FOLDER), segment_bytes))
        if bases and checkpoint.flushed_offset is None:
            raise StoreFormatError(
                self.directory,
                "its checkpoint does not say how far the log is on the disk; start its broker once, and wait a few seconds",
            )
        begin, end = (bases[0], checkpoint.flushed_offset or 0) if bases else (0, 0)
        if membership.is_member:
            end = min(end, checkpoint.confirmed)
        end = max(begin, end)
        epochs = EpochList(rows).below(end) if end else EpochList()
        return SourceFacts(
            cluster_id=ClusterFile.open(self.directory).cluster_id,
            group_id=membership.group_id,
            segment_bytes=segment_bytes,
            promised=max(membership.epoch, membership.left_epoch, epochs.newest),
            epochs=epochs,
            begin=begin,
            end=end,
        )

    def read(self, begin: int, end: int) -> Iterator[bytes]:
        """The checked bytes of [begin, end), which is in one segment; of a blank only the header.

        Raises SegmentGone, DamageFound; what came before is then part of no object.
        """
        try:
            with closing(log_beside(self.directory, StoreConfig())) as log, ScrubReader(log, begin) as reader:
                segment_bytes = log.segment_bytes
                checksums = ChecksumReader(os.path.join(self.directory, CHECKSUM_FOLDER), segment_bytes)
                checker = LogChecker(scanning_kernel(StoreConfig(), segment_bytes), checksums, segment_bytes)
                at = begin
                while at < end:
                    checked = checker.check(reader.read, at, bytes_max=min(READ_BYTES, end - at), limit=end)
                    data = b"" if checked.damaged else reader.read(at, min(checked.end, end))
                    if not reader.is_there():
                        raise SegmentGone
                    if checked.damaged:
                        raise DamageFound(*checked.damaged[0])
                    yield data[: _filled(data)] if checked.end % segment_bytes == 0 else data
                    at = checked.end
        except OffsetOutOfRange:
            raise SegmentGone from None

    def sample(self, begin: int, end: int) -> bytes | None:
        """Bytes [begin, end), unchecked; None if the log no longer has them."""
        try:
            with closing(log_beside(self.directory, StoreConfig())) as log, ScrubReader(log, begin) as reader:
                data = reader.read(begin, end)
                return data if reader.is_there() else None
        except OffsetOutOfRange:
            return None


def _filled(data: bytes) -> int:
    """How much of the end of a segment counts: up to the header of its blank."""
    at, followed_by = whole_records(data, 0, len(data), len(data))
    return at + BLANK_BYTES if followed_by == RUN_BLANK else len(data)
