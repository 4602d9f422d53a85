"""The pages of job reports: a job's JSON summary as facts, tables and charts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from .html_report import Bars, Facts, Lines, Part, Table

Document = Mapping[str, Any]


def dead_letter_parts(summary: Document) -> list[Part]:
    """The page of the job dlq-report."""
    classes = summary["classes"]
    return [
        Facts(
            "In all",
            {
                "letters": summary["rows"],
                "groups": summary["groups"],
                "kinds of failure": len(classes) + summary["classes_left_out"],
            },
        ),
        Bars("Most letters", "letters", [(_class_name(each), each["letters"]) for each in classes]),
        Lines("Given up an hour", "letters", series(summary["hours"], "group", "at_ms", "letters")),
        Table(
            "Kinds of failure",
            ("#", "letters", "group", "from topic", "tag", "reason", "attempts at most", "first", "last"),
            [
                (
                    each["class"],
                    each["letters"],
                    each["group"],
                    each["origin_topic"],
                    each["tag"],
                    each["reason"],
                    each["attempts_max"],
                    moment(each["first_at_ms"]),
                    moment(each["last_at_ms"]),
                )
                for each in classes
            ],
        ),
        Table(
            "Samples, the newest of each kind",
            ("#", "at", "message id", "keys", "reason", "body"),
            [
                (
                    each["class"],
                    moment(each["at_ms"]),
                    each["message_id"],
                    each["keys"],
                    each["reason"],
                    each["body"],
                )
                for each in summary["samples"]
            ],
        ),
    ]


def lag_parts(summary: Document) -> list[Part]:
    """The page of the job lag-report."""
    groups = summary["groups"]
    return [
        Facts(
            "In all",
            {
                "groups": len(groups),
                "messages behind": summary["lag"],
                "samples": summary["samples"],
                "limits kept": summary["passed"],
            },
        ),
        Bars("Messages behind", "messages", [(each["group"], each["lag"]) for each in groups if each["lag"]]),
        Lines("Messages behind over time", "messages", series(summary["over_time"], "group", "at_ms", "lag")),
        Lines("Seconds behind over time", "seconds", series(summary["over_time"], "group", "at_ms", "lag_seconds")),
        Table(
            "Groups",
            ("group", "members", "messages behind", "seconds behind", "beyond its limit"),
            [[each[name] for name in ("group", "members", "lag", "lag_seconds", "beyond")] for each in groups],
        ),
        Table(
            "Queues",
            ("group", "topic", "broker", "queue", "messages behind", "seconds behind", "owner"),
            [
                [each[n] for n in ("group", "topic", "broker_name", "queue_id", "lag", "lag_seconds", "owner")]
                for each in summary["queues"]
            ],
        ),
    ]


def trace_parts(summary: Document) -> list[Part]:
    """The page of the job trace-report."""
    hops = summary["hops"]
    slowest_hops = sorted(hops, key=lambda each: each["p99_ms"], reverse=True)
    return [
        Facts(
            "In all",
            {
                name.replace("_", " "): summary[name]
                for name in (
                    "rows",
                    "produced",
                    "produce_failures",
                    "delivered",
                    "consumed",
                    "consume_failures",
                    "damaged",
                )
            },
        ),
        Bars("Slowest hops, p99", "ms", [(_hop_name(each), each["p99_ms"]) for each in slowest_hops]),
        Table(
            "Hops",
            ("hop", "topic", "group", "count", "p50 ms", "p99 ms", "max ms"),
            [[each[n] for n in ("hop", "topic", "group", "count", "p50_ms", "p99_ms", "max_ms")] for each in hops],
        ),
        Lines("Retries a minute", "deliveries", series(summary["retries"], "group", "at_ms", "retries")),
        Table(
            "Retry storms",
            ("group", "minute", "retries", "deliveries"),
            [(each["group"], moment(each["at_ms"]), each["retries"], each["deliveries"]) for each in summary["storms"]],
        ),
        Table(
            "Messages tried most often",
            ("message id", "group", "attempts"),
            [[each[name] for name in ("message_id", "group", "attempts")] for each in summary["most_tried"]],
        ),
        Table(
            "Failures",
            ("where", "topic or group", "what", "count"),
            [[each[name] for name in ("where", "name", "what", "count")] for each in summary["failures"]],
        ),
        Table(
            "Transactions",
            ("topic", "group", "committed", "rolled back", "not decided", "decided by check"),
            [
                [each[name] for name in ("topic", "group", "committed", "rolled_back", "unknown", "checked")]
                for each in summary["transactions"]
            ],
        ),
        Table(
            "Slowest journeys",
            (
                "message id",
                "topic",
                "group",
                "produced",
                "produce ms",
                "wait ms",
                "handle ms",
                "end to end ms",
                "attempts",
            ),
            [
                (
                    each["message_id"],
                    each["topic"],
                    each["group"],
                    moment(each["produced_at_ms"]),
                    each["produce_ms"],
                    each["wait_ms"],
                    each["handle_ms"],
                    each["end_to_end_ms"],
                    each["attempts"],
                )
                for each in summary["journeys"]
            ],
        ),
    ]


def series(rows: Iterable[Document], name: str, at: str, amount: str) -> dict[str, Sequence[tuple[int, float]]]:
    """Rows as lines over time, by a common name; rows without an amount are left out. The largest line first."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        if row[amount] is not None:
            lines.setdefault(row[name], []).append((row[at], row[amount]))
    for points in lines.values():
        points.sort()
    largest = sorted(lines, key=lambda each: (-max(value for _, value in lines[each]), each))
    return {each: lines[each] for each in largest}


def moment(at_ms: int | None) -> str | None:
    """A time as text, UTC, to the second."""
    return None if at_ms is None else datetime.fromtimestamp(at_ms // 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def _class_name(each: Document) -> str:
    return " · ".join(text for text in (each["group"], each["origin_topic"], each["tag"], each["reason"]) if text)


def _hop_name(each: Document) -> str:
    return " · ".join(text for text in (each["hop"], each["topic"], each["group"]) if text)
