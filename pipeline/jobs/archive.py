"""The job `archive`: writes topics to Parquet files, each message once, whatever is killed in between.

A streaming query reads; each of its batches becomes one commit of the archive (archive_tree). The checkpoint is inside the
archive, and both belong together. A batch that Spark repeats after a crash was either committed, and is then skipped (its
offsets are in the checkpoint, so its rows are the same), or nothing of it is in the archive. Spark passes on only ranges of
queues (range_source); tasks read the messages in them, and write the files.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final

from ...client.administration.pipeline_calls import PipelineCalls
from ...model.clock import monotonic_ms
from ...model.config import check_settings, setting
from ...model.errors import (
    ArchiveDamaged,
    ArchiveStartLost,
    CheckpointLost,
    ConfigError,
    QueryOffsetsNotFound,
    ZenitError,
)
from ..options.options import ReadOptions
from ..reading.offsets import QueueKey, QueueRange
from ..session.connections import connection
from .archives.archive_tree import ArchiveTree, StagedFile, local_path
from .archives.manifest import Catalogue, Commit, spans_of
from .archives.queue_bounds import begin_and_end
from .archives.range_files import write_ranges
from .archives.range_source import NAME, RangeSource, located, ranges_of
from .archives.spans import Span, Spans, common, union
from .job import Document, Job, Report, Session, moment_ms, required
from .summary import JobProgress, rows_behind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


log = logging.getLogger(__name__)

METADATA_BYTES_MAX: Final = 1 << 16
KEPT_TIMEOUT_MS: Final = 10_000
PLANNED: Final = "offsets"  # Spark's folders in a checkpoint
DONE: Final = "commits"


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveOptions:
    """What to archive, and where."""

    target: str = setting("", "The archive: a directory of this machine (needed).")
    topics: tuple[str, ...] = setting((), "Topics to archive; these or a pattern are needed.")
    pattern: str = setting("", "A regular expression for the names of topics, new ones too.")
    namesrv: str = setting("", "Name servers, HOST:PORT,...; else as for every command.")
    starting: str = setting("earliest", "Where a new archive begins: earliest, latest or a time.")
    target_file_mb: int = setting(128, "Size at which a file is closed, MiB.", minimum=1, maximum=65_536)
    batch_rows: int = setting(5_000_000, "Rows of one batch, which is committed as a whole.", minimum=1)
    continuous: bool = setting(False, "Go on until stopped (Ctrl-C); else end when all that there is now is archived.")
    trigger_seconds: float = setting(60.0, "continuous: a batch every so often.", minimum=0.1, maximum=86_400)
    fail_on_data_loss: bool = setting(True, "Fail where messages expired before they were archived; =false: go on.")
    on_corrupt: str = setting("fail", "Records that are damaged.", choices=("fail", "quarantine"))
    read_from: str = setting("broker", "Who is read: masters, or replicas.", choices=("broker", "replica"))

    def __post_init__(self) -> None:
        check_settings(self)
        required("target", self.target, "a directory")
        if bool(self.topics) == bool(self.pattern):
            raise ConfigError("topics", ",".join(self.topics), "topics or a pattern, one of them")
        self.starting_options()
        self.root()

    def root(self) -> str:
        """The absolute path of the archive. Raises ConfigError."""
        return local_path("target", self.target)

    def subscription(self) -> dict[str, str]:
        """What to read, as options of the source."""
        what = {"subscribe": ",".join(self.topics)} if self.topics else {"subscribePattern": self.pattern}
        return what | ({"namesrv": self.namesrv} if self.namesrv else {})

    def starting_options(self) -> dict[str, str]:
        """Where a new archive begins, as options of the source. Raises ConfigError."""
        if self.starting in ("earliest", "latest"):
            return {"startingOffsets": self.starting}
        at_ms = moment_ms("starting", self.starting)
        if at_ms is None:
            raise ConfigError("starting", "", "earliest, latest or a time")
        return {"startingTimestamp": str(at_ms), "startingOffsetsByTimestampStrategy": "latest"}


def plan(options: ArchiveOptions, session: Session) -> Document:
    """What would be archived: the range of each queue. Starts no Spark and changes nothing."""
    del session
    tree = ArchiveTree(options.root())
    known = _ends(tree.catalogue()) if tree.exists() else {}
    starts, ends = begin_and_end(options.subscription() | options.starting_options())
    if known:
        starts = dict.fromkeys(ends, 0) | known  # a queue that is not in the archive yet is read from its beginning
    queues = [
        {
            "topic": key.topic,
            "broker_name": key.broker,
            "queue_id": key.queue_id,
            "begin": starts[key],
            "end": ends[key],
            "rows": max(0, ends[key] - starts[key]),
        }
        for key in sorted(ends)
    ]
    return {"rows": sum(row["rows"] for row in queues), "target": tree.root, "queues": queues}


def run(options: ArchiveOptions, session: Session, report: Report) -> Document:
    """Archives all present messages, or until it is stopped.

    Raises ArchiveNotWritable, TargetInUse, CheckpointLost, ArchiveStartLost, ArchiveDamaged, and errors of the source.
    """
    tree = ArchiveTree(options.root())
    tree.create()
    with tree.locked():
        identity = tree.identify()
        tree.recover()
        source = _source(options, identity)
        batches = Batches.of(tree, located(source), options.target_file_mb << 20)
        start = KeptStart(source["queryName"], tree.checkpoint, batches.reading.namesrv)
        if not start.is_known():
            raise ArchiveStartLost(tree.root)
        query = _start(options, session(), source, batches)
        _watch(query, batches, start, report)
        return batches.summary() | {"target": tree.root, "rows_archived": tree.catalogue().rows}


JOB = Job("archive", ArchiveOptions, plan, run)


@dataclass(slots=True)
class Batches:
    """Makes each batch a commit. `last`: the last commit; `held`: the offsets in the archive."""

    tree: ArchiveTree
    reading: ReadOptions
    target_bytes: int
    last: Commit | None
    query: str | None
    held: dict[QueueKey, Spans]
    rows: int = 0
    files: int = 0
    size_bytes: int = 0
    count: int = 0
    begin_ms: int = field(default_factory=monotonic_ms)
    is_closed: bool = False
    writing: Lock = field(default_factory=Lock)

    @staticmethod
    def of(tree: ArchiveTree, reading: ReadOptions, target_bytes: int) -> Batches:
        """Creates it for an existing archive. Raises CheckpointLost if the archive was made with another checkpoint."""
        catalogue = tree.catalogue()
        last = catalogue.last_batch
        query = checkpoint_query(tree.checkpoint)
        if last is not None and last.query != query:
            raise CheckpointLost(tree.root)
        held = {key: union(spans) for key, spans in catalogue.spans().items()}
        return Batches(tree, reading, target_bytes, last, query, held)

    def write(self, frame: DataFrame, number: int) -> None:
        """Called by `foreachBatch`; when it returns, the batch counts as done for Spark.

        Raises CheckpointLost if the checkpoint is older than the archive, InterruptedError after `close`.
        """
        with self.writing:
            if self.is_closed:
                raise InterruptedError("the archive is closed")
            self._write(frame, number)

    def close(self) -> None:
        """Waits for the batch that is being written, and accepts no more: Spark ends a query while this may still run."""
        with self.writing:
            self.is_closed = True

    def progress(self, behind: int | None) -> JobProgress:
        """The progress so far."""
        return JobProgress(self.rows, (monotonic_ms() - self.begin_ms) / 1000, behind)

    def summary(self) -> Document:
        """The results so far."""
        return {"rows": self.rows, "bytes": self.size_bytes, "files": self.files, "batches": self.count}

    def _write(self, frame: DataFrame, number: int) -> None:
        ranges = ranges_of(frame)
        last = -1 if self.last is None else self.last.batch or 0
        if self.last is not None and number == last:
            self._check_same(self.last, ranges)
            return  # committed, but Spark did not learn of it: these rows are in the archive
        if number < last:
            raise CheckpointLost(self.tree.root)
        name = f"batch-{number}"
        context = frame.sparkSession.sparkContext
        staged = write_ranges(context, self.reading, ranges, self.tree.staging(name), self.target_bytes)
        self._check_new(staged)
        commit = self.tree.commit(name, staged, query=self._query_id())
        self.last = commit
        self.count += 1
        self.files += len(commit.files)
        self.rows += sum(file.rows for file in commit.files)
        self.size_bytes += sum(file.size_bytes for file in commit.files)

    def _query_id(self) -> str:
        if self.query is None:
            self.query = checkpoint_query(self.tree.checkpoint)
        if self.query is None:
            raise CheckpointLost(self.tree.root)
        return self.query

    def _check_same(self, commit: Commit, ranges: Sequence[QueueRange]) -> None:
        """Checks that a repeated batch is the committed one: with an older checkpoint it may be longer."""
        planned: dict[QueueKey, list[Span]] = {}
        for each in ranges:
            planned.setdefault(each.key, []).append((each.start, each.end))
        wanted = {key: union(spans) for key, spans in planned.items()}
        there = {key: union(spans) for key, spans in commit.spans().items()}
        if self.reading.fail_on_data_loss and self.reading.on_corrupt == "fail":
            is_same = wanted == there
        else:  # rows of it may have been skipped
            is_same = all(common(wanted.get(key, ()), spans) == spans for key, spans in there.items())
        if not is_same:
            raise CheckpointLost(self.tree.root)

    def _check_new(self, staged: Sequence[StagedFile]) -> None:
        """Checks that no row is in the archive already, as would happen with an older checkpoint."""
        for key, spans in spans_of((each.topic, each.file.ranges) for each in staged).items():
            held = self.held.get(key, ())
            if common(held, union(spans)):
                raise CheckpointLost(self.tree.root)
            self.held[key] = union([*held, *spans])


@dataclass(slots=True)
class KeptStart:
    """Where the archive began, as stored at the brokers under `name`.

    Spark asks for it until it has completed a batch, that is after the batch is in the archive. Only then is it useless.
    """

    name: str
    checkpoint: str
    namesrv: str | None
    is_told: bool = False

    def is_known(self) -> bool:
        """False if Spark will ask for it again, because it has planned a batch and completed none, and the brokers have
        dropped it.
        """
        if has_batch(self.checkpoint, DONE) or not has_batch(self.checkpoint, PLANNED):
            return True
        with connection(self.namesrv, "") as cluster:
            return PipelineCalls(cluster, timeout_ms=KEPT_TIMEOUT_MS).query_offsets(self.name) is not None

    def drop_once_done(self) -> None:
        """Drops it, once per run, if Spark has completed a batch. An error is logged: the next run tries again."""
        if self.is_told or not has_batch(self.checkpoint, DONE):
            return
        self.is_told = True
        try:
            with connection(self.namesrv, "") as cluster:
                PipelineCalls(cluster, timeout_ms=KEPT_TIMEOUT_MS).drop_query_offsets(self.name)
        except QueryOffsetsNotFound:  # an earlier run has dropped it
            return
        except ZenitError as error:
            log.warning("what the brokers keep of where an archive began stays until its next run: %s", error)


def has_batch(checkpoint: str, folder: str) -> bool:
    """Whether a checkpoint says that a batch is PLANNED, or DONE."""
    try:
        return any(name.isdigit() for name in os.listdir(os.path.join(checkpoint, folder)))
    except FileNotFoundError:
        return False


def checkpoint_query(checkpoint: str) -> str | None:
    """The id of the query that a checkpoint belongs to; None if there is none. Raises ArchiveDamaged."""
    path = os.path.join(checkpoint, "metadata")
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read(METADATA_BYTES_MAX))
    except FileNotFoundError:
        return None
    except ValueError:
        raise ArchiveDamaged(path, "no JSON") from None
    query = document.get("id") if isinstance(document, dict) else None
    if not isinstance(query, str):
        raise ArchiveDamaged(path, "it names no query")
    return query


def _source(options: ArchiveOptions, identity: str) -> dict[str, str]:
    """What is read, as options of the source. The brokers store the beginning of the query under the archive's own name."""
    return {
        **options.subscription(),
        **options.starting_options(),
        "queryName": f"archive-{identity}",
        "maxOffsetsPerTrigger": str(options.batch_rows),
        "failOnDataLoss": str(options.fail_on_data_loss).lower(),
        "onCorrupt": options.on_corrupt,
        "readFrom": options.read_from,
    }


def _start(options: ArchiveOptions, spark: SparkSession, source: dict[str, str], batches: Batches) -> StreamingQuery:
    spark.dataSource.register(RangeSource)
    writer = spark.readStream.format(NAME).options(**source).load().writeStream.foreachBatch(batches.write)
    writer = writer.queryName(source["queryName"]).option("checkpointLocation", "file://" + batches.tree.checkpoint)
    if options.continuous:
        writer = writer.trigger(processingTime=f"{options.trigger_seconds} seconds")
    else:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def _watch(query: StreamingQuery, batches: Batches, start: KeptStart, report: Report) -> None:
    """Waits for the end of the query, or ends it on Ctrl-C or SIGTERM: a batch that is not committed is not in the archive."""
    try:
        while not query.awaitTermination(1):
            start.drop_once_done()
            last = query.lastProgress
            report(batches.progress(rows_behind(last) if last is not None else None))
    except KeyboardInterrupt:
        query.stop()
    finally:
        batches.close()
    start.drop_once_done()


def _ends(catalogue: Catalogue) -> dict[QueueKey, int]:
    """Where each queue in the archive continues."""
    return {key: max(end for _, end in spans) for key, spans in catalogue.spans().items()}
