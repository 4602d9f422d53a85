"""What counts as a finding when an archive is held against the brokers."""

from __future__ import annotations

from zenitmq.pipeline.jobs.archives.spans import Span
from zenitmq.pipeline.jobs.archives.verify_report import (
    FileFinding,
    QueueFacts,
    comparable,
    facts_of,
    queue_document,
    report,
)
from zenitmq.pipeline.reading.offsets import QueueKey

KEY = QueueKey("orders", "broker-a", 3)


def facts(*archived: Span, broker: Span | None = (0, 10), differing: int = 0) -> QueueFacts:
    return QueueFacts(KEY, archived, broker, differing)


def test_a_whole_queue_passes_and_what_is_to_come_is_no_finding() -> None:
    found = report([facts((0, 4), (4, 8))], [], 2, quick=False)
    assert found["passed"]
    assert (found["findings"], found["rows"], found["rows_behind"], found["files"]) == (0, 8, 2, 2)
    assert found["compared_rows"]
    (row,) = found["queues"]
    assert (row["topic"], row["broker_name"], row["queue_id"], row["begin"], row["end"]) == (
        "orders",
        "broker-a",
        3,
        0,
        8,
    )


def test_gaps_and_duplicates_are_told_with_their_offsets() -> None:
    row = queue_document(facts((0, 3), (2, 4), (6, 10)))
    assert (row["gap_rows"], row["gaps"]) == (2, [[4, 6]])
    assert (row["duplicate_rows"], row["duplicates"]) == (1, [[2, 3]])
    found = report([facts((0, 3), (2, 4), (6, 10))], [], 1, quick=True)
    assert (found["passed"], found["findings"], found["compared_rows"]) == (False, 3, False)


def test_rows_beyond_the_end_are_a_finding_and_expired_ones_none() -> None:
    assert queue_document(facts((8, 12)))["beyond_rows"] == 2
    kept = queue_document(facts((0, 5), broker=(4, 9)))
    assert (kept["beyond_rows"], kept["gap_rows"], kept["rows_behind"]) == (0, 0, 4)
    lost = queue_document(facts((0, 5), broker=(7, 9)))
    assert lost["rows_behind"] == 2  # those between expired: they cannot come any more


def test_a_queue_that_one_side_lacks() -> None:
    gone = queue_document(facts((0, 5), broker=None))
    assert (gone["broker_end"], gone["rows_behind"], gone["beyond_rows"]) == (None, None, 0)
    new = queue_document(facts())
    assert (new["rows"], new["begin"], new["rows_behind"]) == (0, None, 10)
    assert report([facts((0, 5), broker=None), facts()], [], 1, quick=True)["passed"]


def test_differing_rows_and_files_are_findings() -> None:
    assert not report([facts((0, 10), differing=1)], [], 1, quick=False)["passed"]
    found = report([], [FileFinding("x", "it is missing")], 1, quick=False)
    assert (found["findings"], found["file_findings"]) == (1, [{"path": "x", "problem": "it is missing"}])


def test_what_can_be_compared_is_what_both_have() -> None:
    assert comparable(facts((0, 3), (5, 20))) == (0, 10)
    assert comparable(facts((0, 3), broker=(3, 9))) is None
    assert comparable(facts((0, 3), broker=None)) is None


def test_every_queue_of_either_side_has_its_facts() -> None:
    other = QueueKey("orders", "broker-a", 1)
    assert facts_of({KEY: [(0, 3)]}, {other: (0, 2)}, {KEY: 4}) == [
        QueueFacts(other, (), (0, 2)),
        QueueFacts(KEY, ((0, 3),), None, 4),
    ]
