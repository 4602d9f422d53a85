"""Options of the format: what is taken, and what is refused, by name."""

from __future__ import annotations

import pickle

import pytest

from zenitmq.model.errors import InvalidName, InvalidParameter, OptionRefused, SqlSyntaxError, UnknownOption
from zenitmq.pipeline.column_names import COLUMN_NAMES
from zenitmq.pipeline.options.boundary import EARLIEST, LATEST, Boundary
from zenitmq.pipeline.options.options import READ_OPTIONS, WRITE_OPTIONS, ReadOptions, WriteOptions
from zenitmq.pipeline.reading.offsets import QueueKey


def read(**options: str) -> ReadOptions:
    return ReadOptions.parse({"subscribe": "orders"} | options)


def test_defaults_are_those_of_the_table() -> None:
    """Each default that the page tells is what is read where nothing is given."""
    plain = read()
    told = {option.name: option.default for option in READ_OPTIONS if option.default}
    told.pop("endingOffsets")  # filled in for a batch only
    spelled = read(**{name.lower(): value for name, value in told.items() if name != "commitOffsets"})
    for field in ReadOptions.__dataclass_fields__:
        if field != "given":
            assert getattr(plain, field) == getattr(spelled, field), field


def test_options_travel() -> None:
    options = read(startingoffsets='{"orders": {"a": {"0": 5}}}')
    assert pickle.loads(pickle.dumps(options)) == options


# ---- names


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("subscibe", "subscribe"),
        ("startingoffset", "startingOffsets"),
        ("maxoffsetpertrigger", "maxOffsetsPerTrigger"),
        ("zzz", ""),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(name: str, nearest: str) -> None:
    with pytest.raises(UnknownOption) as raised:
        read(**{name: "1"})
    assert (raised.value.option, raised.value.nearest) == (name, nearest)
    assert ("did you mean" in str(raised.value)) == bool(nearest)


@pytest.mark.parametrize("name", ["auth.accesskey", "tls.ca", "kafka.bootstrap.servers"])
def test_options_of_what_is_not_built_are_refused_by_name(name: str) -> None:
    with pytest.raises(OptionRefused, match=name):
        read(**{name: "1"})


def test_tiered_storage_is_refused_by_name() -> None:
    with pytest.raises(OptionRefused, match="tiered"):
        read(readfrom="tiered")
    assert read(readfrom="replica").read_from == "replica"


def test_what_spark_adds_is_let_through() -> None:
    assert read(path="x", checkpointlocation="y") == read()


def test_names_are_taken_in_any_case() -> None:
    assert ReadOptions.parse({"SUBSCRIBE": "orders", "MinPartitions": "4"}).partitions_min == 4


# ---- what to read


def test_topics() -> None:
    assert read(subscribe=" a , b,a").topics == ("a", "b")
    assert read(subscribe="a").reads(QueueKey("a", "x", 0))
    assert not read(subscribe="a").reads(QueueKey("b", "x", 0))


def test_a_pattern_matches_whole_names() -> None:
    options = ReadOptions.parse({"subscribepattern": "ord.*"})
    assert options.reads(QueueKey("orders", "x", 0))
    assert not options.reads(QueueKey("borders", "x", 0))


def test_single_queues() -> None:
    options = ReadOptions.parse({"assign": '{"t": {"a": [1, 0, 1]}}'})
    assert options.assigned == (QueueKey("t", "a", 0), QueueKey("t", "a", 1))
    assert not options.reads(QueueKey("t", "a", 2))


