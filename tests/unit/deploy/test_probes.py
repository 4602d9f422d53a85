"""A canary's probes: what comes back, what is lost, and what a group says meanwhile."""

from __future__ import annotations

from zenitmq.deploy.probes import LOST_NS, Probes
from zenitmq.metrics.histogram import HistogramReading
from zenitmq.metrics.table import CANARY, CANARY_FAILED, CANARY_ROUND

MS = 1_000_000


def told(probes: Probes, now_ns: int) -> tuple[dict[str, float], dict[tuple[str, ...], float], dict[str, int]]:
    """(seconds by group, failed by group and step, rounds by group)."""
    found = dict(probes.readings(now_ns))
    rounds = {}
    for (group,), reading in found[CANARY_ROUND]:
        assert isinstance(reading, HistogramReading)
        rounds[group] = sum(reading.counts)
    return (
        {group: value for (group,), value in found[CANARY]},  # type: ignore[misc]
        dict(found[CANARY_FAILED]),  # type: ignore[arg-type]
        rounds,
    )


def test_a_probe_that_comes_back_says_its_time() -> None:
    probes = Probes()
    probes.keep(["a", "b"])
    probes.on_sent("a", 1, 0)
    probes.on_received("a", 1, 7 * MS)
    probes.on_received("a", 1, 9 * MS)
    probes.on_received("a", 99, 9 * MS)
    probes.on_received("unknown", 1, 9 * MS)
    seconds, failed, rounds = told(probes, 20 * MS)
    assert seconds == {"a": 0.007}
    assert not any(failed.values())
    assert rounds == {"a": 1, "b": 0}


def test_while_one_is_under_way_its_age_counts() -> None:
    probes = Probes()
    probes.keep(["a"])
    probes.on_sent("a", 1, 0)
    probes.on_received("a", 1, 5 * MS)
    probes.on_sent("a", 2, 1_000 * MS)
    assert told(probes, 1_002 * MS)[0] == {"a": 0.005}
    assert told(probes, 3_000 * MS)[0] == {"a": 2.0}
    probes.on_received("a", 2, 3_500 * MS)
    assert told(probes, 9_000 * MS)[0] == {"a": 2.5}


def test_what_is_lost_or_not_sent_is_counted_and_the_group_stays_late() -> None:
    probes = Probes()
    probes.keep(["a"])
    probes.on_sent("a", 1, 0)
    probes.on_sent("a", 2, 0)
    probes.on_unsent("a", 2)
    probes.on_unsent("a", 2)
    probes.on_tick(LOST_NS - 1)
    assert told(probes, LOST_NS - 1)[1] == {("a", "send"): 1, ("a", "receive"): 0}
    probes.on_tick(LOST_NS)
    seconds, failed, rounds = told(probes, 2 * LOST_NS)
    assert (seconds, failed[("a", "receive")], rounds) == ({"a": 2 * LOST_NS / 1e9}, 1, {"a": 0})
    probes.on_received("a", 1, 2 * LOST_NS)
    assert told(probes, 2 * LOST_NS)[2] == {"a": 0}


def test_sends_that_fail_at_once_do_not_hide_behind_an_earlier_success() -> None:
    probes = Probes()
    probes.keep(["a"])
    probes.on_sent("a", 1, 0)
    probes.on_received("a", 1, MS)
    for number in (2, 3):
        probes.on_sent("a", number, number * 1_000 * MS)
        probes.on_unsent("a", number)
    assert told(probes, 3_500 * MS)[0] == {"a": 1.5}
    probes.on_sent("a", 4, 4_000 * MS)
    probes.on_received("a", 4, 4_002 * MS)
    assert told(probes, 9_000 * MS)[0] == {"a": 0.002}


def test_a_group_that_is_gone_leaves() -> None:
    probes = Probes()
    probes.keep(["a", "b"])
    probes.on_sent("a", 1, 0)
    probes.keep(["b"])
    probes.on_unsent("a", 1)
    assert set(told(probes, 1)[2]) == {"b"}
