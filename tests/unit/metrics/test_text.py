"""The text that Prometheus reads: each kind, labels that need escapes, both formats, slices."""

from __future__ import annotations

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from zenitmq.metrics.family import Exporter, Family, FamilyKind, Reading
from zenitmq.metrics.histogram import Histogram, time_histogram
from zenitmq.metrics.rocketmq_names import with_old_names
from zenitmq.metrics.series import limited
from zenitmq.metrics.text import SLICE_LINES, render

BY = (Exporter.BROKER,)
IN = Family("zenit_in_total", FamilyKind.COUNTER, "", ("topic",), 'What came in: "all"\nof it', BY)
LAG = Family(
    "zenit_lag_seconds", FamilyKind.GAUGE, "seconds", ("topic", "consumer_group"), "Late", BY, "rocketmq_lag", 1000
)
UP = Family("zenit_up", FamilyKind.GAUGE, "", (), "Up", BY)
TURN = Family("zenit_turn_seconds", FamilyKind.HISTOGRAM, "seconds", (), "A turn", BY, "rocketmq_turn", 1000)
HOSTILE = 'a\\b"c\nd'


def readings() -> list[Reading]:
    turns = time_histogram()
    turns.observe(90)
    turns.observe(100)
    turns.observe(60_000_000, times=2)
    return [
        (IN, [((HOSTILE,), 7), (("plain",), 1 << 60)]),
        (LAG, [(("trades", "g"), 0.25), (("x", "y"), float("inf"))]),
        (UP, [((), 1)]),
        (TURN, [((), turns.reading())]),
    ]


def samples(text: str, *, open_metrics: bool) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    parse = parse_open_metrics if open_metrics else parse_plain
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def test_the_text_as_it_stands() -> None:
    text = "".join(render(readings()[:3], (("cluster", 'z"1'),)))
    assert text == (
        '# HELP zenit_in_total What came in: "all"\\nof it\n'
        "# TYPE zenit_in_total counter\n"
        'zenit_in_total{cluster="z\\"1",topic="a\\\\b\\"c\\nd"} 7\n'
        'zenit_in_total{cluster="z\\"1",topic="plain"} 1152921504606846976\n'
        "# HELP zenit_lag_seconds Late\n"
        "# TYPE zenit_lag_seconds gauge\n"
        'zenit_lag_seconds{cluster="z\\"1",topic="trades",consumer_group="g"} 0.25\n'
        'zenit_lag_seconds{cluster="z\\"1",topic="x",consumer_group="y"} +Inf\n'
        "# HELP zenit_up Up\n"
        "# TYPE zenit_up gauge\n"
        'zenit_up{cluster="z\\"1"} 1\n'
    )


def test_both_formats_say_the_same_to_prometheus_own_parser() -> None:
    for common in ((), (("node_id", "b"),)):
        plain = samples("".join(render(readings(), common)), open_metrics=False)
        opened = samples("".join(render(readings(), common, open_metrics=True)), open_metrics=True)
        assert plain == opened
        assert plain["zenit_in_total", (*common, ("topic", HOSTILE))] == 7
        assert plain["zenit_turn_seconds_bucket", tuple(sorted((("le", "0.0001"), *common)))] == 2
        assert plain["zenit_turn_seconds_bucket", tuple(sorted((("le", "+Inf"), *common)))] == 4
        assert plain["zenit_turn_seconds_count", common] == 4
        assert plain["zenit_turn_seconds_sum", common] == 120.00019


def test_numbers_that_are_no_numbers() -> None:
    text = "".join(render([(LAG, [(("a", "b"), float("nan")), (("c", "d"), float("-inf"))])], ()))
    assert [line.rpartition(" ")[2] for line in text.splitlines()[2:]] == ["NaN", "-Inf"]


def test_a_family_without_series_is_left_out_and_slices_are_short() -> None:
    many: list[Reading] = [(UP, []), (IN, [((str(number),), number) for number in range(2_500)])]
    slices = list(render(many, ()))
    assert [part.count("\n") for part in slices] == [SLICE_LINES, SLICE_LINES, 502]
    assert "zenit_up" not in "".join(slices)
    assert list(render([], ())) == []
    assert list(render([], (), open_metrics=True)) == ["# EOF\n"]


def test_series_beyond_the_limit_are_left_out_and_counted() -> None:
    sizes = Histogram((10, 20))
    reading: Reading = (TURN, [((), sizes.reading())])
    many: Reading = (IN, [((str(number),), number) for number in range(10)])
    kept, dropped = limited([reading, many], 12)
    assert ([len(values) for _, values in kept], dropped) == ([1, 7], 3)
    kept, dropped = limited([many, reading], 12)
    assert ([len(values) for _, values in kept], dropped) == ([10, 0], 5)
    assert limited([reading, many], 100)[1] == 0


def test_old_names_are_in_rocketmq_units_and_say_what_a_topic_is() -> None:
    told = {family.name: values for family, values in with_old_names(readings())}
    assert told["zenit_lag_seconds"][0] == (("trades", "g"), 0.25)
    assert told["rocketmq_lag"][0] == (("trades", "g", "false", "false"), 250.0)
    text = "".join(render(with_old_names([(LAG, [(("%RETRY%g", "g"), 1)])]), ()))
    assert 'rocketmq_lag{topic="%RETRY%g",consumer_group="g",is_retry="true",is_system="false"} 1000' in text
    assert "rocketmq_in_total" not in told
    parsed = samples("".join(render(with_old_names(readings()), ())), open_metrics=False)
    assert parsed["rocketmq_turn_bucket", (("le", "0.1"),)] == 2


def test_a_histogram_counts_a_bound_below_itself() -> None:
    sizes = Histogram((10, 20))
    for value in (0, 10, 11, 20, 21):
        sizes.observe(value)
    assert sizes.reading().counts == (2, 2, 1)
    assert sizes.reading().total == 62
