"""The options of the format "zenit" as values. Pure.

`ReadOptions.parse` takes all that a reader may be told; `for_batch` and `for_stream` refuse what is the other's, and
fill in where to begin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from ...model.errors import InvalidParameter, OptionRefused
from ...model.names import check_group, check_topic, retry_topic
from ...model.redelivery import dead_letter_topic
from ...model.subscription import Sql, Subscription
from ..column_names import chosen_columns
from ..reading.offsets import (
    EARLIEST_MARK,
    JSON_LENGTH_MAX,
    LATEST_MARK,
    QUEUES_MAX,
    Lives,
    Offsets,
    QueueKey,
    parse_lives,
    parse_offsets,
)
from .option_tables import READ_OPTIONS, WRITE_OPTIONS
from .option_values import Given

NUMBER_MAX: Final = (1 << 53) - 1  # what survives a trip through any JSON
TIME_MS_MAX: Final = 253_402_300_799_999  # the end of the year 9999
PATTERN_LENGTH_MAX: Final = 4096
QUERY_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,120}")
DELIVER_ONCE_AT_LEAST: Final = "at-least-once"
DEDUP: Final = "dedup"

_TYPES: Final = ("normal", "retry", "dlq")
_NO_TYPES: Final = ("fifo", "delay", "transaction")
_SOURCES: Final = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where a read begins or ends.

    `offsets`: an offset a queue, EARLIEST_MARK or LATEST_MARK; `times`: a time a queue; `time`: one for all; in
    milliseconds since the epoch. `lives`: which life of its topic the offsets are of, where they say so.
    """

    kind: Literal["earliest", "latest", "offsets", "time", "times"]
    offsets: Offsets = field(default_factory=dict)
    time_ms: int = 0
    option: str = ""
    lives: Lives = field(default_factory=dict)


