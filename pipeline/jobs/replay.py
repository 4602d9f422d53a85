"""The job `replay`: sends messages of an archive, or of a topic's past offsets, to a topic again.

They are sent chunk by chunk (replay_plan). After each chunk its number is stored, so a killed replay continues there. With
`delivery=dedup` the broker knows what it has of the interrupted chunk, and nothing is sent twice. Each message has two
properties with its origin, the first place where it was stored.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from ...client.administration.pipeline_calls import PipelineCalls
from ...model.clock import monotonic_ms, sleep_ms
from ...model.config import check_settings, setting
from ...model.errors import ArchiveNotWritable, ConfigError, QueryOffsetsNotFound, ZenitError
from ...model.names import check_topic
from ...model.sql92.condition import Condition
from ...model.subscription import Sql, Subscription
from ..reading.offsets import Offsets, QueueRange, parse_offsets
from ..session.connections import cluster_that_answers, connection
from ..writing.batch_pins import finish_name, pin_name
from .archived_rows import file_frame, within
from .archives.archive_tree import ArchiveTree, local_path
from .archives.durable_files import locked_file, read_bounded, write_whole
from .archives.manifest import ArchivedFile, spans_of
from .archives.queue_bounds import between_times
from .archives.replay_plan import STATE_BYTES_MAX, Replay, decode_replay, digest_of, encode_replay, new_replay
from .archives.row_compare import stored_rows
from .archives.spans import union
from .job import Document, Job, Report, Session, moment_ms, required
from .summary import JobProgress

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

log = logging.getLogger(__name__)

DEFAULT_STATE_DIRECTORY: Final = "~/.zenit/replays"
ORIGIN: Final = "REPLAY_ORIGIN"  # orders@broker-a:3/1234
ORIGIN_MESSAGE_ID: Final = "REPLAY_ORIGIN_MESSAGE_ID"
CLUSTER_TIMEOUT_MS: Final = 10_000
_NAME: Final = re.compile(r"[\w-]{1,80}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayOptions:
    """What to send, and where to."""

    to: str = setting("", "The topic to send to (needed).")
    archive: str = setting("", "Send the messages of this archive; else those that brokers still have of the topics.")
    topics: tuple[str, ...] = setting((), "Topics whose messages are sent; needed without an archive.")
    since: str = setting("", "Those stored at or after this time.")
    until: str = setting("", "Those stored before this time.")
    starting_offsets: str = setting("", 'From these offsets on, as JSON {"topic": {"broker-a": {"0": 17}}}.')
    ending_offsets: str = setting("", "Up to these offsets, which are not sent.")
    filter: str = setting("", "Those with one of these tags: a || b.")
    sql: str = setting("", "Those whose properties meet an SQL92 condition: amount > 10 AND region = 'eu'.")
    rate: float = setting(0.0, "Messages a second at most; 0: as fast as it goes.", minimum=0)
    delivery: str = setting(
        "dedup",
        "What a repeated try may do: dedup: nothing; at-least-once: send twice.",
        choices=("dedup", "at-least-once"),
    )
    name: str = setting("", "The replay's name: run again under it, it goes on; else made of these options.")
    state_dir: str = setting(DEFAULT_STATE_DIRECTORY, "Where is written down how far it is.")
    namesrv: str = setting("", "Name servers, HOST:PORT,...; else as for every command.")

    def __post_init__(self) -> None:
        check_settings(self)
        required("to", self.to, "a topic")
        check_topic(self.to)
        if not self.archive and not self.topics:
            raise ConfigError("topics", "", "topics, or an archive")
        if self.filter and self.sql:
            raise ConfigError("sql", self.sql, "filter or sql, one of them")
        if self.archive:
            local_path("archive", self.archive)
        if self.name and not _NAME.fullmatch(self.name):
            raise ConfigError("name", self.name, "letters, digits, '_' and '-', 1 to 80 characters")
        since_ms, until_ms = self.times()
        if since_ms is not None and until_ms is not None and since_ms >= until_ms:
            raise ConfigError("until", self.until, "a time after since")
        self.offsets()
        if self.filter:
            Subscription.parse("", self.filter)
        if self.sql:
            Sql(self.sql)

    def times(self) -> tuple[int | None, int | None]:
        """[since, until), ms since the epoch; None: no bound. Raises ConfigError."""
        return moment_ms("since", self.since), moment_ms("until", self.until)

    def offsets(self) -> tuple[Offsets, Offsets]:
        """The first and end offsets of the named queues. Raises InvalidParameter."""
        texts = (("starting_offsets", self.starting_offsets), ("ending_offsets", self.ending_offsets))
        starting, ending = (parse_offsets(name, text) if text else {} for name, text in texts)
        return starting, ending

    def source(self) -> dict[str, str]:
        """How to reach the brokers, as options of the source and the sink."""
        return {"namesrv": self.namesrv} if self.namesrv else {}

    def reading(self) -> AbstractContextManager[None]:
        """If there is an archive, prevents the removal of its files meanwhile. Raises NoArchive, TargetInUse."""
        if not self.archive:
            return nullcontext()
        tree = ArchiveTree(local_path("archive", self.archive))
        tree.identity()
        return tree.reading()

    def digest(self) -> str:
        """The digest of what is sent, and where to; the rate and the machine do not matter."""
        told = asdict(self)
        for name in ("rate", "name", "state_dir", "namesrv"):
            del told[name]
        return digest_of(told)


@dataclass(frozen=True, slots=True)
class ReplayedRows:
    """The source of a replay's rows. `tree`, `files`: of the archive; None: the brokers."""

    options: ReplayOptions
    tree: ArchiveTree | None
    files: tuple[ArchivedFile, ...]

    @staticmethod
    def of(options: ReplayOptions) -> ReplayedRows:
        """Raises NoArchive, ArchiveDamaged."""
        if not options.archive:
            return ReplayedRows(options, None, ())
        tree = ArchiveTree(local_path("archive", options.archive))
        since_ms, until_ms = options.times()
        files = [
            file
            for file in tree.settled().files
            if (not options.topics or file.topic in options.topics)
            and (since_ms is None or file.stored_to_ms >= since_ms)
            and (until_ms is None or file.stored_from_ms < until_ms)
        ]
        return ReplayedRows(options, tree, tuple(files))

    def ranges(self) -> list[QueueRange]:
        """The ranges to send, before filters. Raises TopicNotFound, and errors of brokers."""
        if self.tree is None:
            settings = self.options.source() | {"subscribe": ",".join(self.options.topics)}
            found = between_times(settings, *self.options.times())
        else:
            spans = spans_of((file.topic, file.ranges) for file in self.files)
            found = [
                QueueRange(key.topic, key.broker, key.queue_id, begin, end)
                for key, listed in sorted(spans.items())
                for begin, end in union(listed)
            ]
        return cut(found, *self.options.offsets())

    def frame(self, spark: SparkSession, ranges: Sequence[QueueRange]) -> DataFrame:
        """The wanted rows of some ranges."""
        from pyspark.sql import functions as f

        options = self.options
        if self.tree is None:
            settings = options.source()
            settings |= {"filter": options.filter} if options.filter else {}
            settings |= {"sqlFilter": options.sql} if options.sql else {}
            rows = stored_rows(spark, ranges, settings)
        else:
            wanted = {each.key for each in ranges}
            files = [file for file in self.files if wanted & spans_of([(file.topic, file.ranges)]).keys()]
            rows = within(file_frame(spark, self.tree, files), ranges)
            tags = Subscription.parse("", options.filter).tags
            rows = rows.where(f.col("tags").isin(sorted(tags))) if tags else rows
            rows = matching(rows, options.sql) if options.sql else rows
        since_ms, until_ms = options.times()
        stored = f.col("storeTimestamp")
        rows = rows if since_ms is None else rows.where(stored >= f.timestamp_millis(f.lit(since_ms)))
        return rows if until_ms is None else rows.where(stored < f.timestamp_millis(f.lit(until_ms)))