def test_retries_and_dead_letters_of_a_group() -> None:
    options = ReadOptions.parse({"messagetypes": "retry,dlq", "group": "g"})
    assert options.topics == ("%RETRY%g", "%DLQ%g")
    assert read(messagetypes="normal,dlq", group="g").topics == ("orders", "%DLQ%g")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subscribe": "a", "assign": "{}"},
        {"subscribe": "a", "subscribepattern": "a"},
        {"messagetypes": "dlq"},
        {"messagetypes": "dlq", "group": "g", "subscribe": "a"},
        {"messagetypes": "normal,dlq", "group": "g", "subscribepattern": "a"},
        {"messagetypes": "delay", "subscribe": "a"},
        {"filter": "a", "sqlfilter": "b = 1", "subscribe": "a"},
        {"commitoffsets": "true", "subscribe": "a"},
    ],
)
def test_what_contradicts_itself_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionRefused):
        ReadOptions.parse(options)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subscribe", ""),
        ("subscribe", " , "),
        ("subscribePattern", "("),
        ("subscribePattern", "a" * 5000),
        ("assign", "[]"),
        ("assign", "{"),
        ("assign", "{}"),
        ("assign", '{"t": {"a": [true]}}'),
        ("assign", '{"t": {"a": [-1]}}'),
        ("assign", '{"t": {"a": 1}}'),
        ("messageTypes", "letters"),
        ("failOnDataLoss", "yes"),
        ("maxOffsetsPerTrigger", "0"),
        ("maxOffsetsPerTrigger", "many"),
        ("maxOffsetsPerTrigger", "1e3"),
        ("maxBytesPerTrigger", "1 tb"),
        ("fetchMaxBytes", "1"),
        ("maxTriggerDelay", "15"),
        ("maxTriggerDelay", "900 d"),
        ("minPartitions", "1000000"),
        ("columns", "body,bodies"),
        ("startingTimestamp", "yesterday"),
        ("startingTimestamp", "-1"),
        ("startingOffsets", "first"),
        ("startingOffsets", '{"t": {"a": {"0": -3}}}'),
        ("startingOffsetsByTimestamp", '{"t": {"a": {"0": -1}}}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"t": {"a": {"0": -2}}}'),
        ("filter", "a\x01"),
        ("onCorrupt", "skip"),
        ("retries", "-1"),
        ("requestTimeoutMs", "99"),
        ("queryName", "a b"),
    ],
)
def test_a_bad_value_is_refused_with_the_name_of_its_option(name: str, value: str) -> None:
    options = {"subscribe": "orders"} if not name.startswith(("subscribe", "assign")) else {}
    with pytest.raises(InvalidParameter) as raised:
        ReadOptions.parse(options | {name.lower(): value})
    assert raised.value.name.removeprefix("tags") in (name, "")


def test_names_and_conditions_are_checked() -> None:
    with pytest.raises(InvalidName):
        read(subscribe="a/b")
    with pytest.raises(InvalidName):
        ReadOptions.parse({"assign": '{"a/b": {"a": [0]}}'})
    with pytest.raises(InvalidName):
        read(group="a b")
    with pytest.raises(SqlSyntaxError):
        read(sqlfilter="amount >")
    assert read(sqlfilter="amount > 5").sql_filter == "amount > 5"


def test_values_with_units() -> None:
    options = read(maxbytespertrigger="16M", maxtriggerdelay="2 min", fetchmaxbytes="64kb")
    assert (options.bytes_max, options.delay_max_ms, options.fetch_max_bytes) == (16 << 20, 120_000, 64 << 10)


# ---- columns


def test_columns_come_in_the_order_of_the_table() -> None:
    assert read().columns == COLUMN_NAMES
    assert read(columns="BODY, topic").columns == ("topic", "body")
    assert read(includebody="false", includeproperties="false").columns == tuple(
        name for name in COLUMN_NAMES if name not in ("body", "properties")
    )
    with pytest.raises(InvalidParameter, match="at least one"):
        read(columns="body", includebody="false")


# ---- where to begin and to end


def test_one_time_goes_before_times_and_these_before_offsets() -> None:
    offsets = {"startingoffsets": "earliest"}
    times = {"startingoffsetsbytimestamp": '{"orders": {"a": {"0": 7}}}'}
    assert read(**offsets).starting == EARLIEST
    key = QueueKey("orders", "a", 0)
    assert read(**offsets, **times).starting == Boundary("times", {key: 7}, option="startingOffsetsByTimestamp")
    both = read(**offsets, **times, startingtimestamp="9")
    assert both.starting == Boundary("time", time_ms=9, option="startingTimestamp")