EARLIEST: Final = Boundary("earliest")
LATEST: Final = Boundary("latest")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader was told. Limits of 0: none. `topics`, `pattern` or `assigned`: what to read, exactly one of them."""

    namesrv: str | None = None
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[QueueKey, ...] = ()
    starting: Boundary | None = None
    ending: Boundary | None = None
    none_from_time: Literal["error", "latest"] = "error"
    fail_on_data_loss: bool = True
    tolerate_unavailable: bool = False
    rows_max: int = 0
    bytes_max: int = 0
    rows_min: int = 0
    delay_max_ms: int = 900_000
    partitions_min: int = 0
    partition_rows_max: int = 0
    filter: str | None = None
    sql_filter: str | None = None
    columns: tuple[str, ...] = ()
    group: str | None = None
    commit_offsets: bool = False
    read_from: Literal["broker", "replica"] = "broker"
    fetch_max_bytes: int = 4 << 20
    request_timeout_ms: int = 30_000
    retries: int = 30
    query_name: str | None = None
    pushdown: bool = False
    on_corrupt: Literal["fail", "quarantine"] = "fail"
    given: frozenset[str] = frozenset()

    @staticmethod
    def parse(options: Mapping[str, str]) -> ReadOptions:
        """Raises UnknownOption, OptionRefused, InvalidParameter, InvalidName, SqlSyntaxError."""
        given = Given(options, READ_OPTIONS)
        group = given.text("group")
        if group is not None:
            check_group(group)
        commit_offsets = given.flag("commitOffsets", default=False)
        if commit_offsets and group is None:
            raise OptionRefused("commitOffsets", "needs the option group")
        topics, pattern, assigned = _what_to_read(given, group)
        tags, sql = _filters(given)
        return ReadOptions(
            namesrv=given.text("namesrv"),
            topics=topics,
            pattern=pattern,
            assigned=assigned,
            starting=_boundary(given, "starting", ("earliest", "latest"), EARLIEST_MARK),
            ending=_boundary(given, "ending", ("latest",), LATEST_MARK),
            none_from_time="error"
            if given.one_of("startingOffsetsByTimestampStrategy", ("error", "latest"), "error") == "error"
            else "latest",
            fail_on_data_loss=given.flag("failOnDataLoss", default=True),
            tolerate_unavailable=given.flag("tolerateUnavailable", default=False),
            rows_max=given.number("maxOffsetsPerTrigger", 0, minimum=1, maximum=NUMBER_MAX),
            bytes_max=given.size_bytes("maxBytesPerTrigger", 0, minimum=1, maximum=NUMBER_MAX),
            rows_min=given.number("minOffsetsPerTrigger", 0, minimum=1, maximum=NUMBER_MAX),
            delay_max_ms=given.duration_ms("maxTriggerDelay", 900_000, minimum=1, maximum=7 * 86_400_000),
            partitions_min=given.number("minPartitions", 0, minimum=1, maximum=100_000),
            partition_rows_max=given.number("maxRecordsPerPartition", 0, minimum=1, maximum=NUMBER_MAX),
            filter=tags,
            sql_filter=sql,
            columns=chosen_columns(
                given.text("columns"),
                include_body=given.flag("includeBody", default=True),
                include_properties=given.flag("includeProperties", default=True),
            ),
            group=group,
            commit_offsets=commit_offsets,
            read_from=_read_from(given),
            fetch_max_bytes=given.size_bytes("fetchMaxBytes", 4 << 20, minimum=1024, maximum=256 << 20),
            request_timeout_ms=given.number("requestTimeoutMs", 30_000, minimum=100, maximum=3_600_000),
            retries=given.number("retries", 30, minimum=0, maximum=1000),
            query_name=_query_name(given),
            pushdown=given.flag("pushdown", default=False),
            on_corrupt="fail" if given.one_of("onCorrupt", ("fail", "quarantine"), "fail") == "fail" else "quarantine",
            given=frozenset(option.name for option in READ_OPTIONS if option.name in given),
        )

    def for_batch(self) -> ReadOptions:
        """These of a batch, from earliest to latest unless told. Raises OptionRefused."""
        self._refuse("stream", "is for streams")
        starting = self.starting or EARLIEST
        if starting.kind == "latest" or LATEST_MARK in starting.offsets.values():
            raise OptionRefused("startingOffsets", "a batch that starts at latest has no rows")
        return replace(self, starting=starting, ending=self.ending or LATEST)

    def for_stream(self) -> ReadOptions:
        """These of a stream, from latest on unless told. Raises OptionRefused."""
        self._refuse("batch", "is for batches")
        if self.rows_min and 0 < self.rows_max < self.rows_min:
            raise OptionRefused("minOffsetsPerTrigger", "is above maxOffsetsPerTrigger")
        return replace(self, starting=self.starting or LATEST)

    def _refuse(self, used_by: str, reason: str) -> None:
        for option in READ_OPTIONS:
            if option.used_by == used_by and option.name in self.given:
                raise OptionRefused(option.name, reason)

    @property
    def reading_group(self) -> str:
        """The group that pulls are made for."""
        return self.group or "spark-zenit-source"

    def reads(self, key: QueueKey) -> bool:
        """Whether a queue is among those to be read."""
        if self.assigned:
            return key in self.assigned
        return key.topic in self.topics or (self.pattern is not None and matches(self.pattern, key.topic))


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a writer was told. `topic` None: the rows say; `batch_id` None: a stream says, or nobody."""

    namesrv: str | None = None
    topic: str | None = None
    delivery: Literal["at-least-once", "dedup"] = "at-least-once"
    query_name: str | None = None
    batch_id: int | None = None
    request_timeout_ms: int = 30_000
    route_by: Literal["group", "row"] = "group"

    @staticmethod
    def parse(options: Mapping[str, str]) -> WriteOptions:
        """Raises UnknownOption, OptionRefused, InvalidParameter, InvalidName."""
        given = Given(options, WRITE_OPTIONS)
        topic = given.text("topic")
        batch_id = given.number("batchId", -1, minimum=0, maximum=(1 << 31) - 1)
        delivery = given.one_of("delivery", (DELIVER_ONCE_AT_LEAST, DEDUP), DELIVER_ONCE_AT_LEAST)
        return WriteOptions(
            namesrv=given.text("namesrv"),
            topic=None if topic is None else check_topic(topic),
            delivery="dedup" if delivery == DEDUP else "at-least-once",
            query_name=_query_name(given),
            batch_id=None if batch_id < 0 else batch_id,
            request_timeout_ms=given.number("requestTimeoutMs", 30_000, minimum=100, maximum=3_600_000),
            route_by="row" if given.one_of("routeBy", ("group", "row"), "group") == "row" else "group",
        )


def matches(pattern: str, topic: str) -> bool:
    """Whether a pattern matches the whole of a name."""
    return re.fullmatch(pattern, topic) is not None


# ---- parts