def plan(options: ReplayOptions, session: Session) -> Document:
    """How many messages would be sent. Changes nothing; starts Spark only to apply a filter or a time."""
    rows = ReplayedRows.of(options)
    ranges = rows.ranges()
    number = sum(each.rows for each in ranges)
    if ranges and (options.filter or options.sql or options.since or options.until):
        state = new_replay("", "", ranges, rows_per_second=0)
        number = sum(rows.frame(session(), state.chunk(chunk)).count() for chunk in range(state.chunks))
    return {"rows": number, "to": options.to, "queues": len({each.key for each in ranges})}


def run(options: ReplayOptions, session: Session, report: Report) -> Document:
    """Sends what was not sent yet.

    Raises ReplayChanged, ReplayElsewhere, TargetInUse, ArchiveNotWritable (its state), and errors of archive, source and
    sink.
    """
    digest = options.digest()
    name = options.name or f"replay-{digest[:12]}"
    directory = os.path.abspath(os.path.expanduser(options.state_dir))
    path = os.path.join(directory, f"{name}.json")
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise ArchiveNotWritable(directory, error.strerror or str(error)) from error
    with locked_file(os.path.join(directory, f"{name}.lock"), f"the replay {name}"), options.reading():
        rows = ReplayedRows.of(options)
        state = _state(path, name, digest, rows, options)
        already = state.sent
        begin_ms = monotonic_ms()
        while state.next_chunk < state.chunks:
            number = _send(options, session(), rows, state)
            state = state.done(number)
            write_whole(path, encode_replay(state))
            sent = state.sent - already
            seconds = (monotonic_ms() - begin_ms) / 1000
            report(JobProgress(sent, seconds, state.left))
            if options.rate and state.next_chunk < state.chunks and (wait_s := sent / options.rate - seconds) > 0:
                sleep_ms(wait_s * 1000)
        _forget(options, state)
    return {
        "rows": state.sent - already,
        "rows_before": already,
        "to": options.to,
        "name": name,
        "chunks": state.chunks,
    }