def test_a_batch_goes_from_earliest_to_latest_and_a_stream_from_latest() -> None:
    assert (read().for_batch().starting, read().for_batch().ending) == (EARLIEST, LATEST)
    assert read().for_stream().starting == LATEST
    assert read(startingoffsets="Earliest").for_stream().starting == EARLIEST


def test_marks_in_offsets() -> None:
    key = QueueKey("orders", "a", 0)
    text = '{"orders": {"a": {"0": %d}}}'
    assert read(startingoffsets=text % -2).for_batch().starting == Boundary(
        "offsets", {key: -2}, option="startingOffsets"
    )
    assert read(endingoffsets=text % -1).for_batch().ending == Boundary("offsets", {key: -1}, option="endingOffsets")


@pytest.mark.parametrize("text", ["latest", '{"orders": {"a": {"0": -1}}}'])
def test_a_batch_does_not_start_at_latest(text: str) -> None:
    with pytest.raises(OptionRefused, match="no rows"):
        read(startingoffsets=text).for_batch()


@pytest.mark.parametrize(
    "option", [option for option in READ_OPTIONS if option.used_by != "both"], ids=lambda o: o.name
)
def test_what_is_for_the_other_kind_is_refused(option) -> None:
    values = {"maxTriggerDelay": "5s", "endingOffsetsByTimestamp": "{}", "queryName": "q"}
    value = option.default or values.get(option.name, "5")
    options = read(group="g", **{option.name.lower(): value})
    check = options.for_batch if option.used_by == "stream" else options.for_stream
    with pytest.raises(OptionRefused, match=option.name):
        check()
    assert (options.for_stream if option.used_by == "stream" else options.for_batch)()


def test_a_minimum_above_the_maximum_is_refused() -> None:
    with pytest.raises(OptionRefused, match="minOffsetsPerTrigger"):
        read(minoffsetspertrigger="5", maxoffsetspertrigger="4").for_stream()
    assert read(minoffsetspertrigger="5").for_stream().rows_min == 5


def test_who_reads() -> None:
    assert read(group="g").reading_group == "g"
    assert read().reading_group == "spark-zenit-source"


# ---- writing


def test_a_writer_s_options() -> None:
    assert WriteOptions.parse({}) == WriteOptions()
    spelled = {
        "topic": "t",
        "delivery": "dedup",
        "queryname": "q",
        "batchid": "0",
        "namesrv": "a:1",
        "key": "/k",
        "requesttimeoutms": "500",
        "routeby": "row",
    }
    expected = WriteOptions(
        namesrv="a:1",
        key="/k",
        topic="t",
        delivery="dedup",
        query_name="q",
        batch_id=0,
        request_timeout_ms=500,
        route_by="row",
    )
    assert WriteOptions.parse(spelled | {"checkpointlocation": "x"}) == expected
    assert {option.name.lower() for option in WRITE_OPTIONS} == spelled.keys()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"subscribe": "t"}, UnknownOption),
        ({"topic": "a/b"}, InvalidName),
        ({"delivery": "exactly-once"}, InvalidParameter),
        ({"routeby": "key"}, InvalidParameter),
        ({"batchid": "-1"}, InvalidParameter),
        ({"queryname": ""}, InvalidParameter),
    ],
)
def test_bad_options_of_a_writer_are_refused(options: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        WriteOptions.parse(options)


# ---- keys


@pytest.mark.parametrize("path", ["/etc/billing/billing.key", "billing.key", "~/k", "/" + "a" * 39])
def test_a_key_file_is_named_by_its_path(path: str) -> None:
    assert read(key=path).key == path
    assert WriteOptions.parse({"topic": "t", "key": path}).key == path


@pytest.mark.parametrize(
    "text",
    ["D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs", 'user = "x"\nsecret = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"'],
)
def test_a_key_itself_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(InvalidParameter, match="the path of a key file") as raised:
        read(key=text)
    assert "IlAW" not in str(raised.value)
    assert "IlAW" not in repr(raised.value)
