"""Groups that are behind, held against limits, and the summary of several looks."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.pipeline.reports.group_lag import GroupLag, LagLimits, lag_summary


def described(group: str, *queues: tuple[int | None, float | None]) -> dict[str, Any]:
    """As Admin.describe_group answers: of each queue (lag, lag_seconds)."""
    lags = [lag for lag, _ in queues]
    return {
        "group": group,
        "members": ["one"],
        "lag": None if None in lags else sum(lag or 0 for lag in lags),
        "queues": [
            {
                "topic": "orders",
                "broker_name": "broker-a",
                "queue_id": number,
                "lag": lag,
                "lag_seconds": seconds,
                "owner": None,
                "broker_queue_offset": 9,
            }
            for number, (lag, seconds) in enumerate(queues)
        ],
    }


def look(at_ms: int, *groups: dict[str, Any]) -> list[GroupLag]:
    return [GroupLag.of(group, at_ms) for group in groups]


def test_seconds_are_those_of_the_queue_furthest_behind() -> None:
    (group,) = look(7, described("g", (3, 1.5), (0, None), (4, 2.5)))
    assert (group.group, group.at_ms, group.members, group.lag, group.lag_seconds) == ("g", 7, 1, 7, 2.5)
    assert GroupLag.of(described("g"), 7).lag_seconds is None


@pytest.mark.parametrize(
    ("limits", "broken"),
    [
        (LagLimits(), None),
        (LagLimits(lag=7, lag_seconds=2.5), None),
        (LagLimits(lag=6), "messages > 6"),
        (LagLimits(lag_seconds=2.0), "seconds > 2"),
        (LagLimits(lag=0, lag_seconds=0.5), "messages > 0, seconds > 0.5"),
    ],
)
def test_limits(limits: LagLimits, broken: str | None) -> None:
    (group,) = look(0, described("g", (3, 1.5), (4, 2.5)))
    assert limits.broken_by(group) == broken


def test_what_is_unknown_breaks_no_limit() -> None:
    (group,) = look(0, described("g", (None, None)))
    assert LagLimits(lag=0, lag_seconds=0.1).broken_by(group) is None


def test_the_last_look_counts_and_who_is_furthest_behind_comes_first() -> None:
    summary = lag_summary(
        [look(1, described("a", (9, 1.0))), look(2, described("a", (1, 0.5)), described("b", (2, None), (5, 3.0)))],
        LagLimits(lag=6),
    )
    assert (summary["rows"], summary["lag"], summary["samples"], summary["passed"]) == (4, 8, 2, False)
    assert [(row["group"], row["beyond"]) for row in summary["groups"]] == [("b", "messages > 6"), ("a", None)]
    assert [(row["group"], row["queue_id"], row["lag"]) for row in summary["queues"]] == [
        ("b", 1, 5),
        ("b", 0, 2),
        ("a", 0, 1),
    ]
    assert [(row["group"], row["at_ms"], row["lag"]) for row in summary["over_time"]] == [
        ("a", 1, 9),
        ("a", 2, 1),
        ("b", 2, 7),
    ]


def test_one_look_is_nothing_over_time() -> None:
    summary = lag_summary([look(1, described("a", (None, None)))], LagLimits(lag=1))
    assert summary["over_time"] == []
    assert (summary["lag"], summary["passed"]) == (0, True)