def _what_to_read(given: Given, group: str | None) -> tuple[tuple[str, ...], str | None, tuple[QueueKey, ...]]:
    """(topics, pattern, queues), one of them."""
    types = given.names("messageTypes") or ("normal",)
    for name in types:
        if name in _NO_TYPES:
            reason = f"{name}: a topic holds messages of any kind; see the columns messageGroup and deliverTimestamp"
            raise OptionRefused("messageTypes", reason)
        if name not in _TYPES:
            raise InvalidParameter("messageTypes", name[:64], ", ".join(_TYPES))
    of_group: list[str] = []
    if types != ("normal",):
        if group is None:
            raise OptionRefused("messageTypes", "retry and dlq need the option group")
        of_group = [retry_topic(group)] * ("retry" in types) + [dead_letter_topic(group)] * ("dlq" in types)
    told = [name for name in _SOURCES if name in given]
    if "normal" not in types:
        if told:
            raise OptionRefused(told[0], "messageTypes has no normal, so there is nothing to read by it")
        return tuple(of_group), None, ()
    if len(told) != 1:
        reason = f"{' and '.join(told)} are given" if told else "none of them is given"
        raise OptionRefused("subscribe, subscribePattern, assign", f"exactly one says what to read; {reason}")
    if told[0] == "subscribe":
        topics = given.names("subscribe") or ()
        return (*(check_topic(topic) for topic in topics), *of_group), None, ()
    if of_group:
        raise OptionRefused("messageTypes", f"retry and dlq go with subscribe, not with {told[0]}")
    if told[0] == "assign":
        return (), None, _assigned(given.text("assign") or "")
    return (), _pattern(given.text("subscribePattern") or ""), ()


def _pattern(text: str) -> str:
    if len(text) > PATTERN_LENGTH_MAX:
        raise InvalidParameter("subscribePattern", f"{len(text)} characters", f"at most {PATTERN_LENGTH_MAX}")
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidParameter("subscribePattern", text[:200], f"a regular expression ({error})") from None
    return text


def _assigned(text: str) -> tuple[QueueKey, ...]:
    shape = 'JSON of the shape {"topic": {"broker": [0, 1]}}'
    try:
        document = json.loads(text) if len(text) <= JSON_LENGTH_MAX else {}
        rows = [
            (topic, broker, queue_id)
            for topic, brokers in document.items()
            for broker, queue_ids in brokers.items()
            for queue_id in queue_ids
        ]
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise InvalidParameter("assign", text[:200], shape) from None
    if not rows or len(rows) > QUEUES_MAX:
        raise InvalidParameter("assign", f"{len(rows)} queues", f"1 to {QUEUES_MAX}")
    for topic, _, queue_id in rows:
        check_topic(topic)
        if type(queue_id) is not int or not 0 <= queue_id < 1 << 30:
            raise InvalidParameter("assign", str(queue_id)[:64], shape)
    return tuple(sorted({QueueKey(*row) for row in rows}))


def _boundary(given: Given, side: str, words: tuple[str, ...], lowest: int) -> Boundary | None:
    """As Kafka's source has it: one time goes before times by queue, and these before offsets."""
    name = f"{side}Timestamp"
    if name in given:
        return Boundary("time", time_ms=given.number(name, 0, minimum=0, maximum=TIME_MS_MAX), option=name)
    name = f"{side}OffsetsByTimestamp"
    if (text := given.text(name)) is not None:
        return Boundary("times", parse_offsets(name, text), option=name)
    name = f"{side}Offsets"
    text = given.text(name)
    if text is None:
        return None
    if text.lower() == "earliest" and "earliest" in words:
        return EARLIEST
    if text.lower() == "latest":
        return LATEST
    if not text.startswith("{"):
        raise InvalidParameter(name, text[:64], f"{', '.join(words)}, or JSON with an offset for each queue")
    return Boundary("offsets", parse_offsets(name, text, lowest=lowest), option=name, lives=parse_lives(name, text))


def _filters(given: Given) -> tuple[str | None, str | None]:
    tags, sql = given.text("filter"), given.text("sqlFilter")
    if tags is not None and sql is not None:
        raise OptionRefused("filter, sqlFilter", "one of them")
    if tags is not None:
        Subscription.parse("", tags)
    if sql is not None:
        Sql(sql)
    return tags, sql


def _read_from(given: Given) -> Literal["broker", "replica"]:
    value = given.one_of("readFrom", ("broker", "replica", "tiered"), "broker")
    if value == "tiered":
        raise OptionRefused("readFrom", "this version has no tiered storage; broker or replica")
    return "replica" if value == "replica" else "broker"


def _query_name(given: Given) -> str | None:
    name = given.text("queryName")
    if name is not None and QUERY_NAME.fullmatch(name) is None:
        raise InvalidParameter("queryName", name[:64], "letters, digits, '_', '.', '-', 1 to 120 characters")
    return name