JOB = Job("replay", ReplayOptions, plan, run)


def cut(ranges: Sequence[QueueRange], starting: Offsets, ending: Offsets) -> list[QueueRange]:
    """The ranges, cut to the given offsets of the queues that have any."""
    found = []
    for each in ranges:
        start, end = max(each.start, starting.get(each.key, 0)), min(each.end, ending.get(each.key, each.end))
        if start < end:
            found.append(replace(each, start=start, end=end))
    return found


def matching(rows: DataFrame, sql: str) -> DataFrame:
    """The rows whose properties meet a condition, as the broker would evaluate it."""
    from pyspark.sql.pandas.functions import arrow_udf

    def meets(properties: pa.Array) -> pa.Array:
        return pa.array(meet(sql, properties), pa.bool_())

    udf = arrow_udf(meets, "boolean")  # type: ignore[call-overload]  # its stubs ask for what its code warns of
    return rows.where(udf("properties"))


def meet(sql: str, properties: pa.Array) -> list[bool]:
    """Whether each message's properties meet a condition."""
    condition = Condition(sql)
    columns = [pc.map_lookup(properties, pa.scalar(name.decode()), "first").to_pylist() for name in condition.names]
    rows = zip(*columns, strict=True) if columns else [()] * len(properties)
    return [condition.matches([None if text is None else text.encode() for text in row]) for row in rows]


def _state(path: str, name: str, digest: str, rows: ReplayedRows, options: ReplayOptions) -> Replay:
    """The stored state of this replay, or a new one.

    Raises ReplayChanged, ReplayElsewhere, ArchiveDamaged, ArchiveNotWritable, and errors of brokers.
    """
    cluster_id = cluster_that_answers(options.namesrv or None, timeout_ms=CLUSTER_TIMEOUT_MS)
    try:
        state = decode_replay(read_bounded(path, STATE_BYTES_MAX), path)
    except FileNotFoundError:
        state = new_replay(uuid4().hex, digest, rows.ranges(), rows_per_second=options.rate, cluster_id=cluster_id)
        try:
            write_whole(path, encode_replay(state))
        except OSError as error:
            raise ArchiveNotWritable(os.path.dirname(path), error.strerror or str(error)) from error
    state.check(name, path, digest=digest, cluster_id=cluster_id)
    return state


def _send(options: ReplayOptions, spark: SparkSession, rows: ReplayedRows, state: Replay) -> int:
    """Sends the next chunk; returns the number of messages in it.

    The partition and position of a row depend only on the rows, not on files or tasks: they are part of its identity.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    place = ("topic", "broker", "queueId")
    counted = Observation()
    ordered = rows.frame(spark, state.chunk(state.next_chunk)).repartition(state.partitions, *place)
    ordered = ordered.sortWithinPartitions(*place, "queueOffset").observe(counted, f.count("*").alias("rows"))
    settings = options.source() | {"topic": options.to, "delivery": options.delivery}
    if options.delivery == "dedup":
        settings |= {"queryName": _query(state), "batchId": str(state.next_chunk)}
    ordered.select("body", "keys", "tags", "messageGroup", _properties().alias("properties"), "flag").write.format(
        "zenit"
    ).options(**settings).mode("append").save()
    return int(counted.get["rows"])


def _forget(options: ReplayOptions, state: Replay) -> None:
    """Drops what the brokers keep for a repeated chunk, after all is sent and the state is stored."""
    if options.delivery != "dedup":
        return
    query = _query(state)
    try:
        with connection(options.namesrv or None, state.cluster_id) as cluster:
            calls = PipelineCalls(cluster, timeout_ms=CLUSTER_TIMEOUT_MS)
            for name in (pin_name(query, options.to), finish_name(query, options.to)):
                with suppress(QueryOffsetsNotFound):  # nothing was sent, or an earlier run has dropped it
                    calls.drop_query_offsets(name)
    except ZenitError as error:
        log.warning("what the brokers keep of a replay that is done stays until it is dropped: %s", error)


def _query(state: Replay) -> str:
    return f"replay-{state.identity}"


def _properties() -> Column:
    """A message's own properties, and its origin."""
    from pyspark.sql import functions as f

    queue_id, offset = f.col("queueId").cast("string"), f.col("queueOffset").cast("string")
    place = f.concat("topic", f.lit("@"), "broker", f.lit(":"), queue_id, f.lit("/"), offset)
    origins = f.create_map(
        f.lit(ORIGIN),
        f.coalesce(f.col("properties")[ORIGIN], place),
        f.lit(ORIGIN_MESSAGE_ID),
        f.coalesce(f.col("properties")[ORIGIN_MESSAGE_ID], f.col("messageId")),
    )
    # The sink leaves out the system's own properties.
    own = f.coalesce("properties", f.create_map().cast("map<string,string>"))
    own = f.map_filter(own, lambda name, _: ~name.isin(ORIGIN, ORIGIN_MESSAGE_ID))
    return f.map_concat(own, origins)
