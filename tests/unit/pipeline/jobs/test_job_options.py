"""The options of archive, compact, verify and replay, and what of them is refused before anything starts."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from zenitmq.model.errors import ConfigError, InvalidName, InvalidParameter, SqlSyntaxError
from zenitmq.pipeline.jobs.archive import ArchiveOptions
from zenitmq.pipeline.jobs.compact import CompactOptions
from zenitmq.pipeline.jobs.replay import ReplayOptions, cut, meet
from zenitmq.pipeline.jobs.verify import VerifyOptions
from zenitmq.pipeline.reading.offsets import QueueKey, QueueRange

WITH_TOPIC: dict[str, Any] = {"topics": ("t",), "target": "/x"}
TO: dict[str, Any] = {"to": "t2", "topics": ("t",)}


@pytest.mark.parametrize(
    ("options", "wrong", "key"),
    [
        (ArchiveOptions, {}, "target"),
        (ArchiveOptions, {"target": "/x"}, "topics"),
        (ArchiveOptions, WITH_TOPIC | {"pattern": "t.*"}, "topics"),
        (ArchiveOptions, WITH_TOPIC | {"target": "s3://x/y"}, "target"),
        (ArchiveOptions, WITH_TOPIC | {"starting": "yesterday"}, "starting"),
        (ArchiveOptions, WITH_TOPIC | {"starting": ""}, "starting"),
        (ArchiveOptions, WITH_TOPIC | {"target_file_mb": 0}, "target_file_mb"),
        (ArchiveOptions, WITH_TOPIC | {"on_corrupt": "ignore"}, "on_corrupt"),
        (CompactOptions, {}, "target"),
        (CompactOptions, {"target": "/x", "before": "today"}, "before"),
        (VerifyOptions, {}, "target"),
        (VerifyOptions, {"target": "hdfs://x/y"}, "target"),
        (ReplayOptions, {}, "to"),
        (ReplayOptions, {"to": "t"}, "topics"),
        (ReplayOptions, TO | {"archive": "s3://x"}, "archive"),
        (ReplayOptions, TO | {"filter": "a", "sql": "a = 1"}, "sql"),
        (ReplayOptions, TO | {"name": "../x"}, "name"),
        (ReplayOptions, TO | {"since": "2026-11-21T00:00", "until": "2026-11-21T00:00"}, "until"),
        (ReplayOptions, TO | {"rate": -1.0}, "rate"),
        (ReplayOptions, TO | {"delivery": "once"}, "delivery"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(options: Any, wrong: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        options(**wrong)
    assert refused.value.key == key


def test_names_conditions_and_offsets_are_read_before_anything_starts() -> None:
    with pytest.raises(InvalidName):
        ReplayOptions(to="no topic", topics=("t",))
    with pytest.raises(SqlSyntaxError):
        ReplayOptions(**TO, sql="a >")
    with pytest.raises(InvalidParameter):
        ReplayOptions(**TO, filter="a\0b")
    with pytest.raises(InvalidParameter, match="starting_offsets"):
        ReplayOptions(**TO, starting_offsets="{")


def test_where_a_new_archive_begins() -> None:
    assert ArchiveOptions(**WITH_TOPIC).starting_options() == {"startingOffsets": "earliest"}
    timed = ArchiveOptions(**WITH_TOPIC, starting="1763700000123").starting_options()
    assert timed["startingTimestamp"] == "1763700000123"
    by_pattern = ArchiveOptions(target="/x", pattern="t.*", namesrv="h:1")
    assert by_pattern.subscription() == {"subscribePattern": "t.*", "namesrv": "h:1"}


def test_how_fast_and_from_where_does_not_make_another_replay() -> None:
    one = ReplayOptions(**TO)
    assert one.digest() == ReplayOptions(**TO, rate=5, name="x", state_dir="/y", namesrv="h:1").digest()
    assert one.digest() != ReplayOptions(**TO, sql="a = 1").digest()


def test_ranges_are_cut_at_offsets() -> None:
    ranges = [QueueRange("t", "a", 0, 0, 9), QueueRange("t", "a", 1, 5, 9), QueueRange("t", "a", 2, 0, 3)]
    starting = {QueueKey("t", "a", 0): 4, QueueKey("t", "a", 1): 2}
    ending = {QueueKey("t", "a", 1): 7, QueueKey("t", "a", 2): 0}
    assert cut(ranges, starting, ending) == [QueueRange("t", "a", 0, 4, 9), QueueRange("t", "a", 1, 5, 7)]
    text = json.dumps({"t": {"a": {"0": 4}}})
    assert ReplayOptions(**TO, starting_offsets=text).offsets() == ({QueueKey("t", "a", 0): 4}, {})


def test_a_condition_on_properties_is_the_broker_s() -> None:
    properties = pa.array(
        [[("n", "5"), ("TAGS", "buy")], [("n", "x")], [], None, [("TAGS", "buy")]], pa.map_(pa.string(), pa.string())
    )
    assert meet("n > 4", properties) == [True, False, False, False, False]
    assert meet("TAGS = 'buy' AND n IS NULL", properties) == [False, False, False, False, True]
    assert meet("n IS NULL", properties) == [False, False, True, True, True]
    assert meet("1 = 1", properties) == [True] * 5
