"""The job `verify`: checks that the archive has each message of the topics exactly once and unchanged.

Exits with 1 if it has not. For what it compares, and what counts as a finding, see verify_report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...model.clock import monotonic_ms
from ...model.config import check_settings, setting
from ...model.errors import TopicNotFound
from ..reading.offsets import QueueKey, QueueRange
from .archived_rows import file_frame, within
from .archives.archive_tree import ArchiveTree, local_path
from .archives.file_check import FileCheck, check_file
from .archives.manifest import ArchivedFile, Catalogue, spans_of
from .archives.queue_bounds import held
from .archives.row_compare import differing_rows
from .archives.spans import Span, count
from .archives.verify_report import FileFinding, comparable, facts_of, report
from .job import Document, Job, Report, Session, required
from .summary import JobProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES_PER_TASK: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyOptions:
    """Which archive, and how thoroughly."""

    target: str = setting("", "The archive: a directory of this machine (needed).")
    topics: tuple[str, ...] = setting((), "Of these topics only.")
    namesrv: str = setting("", "Name servers, HOST:PORT,...; else as for every command.")
    quick: bool = setting(False, "Compare offsets only; else each row is compared with the broker's.")

    def __post_init__(self) -> None:
        check_settings(self)
        required("target", self.target, "a directory")
        self.root()

    def root(self) -> str:
        """The absolute path of the archive. Raises ConfigError."""
        return local_path("target", self.target)

    def files(self, catalogue: Catalogue) -> list[ArchivedFile]:
        """The files to check."""
        return [file for file in catalogue.files if not self.topics or file.topic in self.topics]


def plan(options: VerifyOptions, session: Session) -> Document:
    """What would be read. Starts no Spark and changes nothing."""
    del session
    files = options.files(ArchiveTree(options.root()).catalogue())
    size_bytes = sum(file.size_bytes for file in files)
    return {"rows": sum(file.rows for file in files), "files": len(files), "bytes": size_bytes}


def run(options: VerifyOptions, session: Session, tell: Report) -> Document:
    """Reads the archive, asks the brokers, compares. Raises NoArchive, ArchiveDamaged, and errors of brokers."""
    tree = ArchiveTree(options.root())
    tree.identity()
    with tree.reading():
        return _verified(options, session, tell, tree)


JOB = Job("verify", VerifyOptions, plan, run)


def _verified(options: VerifyOptions, session: Session, tell: Report, tree: ArchiveTree) -> Document:
    catalogue = tree.settled()
    files = options.files(catalogue)
    begin_ms = monotonic_ms()
    checks = _checked(session(), tree, files)
    archived = spans_of((check.topic, check.ranges) for check in checks)
    rows = sum(count(spans) for spans in archived.values())
    tell(JobProgress(rows, (monotonic_ms() - begin_ms) / 1000))
    broker = _broker_spans(options, sorted({file.topic for file in files} | set(options.topics)))
    differing = {} if options.quick else _compared(options, session(), tree, files, archived, broker)
    findings = [FileFinding(check.path, check.problem) for check in checks if check.problem]
    findings += [FileFinding(path, "no manifest lists it") for path in _unlisted(tree, catalogue)]
    return report(facts_of(archived, broker, differing), findings, len(files), quick=options.quick)


def _checked(spark: SparkSession, tree: ArchiveTree, files: Sequence[ArchivedFile]) -> list[FileCheck]:
    """Checks every file, in tasks of a few."""
    if not files:
        return []
    root = tree.root
    context = spark.sparkContext
    slices = max(min(len(files), context.defaultParallelism), len(files) // FILES_PER_TASK)
    found: list[FileCheck] = context.parallelize(files, slices).map(lambda file: check_file(root, file)).collect()
    return found


def _unlisted(tree: ArchiveTree, before: Catalogue) -> list[str]:
    """Files of rows in the directories that no commit lists, now or before."""
    listed = {file.path for commit in (*before.commits, *tree.catalogue().commits) for file in commit.files}
    return [path for path in tree.listed() if path not in listed]


def _source(options: VerifyOptions) -> dict[str, str]:
    return {"namesrv": options.namesrv} if options.namesrv else {}


def _broker_spans(options: VerifyOptions, topics: Sequence[str]) -> dict[QueueKey, Span]:
    """The brokers' offsets of each queue; none for deleted topics."""
    found: dict[QueueKey, Span] = {}
    for topic in topics:
        try:
            there = held(_source(options) | {"subscribe": topic})
        except TopicNotFound:
            continue
        found |= {key: (there.minimum[key], end) for key, end in there.end.items()}
    return found


def _compared(
    options: VerifyOptions,
    spark: SparkSession,
    tree: ArchiveTree,
    files: Sequence[ArchivedFile],
    archived: Mapping[QueueKey, Sequence[Span]],
    broker: Mapping[QueueKey, Span],
) -> dict[QueueKey, int]:
    """How many rows of each queue differ from the broker's, among those that both have."""
    ranges = []
    for facts in facts_of(archived, broker, {}):
        bounds = comparable(facts)
        if bounds is not None:
            ranges.append(QueueRange(facts.key.topic, facts.key.broker, facts.key.queue_id, *bounds))
    if not ranges:
        return {}
    rows = within(file_frame(spark, tree, files), ranges)
    return differing_rows(spark, rows, ranges, _source(options))
