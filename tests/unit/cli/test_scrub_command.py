"""`zenit store scrub`: how it follows a round, and what it tells."""

from __future__ import annotations

from typing import Any

from zenitmq.cli.store import scrub_end, scrub_progress, scrub_result


def told(current: dict[str, int] | None, last: dict[str, int] | None = None, **other: Any) -> dict[str, Any]:
    statistics = {"broker_name": "a", "scrub": {"current": current, "last": last}, "store": {"quarantined_ranges": 2}}
    return {**statistics, **other}


ROUND = {"begun_ms": 5, "begin": 100, "end": 900, "position": 300}


def test_a_round_is_followed_to_its_end() -> None:
    asked = scrub_end(told(ROUND))
    assert asked == (5, 800)
    assert scrub_progress(told(ROUND), asked) == (200, False)
    assert scrub_progress(told(None, ROUND), asked) == (800, True)
    assert scrub_progress(told({**ROUND, "begun_ms": 9}), asked) == (800, True), "another was begun meanwhile"
    assert scrub_end(told(None, ROUND)) == (5, 800), "it was over before it was asked about"


def test_what_is_told_of_a_replica() -> None:
    last = {"read_bytes": 9, "vouched_bytes": 8, "damaged_ranges": 3, "damaged_bytes": 7, "damaged_units": 2}
    assert scrub_result("h:1", told(None, last, repairs={"mended_ranges": 1})) == {
        "broker_name": "a",
        "address": "h:1",
        **last,
        "mended_ranges": 1,
        "quarantined_ranges": 2,
    }
    assert scrub_result("h:1", told(ROUND))["read_bytes"] == 0
