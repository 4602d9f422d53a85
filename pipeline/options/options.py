"""The options of the format "zenit", of its reader and of its writer: names, kinds, defaults, meanings. Pure.

`ReadOptions.parse` takes all options of a reader; `for_batch` and `for_stream` refuse those of the other, and fill in where
to begin. If Kafka's source has the same option, the name is Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from ...model.errors import OptionRefused
from ...model.names import retry_topic
from ...model.plain_dataclass import dataclass
from ...model.redelivery import dead_letter_topic
from ..column_names import COLUMN_NAMES, column_names, remaining_columns
from ..reading.offsets import EARLIEST_MARK, LATEST_MARK, QueueKey
from . import topic_values
from .boundary import EARLIEST, LATEST, Boundary, moment, moments, offsets
from .option import Given, option, options_of
from .option_values import duration_ms, flag, key_file, number, size_bytes, text, words

NUMBER_MAX: Final = (1 << 53) - 1  # exact in any JSON implementation


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a reader. Limits of 0: none. `given`: the names of the options that were given."""

    namesrv: str | None = option(
        "namesrv", text, "name servers, `a:9876,b:9876`; without it, those that the `zenit` command would take"
    )
    key: str | None = option(
        "key",
        key_file,
        "with a secured cluster, the path of a key file, on the driver and on each executor; without it, `$ZENIT_KEY` of each",
    )
    subscribe: tuple[str, ...] = option("subscribe", topic_values.topics, "topics, separated by commas", absent=())
    pattern: str | None = option(
        "subscribePattern",
        topic_values.pattern,
        "a regular expression; topics whose whole name it matches, those made later too",
    )
    assigned: tuple[QueueKey, ...] = option(
        "assign", topic_values.queues, 'single queues, `{"orders": {"broker-a": [0, 1]}}`', absent=()
    )
    message_types: tuple[str, ...] = option(
        "messageTypes",
        topic_values.message_types,
        "`normal`: the topics themselves; `retry`, `dlq`: what `group` is to get again, or gave up",
        default="normal",
    )
    starting_moment: Boundary | None = option(
        "startingTimestamp", moment, "milliseconds since the epoch; before the two that follow"
    )
    starting_moments: Boundary | None = option(
        "startingOffsetsByTimestamp", moments, 'such a time a queue, `{"orders": {"broker-a": {"0": 1760000000000}}}`'
    )
    starting_offsets: Boundary | None = option(
        "startingOffsets",
        offsets(EARLIEST, LATEST, lowest=EARLIEST_MARK),
        "`earliest` (a batch's default), `latest` (a stream's), or an offset a queue: -2 earliest, -1 latest",
    )
    none_from_time: Literal["error", "latest"] = option(
        "startingOffsetsByTimestampStrategy",
        words("error", "latest"),
        "`error` or `latest`: where a queue has nothing from that time on",
        default="error",
    )
    ending_moment: Boundary | None = option(
        "endingTimestamp", moment, "milliseconds since the epoch: what was stored before", used_by="batch"
    )
    ending_moments: Boundary | None = option(
        "endingOffsetsByTimestamp", moments, "such a time a queue", used_by="batch"
    )
    ending_offsets: Boundary = option(
        "endingOffsets",
        offsets(LATEST, lowest=LATEST_MARK),
        "`latest`, or an offset a queue: -1 latest",
        default="latest",
        used_by="batch",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        flag,
        "`false`: rows that expired are passed over, and counted in the log",
        default="true",
    )
    tolerate_unavailable: bool = option(
        "tolerateUnavailable",
        flag,
        "`true`: while a broker is away, the others' queues are read",
        default="false",
        used_by="stream",
    )
    rows_max: int = option(
        "maxOffsetsPerTrigger",
        number(1, NUMBER_MAX),
        "rows a batch, shared out in proportion; each queue that has any gives one at least",
        absent=0,
        used_by="stream",
    )
    bytes_max: int = option(
        "maxBytesPerTrigger",
        size_bytes(1, NUMBER_MAX),
        "bytes a batch, reckoned from the size of each queue's next rows",
        absent=0,
        used_by="stream",
    )
    rows_min: int = option(
        "minOffsetsPerTrigger", number(1, NUMBER_MAX), "wait for so many rows", absent=0, used_by="stream"
    )
    delay_max_ms: int = option(
        "maxTriggerDelay",
        duration_ms(1, 7 * 86_400_000),
        "but no longer than that",
        default="15m",
        used_by="stream",
    )
    partitions_min: int = option(
        "minPartitions", number(1, 100_000), "at least so many tasks, where there are so many rows", absent=0
    )
    partition_rows_max: int = option(
        "maxRecordsPerPartition", number(1, NUMBER_MAX), "at most so many rows a task", absent=0
    )
    filter: str | None = option("filter", topic_values.tags, "a tag expression, `buy || sell`, evaluated at the broker")
    sql_filter: str | None = option(
        "sqlFilter",
        topic_values.condition,
        "a condition on properties, `amount > 10 AND region = 'eu'`, evaluated at the broker",
    )
    columns: tuple[str, ...] = option(
        "columns", column_names, "the columns wanted, separated by commas; all without it", absent=COLUMN_NAMES
    )
    include_body: bool = option(
        "includeBody", flag, "`false`: without the column body, which is most of the bytes", default="true"
    )
    include_properties: bool = option(
        "includeProperties", flag, "`false`: without the column properties", default="true"
    )
    group: str | None = option("group", topic_values.group_name, "the group that the brokers see reading")
    commit_offsets: bool = option(
        "commitOffsets",
        flag,
        "`true`: tell the brokers how far `group` is, one batch late; for their lag tools only",
        default="false",
        used_by="stream",
    )
    read_from: Literal["broker", "replica"] = option(
        "readFrom", topic_values.read_from, "`broker`: masters; `replica`: slaves where there are", default="broker"
    )
    fetch_max_bytes: int = option(
        "fetchMaxBytes", size_bytes(1024, 256 << 20), "bytes of one request to a broker", default="4m"
    )
    request_timeout_ms: int = option(
        "requestTimeoutMs",
        number(100, 3_600_000),
        "how long one question to a broker may take, over all its tries",
        default="30000",
    )
    retries: int = option("retries", number(0, 1000), "how often it is asked again, within that time", default="30")
    query_name: str | None = option(
        "queryName",
        topic_values.query_name,
        "the name under which the brokers keep where the stream began; see Offsets",
        used_by="stream",
    )
    pushdown: bool = option(
        "pushdown",
        flag,
        "`true`: filters of the query are used to read less; needs the session's "
        "`spark.sql.python.filterPushdown.enabled`",
        default="false",
        used_by="batch",
    )
    on_corrupt: Literal["fail", "quarantine"] = option(
        "onCorrupt",
        words("fail", "quarantine"),
        "`fail`, or `quarantine`: damaged records are passed over, and counted in the log",
        default="fail",
    )
    given: frozenset[str] = frozenset()

    @staticmethod
    def parse(options: Mapping[str, str]) -> ReadOptions:
        """Raises UnknownOption, OptionRefused, InvalidParameter, InvalidName, SqlSyntaxError."""
        given = Given(options, ReadOptions)
        _refuse_contradictions(given)
        told = ReadOptions(**given.values(), given=frozenset(given.names()))
        columns = remaining_columns(
            told.columns, include_body=told.include_body, include_properties=told.include_properties
        )
        return replace(told, columns=columns)

    def for_batch(self) -> ReadOptions:
        """These options for a batch, from earliest to latest by default. Raises OptionRefused."""
        self._refuse("stream", "is for streams")
        starting = self.starting or EARLIEST
        if starting.kind == "latest" or LATEST_MARK in starting.offsets.values():
            raise OptionRefused("startingOffsets", "a batch that starts at latest has no rows")
        return replace(self, starting_offsets=self.starting_offsets or EARLIEST)

    def for_stream(self) -> ReadOptions:
        """These options for a stream, from latest on by default. Raises OptionRefused."""
        self._refuse("batch", "is for batches")
        if self.rows_min and 0 < self.rows_max < self.rows_min:
            raise OptionRefused("minOffsetsPerTrigger", "is above maxOffsetsPerTrigger")
        return replace(self, starting_offsets=self.starting_offsets or LATEST)

    def _refuse(self, used_by: str, reason: str) -> None:
        for each in READ_OPTIONS:
            if each.used_by == used_by and each.name in self.given:
                raise OptionRefused(each.name, reason)

    @property
    def topics(self) -> tuple[str, ...]:
        """The named topics, and those of the group. Empty: `pattern` or `assigned` says what to read."""
        of_group = {"retry": retry_topic, "dlq": dead_letter_topic}
        group = self.group or ""  # retries and dead letters require it
        return (*self.subscribe, *(topic(group) for kind, topic in of_group.items() if kind in self.message_types))

    @property
    def starting(self) -> Boundary | None:
        """As in Kafka's source: one time has priority over times per queue, and these over offsets. None: not given."""
        return self.starting_moment or self.starting_moments or self.starting_offsets

    @property
    def ending(self) -> Boundary:
        """The same for the end."""
        return self.ending_moment or self.ending_moments or self.ending_offsets

    @property
    def reading_group(self) -> str:
        """The group named in pulls."""
        return self.group or "spark-zenit-source"

    def reads(self, key: QueueKey) -> bool:
        """Whether a queue is to be read."""
        if self.assigned:
            return key in self.assigned
        return key.topic in self.topics or (self.pattern is not None and matches(self.pattern, key.topic))


