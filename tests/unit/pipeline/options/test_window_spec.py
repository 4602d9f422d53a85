"""What a window specification means, and how each wrong one is refused by the name of its key."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import ConfigError, InvalidName
from zenitmq.pipeline.options.window_spec import ITEMS_MAX, SPEC_CHARACTERS_MAX, ResultColumn, parse_window_spec

WHOLE = """
topics = ["orders", "refunds"]
window = "1m"
slide = "20s"
watermark = "10s"
time = "born"
key = ["region", "user.id", "@tags"]

[aggregates]
orders = "count"
with_amount = "count(amount)"
revenue = "sum(amount)"
mean = "avg( price.net )"
"""

SMALL = {
    "topics": 'topics = ["orders"]',
    "window": 'window = "1m"',
    "watermark": 'watermark = "10s"',
    "aggregates": "[aggregates]\norders = 'count'",
}


def spec_with(**changed: str) -> str:
    return "\n".join(
        {"more": "", **SMALL, **changed}[key] for key in ("topics", "window", "watermark", "more", "aggregates")
    )


def test_a_whole_one() -> None:
    spec = parse_window_spec(WHOLE)
    assert spec.topics == ("orders", "refunds")
    assert (spec.window_ms, spec.slide_ms, spec.watermark_ms) == (60_000, 20_000, 10_000)
    assert spec.time_column == "bornTimestamp"
    region = "get_json_object(cast(body AS string), '$.region')"
    assert spec.keys == (
        ResultColumn("region", region),
        ResultColumn("user_id", "get_json_object(cast(body AS string), '$.user.id')"),
        ResultColumn("tags", "tags"),
    )
    amount = "get_json_object(cast(body AS string), '$.amount')"
    assert spec.aggregates == (
        ResultColumn("orders", "count(1)"),
        ResultColumn("with_amount", f"count({amount})"),
        ResultColumn("revenue", f"sum(try_cast({amount} AS double))"),
        ResultColumn("mean", "avg(try_cast(get_json_object(cast(body AS string), '$.price.net') AS double))"),
    )
    assert spec.columns[:3] == ("window_start", "window_end", "region")


def test_without_a_slide_windows_do_not_overlap_and_all_messages_are_one_key() -> None:
    spec = parse_window_spec(spec_with())
    assert spec.slide_ms == spec.window_ms == 60_000
    assert spec.time_column == "storeTimestamp"
    assert spec.keys == ()


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"topics": ""}, "topics"),
        ({"topics": "topics = []"}, "topics"),
        ({"topics": 'topics = "orders"'}, "topics"),
        ({"topics": "topics = [1]"}, "topics"),
        ({"topics": "topics = [" + '"a",' * (ITEMS_MAX + 1) + "]"}, "topics"),
        ({"window": ""}, "window"),
        ({"window": "window = 60"}, "window"),
        ({"watermark": ""}, "watermark"),
        ({"more": 'slide = "2m"'}, "slide"),
        ({"more": 'slide = "1ms"'}, "slide"),
        ({"more": "slide = true"}, "slide"),
        ({"more": 'time = "event"'}, "time"),
        ({"more": 'windows = "1m"'}, "windows"),
        ({"more": "zzz = 1"}, "zzz"),
        ({"more": 'key = ["@body"]'}, "key"),
        ({"more": 'key = ["a\'b"]'}, "key"),
        ({"more": 'key = ["a..b"]'}, "key"),
        ({"more": 'key = ["orders"]'}, "aggregates"),
        ({"more": 'key = ["Window"]'}, "aggregates"),
        ({"aggregates": ""}, "aggregates"),
        ({"aggregates": "[aggregates]"}, "aggregates"),
        ({"aggregates": "aggregates = 3"}, "aggregates"),
        ({"aggregates": "[aggregates]\n'a b' = 'count'"}, "aggregates.a b"),
        ({"aggregates": "[aggregates]\na = 'sum'"}, "aggregates.a"),
        ({"aggregates": "[aggregates]\na = 'median(x)'"}, "aggregates.a"),
        ({"aggregates": "[aggregates]\na = 'sum(x) + 1'"}, "aggregates.a"),
        ({"aggregates": "[aggregates]\na = 'sum(1)'"}, "aggregates.a"),
        ({"aggregates": "[aggregates]\na = 1"}, "aggregates.a"),
        ({"aggregates": "[aggregates]\nwindow_end = 'count'"}, "aggregates"),
        ({"more": "= no TOML"}, "spec"),
        ({"more": "#" + "x" * SPEC_CHARACTERS_MAX}, "spec"),
    ],
)
def test_a_wrong_one_is_refused(changed: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_window_spec(spec_with(**changed))
    assert refused.value.key == key


def test_a_near_miss_is_told() -> None:
    with pytest.raises(ConfigError, match="window\\?"):
        parse_window_spec(spec_with(more='windows = "1m"'))


def test_a_topic_of_a_wrong_name_is_refused() -> None:
    with pytest.raises(InvalidName):
        parse_window_spec(spec_with(topics='topics = ["a/b"]'))
