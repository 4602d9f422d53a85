"""What a wrong value of each option is answered with, word for word: programs and people look for these texts."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidParameter, OptionRefused, ZenitError
from zenitmq.pipeline.column_names import COLUMN_NAMES
from zenitmq.pipeline.options.option import Option
from zenitmq.pipeline.options.options import READ_OPTIONS, WRITE_OPTIONS, ReadOptions, WriteOptions

ALL_COLUMNS = ", ".join(COLUMN_NAMES)
READ_ERRORS = [
    (
        "key",
        "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs",
        "key = '(hidden)': expected the path of a key file, which each executor has too; not a key",
    ),
    ("subscribe", " , ", "subscribe = ',': expected names, separated by commas"),
    ("subscribe", "a/b", "topic name 'a/b': letters, digits, '_', '-', '%', '|' only, 1 to 127 characters"),
    ("messageTypes", "dlq", "option messageTypes: retry and dlq need the option group"),
    (
        "messageTypes",
        "fifo",
        "option messageTypes: fifo: a topic holds messages of any kind; see the columns messageGroup and deliverTimestamp",
    ),
    ("messageTypes", "letters", "messageTypes = 'letters': expected normal, retry, dlq"),
    ("commitOffsets", "true", "option commitOffsets: needs the option group"),
    ("commitOffsets", "perhaps", "commitOffsets = 'perhaps': expected true or false"),
    (
        "subscribePattern",
        "(",
        "subscribePattern = '(': expected a regular expression (missing ), unterminated subpattern at position 0)",
    ),
    ("assign", "{", 'assign = \'{\': expected JSON of the shape {"topic": {"broker": [0, 1]}}'),
    ("assign", "{}", "assign = '0 queues': expected 1 to 100000"),
    ("assign", '{"t": {"a": [true]}}', 'assign = \'True\': expected JSON of the shape {"topic": {"broker": [0, 1]}}'),
    (
        "assign",
        '{"t": {"a": 1}}',
        'assign = \'{"t": {"a": 1}}\': expected JSON of the shape {"topic": {"broker": [0, 1]}}',
    ),
    (
        "assign",
        '{"a/b": {"a": [1]}}',
        "topic name 'a/b': letters, digits, '_', '-', '%', '|' only, 1 to 127 characters",
    ),
    ("failOnDataLoss", "yes", "failOnDataLoss = 'yes': expected true or false"),
    ("tolerateUnavailable", "1", "tolerateUnavailable = '1': expected true or false"),
    ("includeBody", "no", "includeBody = 'no': expected true or false"),
    ("includeProperties", "no", "includeProperties = 'no': expected true or false"),
    ("pushdown", "no", "pushdown = 'no': expected true or false"),
    ("maxOffsetsPerTrigger", "0", "maxOffsetsPerTrigger = '0': expected 1 to 9007199254740991"),
    ("maxOffsetsPerTrigger", "many", "maxOffsetsPerTrigger = 'many': expected a whole number, 1 to 9007199254740991"),
    (
        "maxOffsetsPerTrigger",
        "9007199254740992",
        "maxOffsetsPerTrigger = '9007199254740992': expected 1 to 9007199254740991",
    ),
    (
        "maxOffsetsPerTrigger",
        "999999999999999999999",
        "maxOffsetsPerTrigger = '999999999999999999999': expected a whole number, 1 to 9007199254740991",
    ),
    ("minOffsetsPerTrigger", "-1", "minOffsetsPerTrigger = '-1': expected 1 to 9007199254740991"),
    ("maxBytesPerTrigger", "1 tb", "maxBytesPerTrigger = '1 tb': expected bytes, such as 1048576, 512k or 16m"),
    ("maxBytesPerTrigger", "0", "maxBytesPerTrigger = '0': expected 1 to 9007199254740991"),
    ("maxTriggerDelay", "15", "maxTriggerDelay = '15': expected a time such as 500ms, 30s, 15m, 2h or 1d"),
    ("maxTriggerDelay", "900 d", "maxTriggerDelay = '900 d': expected 1 to 604800000"),
    ("minPartitions", "1000000", "minPartitions = '1000000': expected 1 to 100000"),
    ("maxRecordsPerPartition", "0", "maxRecordsPerPartition = '0': expected 1 to 9007199254740991"),
    ("fetchMaxBytes", "1", "fetchMaxBytes = '1': expected 1024 to 268435456"),
    ("fetchMaxBytes", "1g", "fetchMaxBytes = '1g': expected 1024 to 268435456"),
    ("requestTimeoutMs", "99", "requestTimeoutMs = '99': expected 100 to 3600000"),
    ("retries", "1001", "retries = '1001': expected 0 to 1000"),
    (
        "columns",
        "body,bodies",
        f"columns = 'bodies': expected names out of {ALL_COLUMNS}",
    ),
    (
        "columns",
        ",",
        f"columns = ',': expected at least one of {ALL_COLUMNS}",
    ),
    (
        "startingTimestamp",
        "yesterday",
        "startingTimestamp = 'yesterday': expected a whole number, 0 to 253402300799999",
    ),
    ("startingTimestamp", "-1", "startingTimestamp = '-1': expected 0 to 253402300799999"),
    ("startingTimestamp", "253402300800000", "startingTimestamp = '253402300800000': expected 0 to 253402300799999"),
    (
        "startingOffsets",
        "first",
        "startingOffsets = 'first': expected earliest, latest, or JSON with an offset for each queue",
    ),
    ("startingOffsets", "{", 'startingOffsets = \'{\': expected JSON of the shape {"topic": {"broker": {"0": 17}}}'),
    ("startingOffsets", '{"t": {"a": {"0": -3}}}', "startingOffsets = '-3': expected a whole number from -2 on"),
    (
        "startingOffsetsByTimestamp",
        '{"t": {"a": {"0": -1}}}',
        "startingOffsetsByTimestamp = '-1': expected a whole number from 0 on",
    ),
    (
        "startingOffsetsByTimestamp",
        "latest",
        'startingOffsetsByTimestamp = \'latest\': expected JSON of the shape {"topic": {"broker": {"0": 17}}}',
    ),
    (
        "startingOffsetsByTimestampStrategy",
        "none",
        "startingOffsetsByTimestampStrategy = 'none': expected error or latest",
    ),
    ("endingTimestamp", "x", "endingTimestamp = 'x': expected a whole number, 0 to 253402300799999"),
    (
        "endingOffsetsByTimestamp",
        "[]",
        'endingOffsetsByTimestamp = \'[]\': expected JSON of the shape {"topic": {"broker": {"0": 17}}}',
    ),
    ("endingOffsets", "earliest", "endingOffsets = 'earliest': expected latest, or JSON with an offset for each queue"),
    ("endingOffsets", '{"t": {"a": {"0": -2}}}', "endingOffsets = '-2': expected a whole number from -1 on"),
    (
        "filter",
        "a\x01",
        "tags = \"'a\\\\x01'\": expected at most 16384 characters, none of them 0, 1, 2 or half of a pair",
    ),
    ("sqlFilter", "amount >", "condition, character 9: found the end, expected a property or a value"),
    ("group", "a b", "group name 'a b': letters, digits, '_', '-', '%', '|' only, 1 to 120 characters"),
    ("readFrom", "tiered", "option readFrom: this version has no tiered storage; broker or replica"),
    ("readFrom", "disk", "readFrom = 'disk': expected broker or replica or tiered"),
    ("onCorrupt", "skip", "onCorrupt = 'skip': expected fail or quarantine"),
    ("queryName", "a b", "queryName = 'a b': expected letters, digits, '_', '.', '-', 1 to 120 characters"),
    ("namesrv", "", "namesrv = '': expected not empty"),
]
WRITE_ERRORS = [
    (
        "key",
        "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs",
        "key = '(hidden)': expected the path of a key file, which each executor has too; not a key",
    ),
    ("topic", "a/b", "topic name 'a/b': letters, digits, '_', '-', '%', '|' only, 1 to 127 characters"),
    ("delivery", "exactly-once", "delivery = 'exactly-once': expected at-least-once or dedup"),
    ("routeBy", "key", "routeBy = 'key': expected group or row"),
    ("batchId", "-1", "batchId = '-1': expected 0 to 2147483647"),
    ("batchId", "2147483648", "batchId = '2147483648': expected 0 to 2147483647"),
    ("queryName", "a b", "queryName = 'a b': expected letters, digits, '_', '.', '-', 1 to 120 characters"),
    ("requestTimeoutMs", "99", "requestTimeoutMs = '99': expected 100 to 3600000"),
    ("namesrv", "", "namesrv = '': expected not empty"),
]
CONTRADICTIONS = [
    ({}, "subscribe, subscribePattern, assign: exactly one says what to read; none of them is given"),
    (
        {"subscribe": "a", "assign": "{}"},
        "subscribe, subscribePattern, assign: exactly one says what to read; subscribe and assign are given",
    ),
    (
        {"messageTypes": "dlq", "group": "g", "subscribe": "a"},
        "subscribe: messageTypes has no normal, so there is nothing to read by it",
    ),
    (
        {"messageTypes": "normal,dlq", "group": "g", "subscribePattern": "a"},
        "messageTypes: retry and dlq go with subscribe, not with subscribePattern",
    ),
    ({"subscribe": "a", "filter": "a", "sqlFilter": "b = 1"}, "filter, sqlFilter: one of them"),
]


def what_to_read(tried: str) -> dict[str, str]:
    """A topic, unless the option that is tried says so."""
    return {} if tried in ("subscribe", "subscribePattern", "assign") else {"subscribe": "t"}


@pytest.mark.parametrize(("name", "value", "told"), READ_ERRORS)
def test_a_reader_s_wrong_value(name: str, value: str, told: str) -> None:
    with pytest.raises(ZenitError) as raised:
        ReadOptions.parse(what_to_read(name) | {name.lower(): value})
    assert str(raised.value) == told


@pytest.mark.parametrize(("name", "value", "told"), WRITE_ERRORS)
def test_a_writer_s_wrong_value(name: str, value: str, told: str) -> None:
    with pytest.raises(ZenitError) as raised:
        WriteOptions.parse({name.lower(): value})
    assert str(raised.value) == told


@pytest.mark.parametrize(("options", "told"), CONTRADICTIONS)
def test_what_does_not_go_together(options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionRefused) as raised:
        ReadOptions.parse({name.lower(): value for name, value in options.items()})
    assert str(raised.value) == f"option {told}"


@pytest.mark.parametrize(("options", "errors"), [(READ_OPTIONS, READ_ERRORS), (WRITE_OPTIONS, WRITE_ERRORS)])
def test_each_option_is_tried_above(options: tuple[Option, ...], errors: list[tuple[str, str, str]]) -> None:
    assert {option.name for option in options} == {name for name, _, _ in errors}


@pytest.mark.parametrize("option", READ_OPTIONS, ids=lambda option: option.name)
def test_an_empty_text_is_no_value(option: Option) -> None:
    with pytest.raises(InvalidParameter, match="expected not empty") as raised:
        ReadOptions.parse(what_to_read(option.name) | {option.name.lower(): " "})
    assert raised.value.name == option.name


def test_the_columns_that_are_left_are_at_least_one() -> None:
    with pytest.raises(InvalidParameter) as raised:
        ReadOptions.parse({"subscribe": "t", "columns": "body", "includebody": "false"})
    assert str(raised.value) == f"columns = 'body': expected at least one of {ALL_COLUMNS}"