READ_OPTIONS: Final = tuple(options_of(ReadOptions).values())


def matches(pattern: str, topic: str) -> bool:
    """Whether a pattern matches a whole name."""
    return re.fullmatch(pattern, topic) is not None


def _refuse_contradictions(given: Given) -> None:
    """Raises OptionRefused for options that contradict each other, before their values are read."""
    group = given.value("group")
    if given.value("commit_offsets") and group is None:
        raise OptionRefused("commitOffsets", "needs the option group")
    types = given.value("message_types")
    of_group = types != ("normal",)
    if of_group and group is None:
        raise OptionRefused("messageTypes", "retry and dlq need the option group")
    sources = ("subscribe", "pattern", "assigned")
    told = given.names(*sources)
    if "normal" not in types:
        if told:
            raise OptionRefused(told[0], "messageTypes has no normal, so there is nothing to read by it")
    elif len(told) != 1:
        reason = f"{' and '.join(told)} are given" if told else "none of them is given"
        one_of = ", ".join(options_of(ReadOptions)[source].name for source in sources)
        raise OptionRefused(one_of, f"exactly one says what to read; {reason}")
    elif of_group and not given.names("subscribe"):
        raise OptionRefused("messageTypes", f"retry and dlq go with subscribe, not with {told[0]}")
    filters = given.names("filter", "sql_filter")
    if len(filters) > 1:
        raise OptionRefused(", ".join(filters), "one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a writer. `topic` None: the rows have it; `batch_id` None: from a stream, or not given."""

    namesrv: str | None = option("namesrv", text, "as of the source")
    key: str | None = option("key", key_file, "as of the source")
    topic: str | None = option(
        "topic", topic_values.topic_name, "where rows go; without it, each row's column topic says so"
    )
    delivery: Literal["at-least-once", "dedup"] = option(
        "delivery",
        words("at-least-once", "dedup"),
        "`at-least-once`, or `dedup`: a batch that is written again changes nothing",
        default="at-least-once",
    )
    query_name: str | None = option(
        "queryName", topic_values.query_name, "with dedup, who writes: needed for a batch, a stream has its own"
    )
    batch_id: int | None = option(
        "batchId",
        number(0, (1 << 31) - 1),
        "with dedup, which batch of theirs it is: the same number, the same rows",
        used_by="batch",
    )
    route_by: Literal["group", "row"] = option(
        "routeBy",
        words("group", "row"),
        "`group`: rows of a message group go to one queue, in their order; `row`: each by its number in its task, so groups"
        " have no order",
        default="group",
    )
    request_timeout_ms: int = option(
        "requestTimeoutMs", number(100, 3_600_000), "how long one send may take, over all its tries", default="30000"
    )

    @staticmethod
    def parse(options: Mapping[str, str]) -> WriteOptions:
        """Raises UnknownOption, OptionRefused, InvalidParameter, InvalidName."""
        return WriteOptions(**Given(options, WriteOptions).values())


WRITE_OPTIONS: Final = tuple(options_of(WriteOptions).values())
