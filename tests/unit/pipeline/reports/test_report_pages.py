"""The pages of the reports show what their summaries say."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.pipeline.reports.html_report import Bars, Facts, Lines, Part, Table, render
from zenitmq.pipeline.reports.report_pages import dead_letter_parts, lag_parts, moment, series, trace_parts

LETTERS: dict[str, Any] = {
    "rows": 7,
    "groups": ["g"],
    "classes": [
        {
            "class": 0,
            "group": "g",
            "origin_topic": "orders",
            "tag": "",
            "reason": "timeout after #",
            "letters": 7,
            "first_at_ms": 0,
            "last_at_ms": 1_000,
            "attempts_max": 3,
        }
    ],
    "classes_left_out": 2,
    "samples": [{"class": 0, "at_ms": 5, "message_id": "U1", "keys": None, "reason": "timeout after 3", "body": "{}"}],
    "hours": [{"group": "g", "at_ms": 3_600_000, "letters": 3}, {"group": "g", "at_ms": 0, "letters": 4}],
}
LAG: dict[str, Any] = {
    "lag": 3,
    "samples": 2,
    "passed": False,
    "groups": [
        {"group": "g", "members": 1, "lag": 3, "lag_seconds": 1.5, "beyond": "messages > 1"},
        {"group": "idle", "members": 0, "lag": None, "lag_seconds": None, "beyond": None},
    ],
    "queues": [
        {
            "group": "g",
            "topic": "orders",
            "broker_name": "broker-a",
            "queue_id": 0,
            "lag": 3,
            "lag_seconds": 1.5,
            "owner": "me",
        }
    ],
    "over_time": [
        {"group": "g", "at_ms": 1, "lag": 5, "lag_seconds": None},
        {"group": "g", "at_ms": 2, "lag": 3, "lag_seconds": 1.5},
    ],
}
TRACES: dict[str, Any] = {
    "rows": 9,
    "produced": 3,
    "produce_failures": 1,
    "delivered": 3,
    "consumed": 2,
    "consume_failures": 1,
    "damaged": 0,
    "hops": [
        {"hop": "produce", "topic": "orders", "group": None, "count": 3, "p50_ms": 1, "p99_ms": 2, "max_ms": 2},
        {"hop": "wait", "topic": "orders", "group": "g", "count": 3, "p50_ms": 5, "p99_ms": 90, "max_ms": 99},
    ],
    "retries": [{"group": "g", "at_ms": 60_000, "retries": 4, "deliveries": 9}],
    "storms": [{"group": "g", "at_ms": 60_000, "retries": 4, "deliveries": 9}],
    "most_tried": [{"message_id": "U1", "group": "g", "attempts": 3}],
    "failures": [{"where": "consume", "name": "g", "what": "failed", "count": 1}],
    "transactions": [{"topic": "orders", "group": "p", "committed": 3, "rolled_back": 1, "unknown": 2, "checked": 1}],
    "journeys": [
        {
            "message_id": "U1",
            "topic": "orders",
            "group": "g",
            "produced_at_ms": 0,
            "produce_ms": 1,
            "wait_ms": 2,
            "handle_ms": 3,
            "end_to_end_ms": 7,
            "attempts": 1,
        }
    ],
}


def parts_by_title(parts: list[Part]) -> dict[str, Any]:
    return {part.title: part for part in parts}


def test_dead_letters() -> None:
    parts = parts_by_title(dead_letter_parts(LETTERS))
    assert parts["In all"] == Facts("In all", {"letters": 7, "groups": ["g"], "kinds of failure": 3})
    assert parts["Most letters"] == Bars("Most letters", "letters", [("g · orders · timeout after #", 7)])
    assert parts["Given up an hour"].series == {"g": [(0, 4), (3_600_000, 3)]}
    assert parts["Kinds of failure"].rows[0] == (
        *(0, 7, "g", "orders", "", "timeout after #", 3),
        *("1970-01-01 00:00:00", "1970-01-01 00:00:01"),
    )
    assert parts["Samples, the newest of each kind"].rows[0][2] == "U1"


def test_lag() -> None:
    parts = parts_by_title(lag_parts(LAG))
    assert parts["In all"].values["limits kept"] is False
    assert parts["Messages behind"].bars == [("g", 3)]
    assert parts["Messages behind over time"] == Lines("Messages behind over time", "messages", {"g": [(1, 5), (2, 3)]})
    assert parts["Seconds behind over time"].series == {"g": [(2, 1.5)]}
    assert parts["Groups"].rows[0] == ["g", 1, 3, 1.5, "messages > 1"]
    assert parts["Queues"].rows == [["g", "orders", "broker-a", 0, 3, 1.5, "me"]]


def test_traces() -> None:
    parts = parts_by_title(trace_parts(TRACES))
    assert parts["In all"].values["produce failures"] == 1
    assert parts["Slowest hops, p99"].bars == [("wait · orders · g", 90), ("produce · orders", 2)]
    assert parts["Retry storms"].rows == [("g", "1970-01-01 00:01:00", 4, 9)]
    assert parts["Transactions"].rows == [["orders", "p", 3, 1, 2, 1]]
    assert parts["Slowest journeys"].rows[0] == ("U1", "orders", "g", "1970-01-01 00:00:00", 1, 2, 3, 7, 1)


@pytest.mark.parametrize("parts", [dead_letter_parts(LETTERS), lag_parts(LAG), trace_parts(TRACES)])
def test_every_row_has_a_cell_for_each_column_and_the_page_is_made(parts: list[Part]) -> None:
    for part in parts:
        if isinstance(part, Table):
            assert {len(row) for row in part.rows} == {len(part.columns)}
    assert render("a report", parts, made_at_ms=0).endswith("</html>\n")


def test_lines_are_in_order_of_time_the_largest_first() -> None:
    rows = [
        {"name": "a", "at": 2, "value": 1},
        {"name": "b", "at": 1, "value": 9},
        {"name": "a", "at": 1, "value": 2},
        {"name": "a", "at": 0, "value": None},
    ]
    assert list(series(rows, "name", "at", "value").items()) == [("b", [(1, 9)]), ("a", [(1, 2), (2, 1)])]
    assert moment(None) is None
