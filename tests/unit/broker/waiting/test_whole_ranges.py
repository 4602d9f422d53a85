"""What was looked at a moment ago, and for how long that counts."""

from __future__ import annotations

from zenitmq.broker.waiting.whole_ranges import KEPT_MS, RANGES_MAX, WholeRanges


def test_a_look_counts_for_its_bytes_and_a_while() -> None:
    ranges = WholeRanges()
    assert not ranges.has(0, KEPT_MS)
    ranges.add(100, 200)
    ranges.add(20, 30)
    now_ms = KEPT_MS + 1
    assert [offset for offset in (19, 20, 29, 30, 99, 100, 199, 200) if ranges.has(offset, now_ms)] == [
        20,
        29,
        100,
        199,
    ]
    assert not ranges.has(20, 2 * KEPT_MS)
    assert not ranges.has(20, 2 * KEPT_MS), "all are forgotten at once"


def test_there_is_a_limit() -> None:
    ranges = WholeRanges()
    assert not ranges.has(0, KEPT_MS)
    for number in range(RANGES_MAX):
        ranges.add(10 * number, 10 * number + 5)
    assert not ranges.has(0, KEPT_MS)
    ranges.add(0, 5)
    assert ranges.has(0, KEPT_MS)
