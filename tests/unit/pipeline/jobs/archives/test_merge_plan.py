"""Which files of an archive are merged."""

from __future__ import annotations

from zenitmq.pipeline.jobs.archives.manifest import ArchivedFile, FileRange
from zenitmq.pipeline.jobs.archives.merge_plan import merges


def archived(
    number: int, size_bytes: int, *, date: str = "2026-11-20", begin: int = 0, broker: str = "a"
) -> ArchivedFile:
    path = f"topic=orders/dt={date}/batch-{number}-0.parquet"
    return ArchivedFile(path, 5, size_bytes, 7, 1000 + number, 2000, (FileRange(broker, 0, begin, begin + 5),))


def test_small_files_of_past_days_are_merged_up_to_the_target() -> None:
    files = [archived(number, 40) for number in range(5)]
    planned = merges(files, before="2026-11-21", target_bytes=100)
    assert [merge.files for merge in planned] == [tuple(files[:3]), tuple(files[3:])]
    assert planned[0].rows == 15


def test_large_files_files_of_today_and_single_ones_stay() -> None:
    files = [archived(0, 50), archived(1, 49), archived(2, 10, date="2026-11-21"), archived(3, 10, date="2026-11-21")]
    assert merges(files, before="2026-11-21", target_bytes=100) == []


def test_days_are_not_mixed() -> None:
    files = [archived(number, 1, date=f"2026-11-1{number % 2}") for number in range(4)]
    planned = merges(files, before="2026-11-21", target_bytes=100)
    assert [(merge.date, len(merge.files)) for merge in planned] == [("2026-11-10", 2), ("2026-11-11", 2)]


def test_queues_come_in_order_and_their_files_by_offset() -> None:
    late, early, other = archived(0, 1, begin=5), archived(1, 1), archived(2, 1, broker="A")
    (merge,) = merges([late, early, other], before="2026-11-21", target_bytes=100)
    assert merge.queues() == [("A", 0), ("a", 0)]
    assert merge.of_queue("a", 0) == [early, late]
    assert merge.of_queue("A", 0) == [other]
