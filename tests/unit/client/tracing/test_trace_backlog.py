"""Trace records that wait: bounded, and put together into messages of bounded size, none lost and none twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.client.tracing.trace_backlog import BODY_BYTES_MAX, RECORDS_MAX, Noted, TraceBacklog, pack
from zenitmq.client.tracing.trace_format import Recalled, TraceRecord, decode_trace


def recalled(number: int, topic: str = "t") -> Recalled:
    return Recalled(at_ms=number, region="r", group="g", topic=topic, message_id=f"id-{number}", is_ok=True)


def noted(count: int, size_bytes: int = 10) -> Noted:
    return Noted(iter([recalled(number) for number in range(count)]), count, size_bytes)


def test_what_is_noted_is_taken_in_order() -> None:
    backlog = TraceBacklog()
    entries = [noted(1), noted(2)]
    assert all(backlog.add(entry) for entry in entries)
    assert not backlog.is_empty
    assert [backlog.take(), backlog.take(), backlog.take()] == [*entries, None]
    assert backlog.is_empty


def test_no_more_entries_than_the_limit_wait() -> None:
    backlog = TraceBacklog(entries_max=1)
    assert backlog.add(noted(5))
    assert not backlog.add(noted(1))
    backlog.take()
    assert backlog.add(noted(1))


def test_no_more_bytes_than_the_limit_are_kept_alive() -> None:
    backlog = TraceBacklog(bytes_max=100)
    assert backlog.add(noted(1, 60))
    assert not backlog.add(noted(1, 41))
    assert backlog.add(noted(1, 40))


def test_nothing_makes_no_message() -> None:
    assert pack(iter(())) is None


def test_a_message_has_the_ids_as_keys_each_once() -> None:
    message = pack(iter([recalled(1), recalled(2), recalled(1)]))
    assert message is not None
    assert (message.keys, message.count, message.damaged) == (("id-1", "id-2"), 3, 0)
    assert decode_trace(message.body) == [recalled(1), recalled(2), recalled(1)]


@pytest.mark.parametrize("records", [RECORDS_MAX, RECORDS_MAX + 1])
def test_a_message_takes_so_many_records(records: int) -> None:
    rest = iter([recalled(number) for number in range(records)])
    message = pack(rest)
    assert message is not None
    assert message.count == RECORDS_MAX
    assert len(list(rest)) == records - RECORDS_MAX


def test_a_message_takes_so_many_bytes() -> None:
    long = "x" * (BODY_BYTES_MAX // 2)
    rest: Iterator[TraceRecord] = iter([recalled(number, long) for number in range(3)])
    message = pack(rest)
    assert message is not None
    assert message.count == 2
    assert list(rest) == [recalled(2, long)]


def test_a_record_that_cannot_be_written_is_counted() -> None:
    message = pack(iter([recalled(1, "a\x01b"), recalled(2)]))
    assert message is not None
    assert (message.count, message.damaged, message.keys) == (1, 1, ("id-2",))
    only_damaged = pack(iter([recalled(1, "a\x01b")]))
    assert only_damaged is not None
    assert (only_damaged.count, only_damaged.damaged, only_damaged.body) == (0, 1, b"")


@given(st.lists(st.integers(0, 30_000), max_size=300))
def test_every_record_is_packed_once_and_in_order(lengths: list[int]) -> None:
    records = [recalled(number, "x" * length) for number, length in enumerate(lengths)]
    rest: Iterator[TraceRecord] = iter(records)
    packed: list[TraceRecord] = []
    while (message := pack(rest)) is not None:
        assert message.count <= RECORDS_MAX
        assert len(message.body) < BODY_BYTES_MAX + 40_000
        packed += decode_trace(message.body)
    assert packed == records
