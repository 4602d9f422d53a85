"""The job `compact`: merges an archive's small files of past days. The archive's content stays the same.

One run is one commit: it adds the merged files and removes those that they replace, or nothing happens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ...model.clock import datetime_of_ms, monotonic_ms, now_ms
from ...model.config import check_settings, setting
from ...model.errors import ArchiveDamaged, ConfigError
from ..column_names import COLUMN_NAMES
from ..schema import arrow_schema
from .archives.archive_tree import ArchiveTree, StagedFile, local_path
from .archives.manifest import spans_of
from .archives.merge_plan import Merge, merges
from .archives.parquet_files import STORED_NAMES, staged_of, staged_text, write_rows
from .archives.spans import union
from .job import Document, Job, Report, Session, required
from .summary import JobProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READ_ROWS: Final = 8192
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NO_LIMIT: Final = 1 << 62


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactOptions:
    """The archive, and the wanted file size."""

    target: str = setting("", "The archive: a directory of this machine (needed).")
    target_file_mb: int = setting(
        128, "Files below half of it are merged until they have it, MiB.", minimum=1, maximum=65_536
    )
    before: str = setting("", "Days before this one, as 2026-11-21 (UTC); else those before today.")

    def __post_init__(self) -> None:
        check_settings(self)
        required("target", self.target, "a directory")
        self.root()
        if self.before and not _DATE.fullmatch(self.before):
            raise ConfigError("before", self.before, "a day such as 2026-11-21")

    def root(self) -> str:
        """The absolute path of the archive. Raises ConfigError."""
        return local_path("target", self.target)

    def planned(self, tree: ArchiveTree) -> list[Merge]:
        """The merges to do now. Raises NoArchive or ArchiveDamaged."""
        before = self.before or datetime_of_ms(now_ms()).date().isoformat()
        return merges(tree.catalogue().files, before=before, target_bytes=self.target_file_mb << 20)


def plan(options: CompactOptions, session: Session) -> Document:
    """What would be merged. Starts no Spark and changes nothing."""
    del session
    return _summary(options.planned(ArchiveTree(options.root())), ())


def run(options: CompactOptions, session: Session, report: Report) -> Document:
    """Merges. Raises NoArchive, TargetInUse, ArchiveNotWritable; ArchiveDamaged if rows differ from the manifests."""
    tree = ArchiveTree(options.root())
    tree.identity()
    with tree.locked(), tree.unread():
        tree.recover()
        planned = options.planned(tree)
        if not planned:
            return _summary((), ())
        begin_ms = monotonic_ms()
        name = f"compact-{tree.catalogue().next_compaction}"
        staged = _merged(session(), tree, tree.staging(name), planned)
        _check_same(tree, planned, staged)
        tree.commit(name, staged, replaces=[file.path for merge in planned for file in merge.files])
        tree.forget(tree.catalogue().spent())
    summary = _summary(planned, staged)
    report(JobProgress(summary["rows"], (monotonic_ms() - begin_ms) / 1000))
    return summary


JOB = Job("compact", CompactOptions, plan, run)


def _merged(spark: SparkSession, tree: ArchiveTree, directory: str, planned: Sequence[Merge]) -> list[StagedFile]:
    """Runs each merge as a task."""
    root = tree.root
    tasks = spark.sparkContext.parallelize(planned, len(planned))
    return [staged_of(text) for text in tasks.flatMap(lambda merge: merge_files(root, directory, merge)).collect()]


def merge_files(root: str, directory: str, merge: Merge) -> list[str]:
    """Writes the rows of some files as one, in order; returns its StagedFile as text.

    Keeps the rows of one queue of one file in memory.
    """
    rows = (
        batch
        for broker, queue_id in merge.queues()
        for file in merge.of_queue(broker, queue_id)
        for batch in _rows_of_queue(ArchiveTree(root).place(file.path), merge.topic, broker, queue_id)
    )
    return [staged_text(each) for each in write_rows(rows, directory, _NO_LIMIT)]


def _rows_of_queue(path: str, topic: str, broker: str, queue_id: int) -> Iterator[pa.RecordBatch]:
    filters: Any = [("broker", "==", broker), ("queueId", "==", queue_id)]
    table = pq.read_table(path, columns=list(STORED_NAMES), filters=filters, partitioning=None)
    for batch in table.to_batches(max_chunksize=READ_ROWS):
        topics = pa.array([topic], pa.string()).take(pa.array([0] * batch.num_rows, pa.int32()))
        columns = [topics if name == "topic" else batch.column(name) for name in COLUMN_NAMES]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow_schema(COLUMN_NAMES))


def _check_same(tree: ArchiveTree, planned: Sequence[Merge], staged: Sequence[StagedFile]) -> None:
    """Checks that the new files have the offsets of the old ones. Raises ArchiveDamaged."""
    before = spans_of((file.topic, file.ranges) for merge in planned for file in merge.files)
    after = spans_of((each.topic, each.file.ranges) for each in staged)
    rows_before, rows_after = sum(merge.rows for merge in planned), sum(each.file.rows for each in staged)
    same = {key: union(spans) for key, spans in before.items()} == {key: union(spans) for key, spans in after.items()}
    if not same or rows_before != rows_after:
        raise ArchiveDamaged(tree.root, f"the files to merge hold {rows_after} rows, their manifests {rows_before}")


def _summary(planned: Sequence[Merge], staged: Sequence[StagedFile]) -> Document:
    files = [file for merge in planned for file in merge.files]
    return {
        "rows": sum(file.rows for file in files),
        "files_before": len(files),
        "files_after": len(staged) if staged else len(planned),
        "bytes_before": sum(file.size_bytes for file in files),
        "bytes_after": sum(each.file.size_bytes for each in staged),
        "days": [{"topic": merge.topic, "date": merge.date, "files": len(merge.files)} for merge in planned],
    }
