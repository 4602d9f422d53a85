"""The findings of `verify`, by queue and in total. Pure.

It compares three things: the rows in the files, the ranges in the manifests, and the offsets at the broker. Findings are
errors: gaps between archived rows, repeated rows, rows beyond the broker's end, rows that differ from the broker's, files
that are damaged, missing, or without a manifest. Rows that are not yet archived (`rows_behind`) or no longer at the broker
are not findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...reading.offsets import QueueKey
from .spans import Span, common, count, first_and_end, missing, repeated, union

SPANS_SHOWN_MAX: Final = 20
FILES_SHOWN_MAX: Final = 100
_FOR_EVER: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue: the offsets of its archived rows, with repetitions; the broker's range (None: no such queue); how many rows
    differ from the broker's.
    """

    key: QueueKey
    archived: tuple[Span, ...]
    broker: Span | None
    differing: int = 0


@dataclass(frozen=True, slots=True)
class FileFinding:
    """A file that does not match its manifest, and how."""

    path: str
    problem: str


def comparable(facts: QueueFacts) -> Span | None:
    """The offsets from the first to the last that archive and broker share; None if there are none."""
    return first_and_end(common(union(facts.archived), (facts.broker,) if facts.broker else ()))


def queue_document(facts: QueueFacts) -> dict[str, Any]:
    """A queue's row of the report."""
    rows = union(facts.archived)
    bounds = first_and_end(rows)
    gaps = missing(rows, *bounds) if bounds else ()
    twice = repeated(facts.archived)
    end = facts.broker[1] if facts.broker else None
    beyond = common(rows, ((end, _FOR_EVER),)) if end is not None else ()
    begin = max(bounds[1] if bounds else 0, facts.broker[0] if facts.broker else 0)
    return {
        "topic": facts.key.topic,
        "broker_name": facts.key.broker,
        "queue_id": facts.key.queue_id,
        "rows": count(facts.archived),
        "begin": bounds[0] if bounds else None,
        "end": bounds[1] if bounds else None,
        "broker_begin": facts.broker[0] if facts.broker else None,
        "broker_end": end,
        "gap_rows": count(gaps),
        "duplicate_rows": count(facts.archived) - count(rows),
        "beyond_rows": count(beyond),
        "differing_rows": facts.differing,
        "rows_behind": max(0, end - begin) if end is not None else None,
        "gaps": [list(span) for span in gaps[:SPANS_SHOWN_MAX]],
        "duplicates": [list(span) for span in twice[:SPANS_SHOWN_MAX]],
    }


def report(
    queues: Iterable[QueueFacts], files: Sequence[FileFinding], file_count: int, *, quick: bool
) -> dict[str, Any]:
    """The whole report. `passed`: there are no findings. `quick`: rows were not compared with the broker's."""
    rows = [queue_document(facts) for facts in queues]
    sums = {name: sum(row[name] for row in rows) for name in _FINDINGS}
    found = sum(sums.values()) + len(files)
    return {
        "rows": sum(row["rows"] for row in rows),
        "passed": not found,
        "findings": found,
        "files": file_count,
        **sums,
        "damaged_files": len(files),
        "rows_behind": sum(row["rows_behind"] or 0 for row in rows),
        "compared_rows": not quick,
        "file_findings": [{"path": each.path, "problem": each.problem} for each in files[:FILES_SHOWN_MAX]],
        "queues": rows,
    }


def facts_of(
    archived: Mapping[QueueKey, Sequence[Span]],
    broker: Mapping[QueueKey, Span],
    differing: Mapping[QueueKey, int],
) -> list[QueueFacts]:
    """The facts of every queue that either side has, in order."""
    keys = sorted({*archived, *broker})
    return [QueueFacts(key, tuple(archived.get(key, ())), broker.get(key), differing.get(key, 0)) for key in keys]


_FINDINGS: Final = ("gap_rows", "duplicate_rows", "beyond_rows", "differing_rows")
