"""Stores with compacted topics, for tests: runs that are waited for, and what a reader from the first offset sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from store_kit import StillClock, get, make_store, message, put, wait_until

from zenitmq.model.get_status import GetStatus
from zenitmq.record.kernel import StoredMessage, decode_batch
from zenitmq.store.message_store import MessageStore

COMPACTING = {
    "retention_bytes": 4096,
    "index_enabled": False,
    "compaction_memory_bytes": 1 << 20,
    "compaction_tombstone_ms": 10_000,
}
QUEUES = (("c", 0), ("c", 1))


def open_compacting(directory: Any, clock: StillClock, **settings: Any) -> MessageStore:
    """A store whose topic `c` is compacted, opened; the caller closes it."""
    store = make_store(directory, clock, **{**COMPACTING, **settings}).__enter__()
    store.compaction.begin(lambda: QUEUES)
    return store


@contextmanager
def compacting(directory: Any, clock: StillClock, **settings: Any) -> Iterator[MessageStore]:
    """The same, closed at the end."""
    store = open_compacting(directory, clock, **settings)
    try:
        yield store
    finally:
        store.__exit__(None, None, None)


def put_value(store: MessageStore, queue_id: int, key: str, body: bytes, **more: str) -> int:
    """Returns its queue offset."""
    return put(store, "c", queue_id, message("c", body, keys=key, **more)).queue_offset


def compact(store: MessageStore, clock: StillClock, topic: str | None = "c") -> None:
    """A run, to its end: of one topic, whatever it frees, or the one that is due for all of them a day later."""
    store.flush_all(20_000)
    if topic is None:
        wait_until(lambda: not (store.on_tick(clock.time_ms) or store.compaction.state().is_running))
        clock.time_ms += 24 * 3_600_000
    runs = store.compaction.state().runs
    if topic is not None:
        store.compaction.ask_for(topic)
    store.on_tick(clock.time_ms)
    finish(store, clock, runs)


def finish(store: MessageStore, clock: StillClock, runs: int) -> None:
    """Waits until more runs have ended."""

    def has_ended() -> bool:
        store.on_tick(clock.time_ms)
        return store.compaction.state().runs > runs

    wait_until(has_ended)


def retain(store: MessageStore, clock: StillClock) -> None:
    """Lets retention delete what it may."""
    store.flush_all(20_000)
    for _ in range(2):
        clock.time_ms += 100
        mark = store.written, clock.time_ms
        store._upkeep._worker.submit(store._upkeep._guarded, partial(store._upkeep._persist, mark)).result(20)
    for _ in range(30):
        store.on_tick(clock.time_ms)
    wait_until(lambda: not (store.on_tick(clock.time_ms) or store.compaction.state().is_running))


def read_on(store: MessageStore, queue_id: int, offset: int, **limits: Any) -> list[StoredMessage]:
    """All messages from an offset on, as a consumer gets them."""
    found: list[StoredMessage] = []
    while True:
        result = get(store, "c", queue_id, offset, **{"max_messages": 3, "max_bytes": 700, **limits})
        assert result.status != GetStatus.MESSAGES_LOST
        for view in result.slices:
            found += decode_batch(bytes(view))
        if result.next_offset <= offset and result.status != GetStatus.OFFSET_TOO_SMALL:
            return found
        offset = result.next_offset


def present(messages: list[StoredMessage]) -> dict[str, bytes]:
    """{key: value} after them."""
    state = {one.keys[0]: one.body for one in messages}
    return {key: body for key, body in state.items() if body}
