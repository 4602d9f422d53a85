"""Reading a queue by a condition: what is found, how far one look goes, and what must be read first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store_kit import make_store, put

from zenitmq.model.get_status import GetStatus
from zenitmq.model.sql92.condition import Condition
from zenitmq.record.kernel import decode_batch, encode_record
from zenitmq.store.get_result import GetResult, Search
from zenitmq.store.message_store import MessageStore

BOUNDS = {"max_messages": 100, "max_bytes": 1 << 20}


def message(number: int, body: bytes = b"x") -> bytes:
    return encode_record(topic=b"t", body=body, properties=f"n\x01{number}\x02".encode())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with make_store(tmp_path / "s") as opened:
        yield opened


def look(
    store: MessageStore,
    offset: int,
    text: str,
    *,
    has_time: Callable[[], bool] = lambda: True,
    read_below: int = 0,
    **bounds,
) -> GetResult:
    search = Search(Condition(text), has_time, read_below)
    return store.get_messages("t", 0, offset, **{**BOUNDS, **bounds}, search=search)


def numbers(result: GetResult) -> list[int]:
    found = decode_batch(b"".join(result.slices))
    assert len(found) == result.count
    return [int(message.properties["n"]) for message in found]


def test_what_passes_is_found_across_queue_files_and_segments(store: MessageStore) -> None:
    for number in range(100):
        put(store, "t", 0, message(number, bytes(200)))
    assert store.statistics().segments > 3
    seen, offset = [], 0
    while offset < 100:
        result = look(store, offset, "n NOT IN (3, 50) AND (n < 10 OR n > 40)")
        assert result.next_offset > offset
        seen += numbers(result)
        offset = result.next_offset
    assert seen == [number for number in range(100) if number not in (3, 50) and (number < 10 or number > 40)]


def test_nothing_passes(store: MessageStore) -> None:
    put(store, "t", 0, *(message(number) for number in range(20)))
    result = look(store, 0, "n > 100")
    assert (result.status, result.next_offset, result.max_offset) == (GetStatus.NO_MATCHED_MESSAGE, 20, 20)
    assert look(store, 20, "n > 100").status == GetStatus.OFFSET_OVERFLOW_ONE


def test_a_look_ends_with_its_time_and_says_how_far_it_came(store: MessageStore) -> None:
    put(store, "t", 0, *(message(number) for number in range(40)))
    first = look(store, 0, "n = 39", has_time=lambda: False)
    assert (first.status, first.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 16)
    second = look(store, 20, "n = 30", has_time=lambda: False)
    assert (numbers(second), second.next_offset) == ([30], 32)  # to the end of the queue file


def test_bounds_hold(store: MessageStore) -> None:
    put(store, "t", 0, *(message(number) for number in range(10)))
    assert numbers(look(store, 0, "n >= 2", max_messages=3)) == [2, 3, 4]
    assert numbers(look(store, 0, "n >= 2", max_bytes=1)) == [2]


def test_what_may_be_on_the_disk_only_is_to_be_read_first(store: MessageStore) -> None:
    put(store, "t", 0, *(message(number) for number in range(10)))
    size = len(message(0))
    store._reader._hot_bytes = 3 * size - 1
    first = look(store, 0, "n = 8")
    assert (first.status, first.next_offset, first.count) == (GetStatus.NO_MATCHED_MESSAGE, 0, 0)
    assert first.unread is not None
    assert (len(first.unread), first.unread_end) == (store.written, store.written)
    partly = look(store, 0, "n = 8", read_below=4 * size)
    assert (partly.next_offset, partly.count, partly.unread_end) == (4, 0, store.written)
    found = look(store, 4, "n = 8", read_below=first.unread_end)
    assert (numbers(found), found.is_cold, found.unread) == ([8], True, None)


def test_a_search_stops_before_lost_messages_and_says_which_they_are(store: MessageStore) -> None:
    put(store, "t", 0, *(message(number) for number in range(20)))
    queue = store._queues.get("t", 0)
    assert queue is not None
    for number in (0, 1, 5, 19):
        begin, size, _ = queue.unit(number)
        store.damage.add(begin, begin + size, "in a test")
    lost = look(store, 0, "n >= 0")
    assert (lost.status, lost.lost_from, lost.next_offset, lost.lost) == (
        GetStatus.MESSAGES_LOST,
        0,
        2,
        (0, 2 * len(message(0))),
    )
    found = look(store, 2, "n >= 0")
    assert (numbers(found), found.next_offset) == ([2, 3, 4], 5)
    assert (look(store, 5, "n >= 0").status, look(store, 5, "n >= 0").next_offset) == (GetStatus.MESSAGES_LOST, 6)
    nothing = look(store, 6, "n > 100")
    assert (nothing.status, nothing.lost_from, nothing.next_offset) == (GetStatus.MESSAGES_LOST, 19, 20)


def test_only_what_is_confirmed_is_looked_at(store: MessageStore) -> None:
    put(store, "t", 0, *(message(number) for number in range(5)))
    store.confirm(store.written)
    put(store, "t", 0, *(message(number) for number in range(5, 9)))
    assert (look(store, 0, "n > 6").next_offset, look(store, 0, "n > 6").max_offset) == (5, 5)
    store.confirm(store.written)
    assert numbers(look(store, 5, "n > 6")) == [7, 8]


def test_positions_outside_are_told_as_in_any_read(store: MessageStore) -> None:
    assert look(store, 0, "n > 6").status == GetStatus.NO_MATCHED_LOGIC_QUEUE
    put(store, "t", 0, message(1))
    assert look(store, 7, "n > 6").status == GetStatus.OFFSET_OVERFLOW_BADLY
