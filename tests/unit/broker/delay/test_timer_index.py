"""The index of what waits as a dispatcher: what it notes, what it makes durable and when, how it starts over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from store_kit import StillClock, make_store, message, put

from zenitmq.broker.delay.timer_index import open_timer_index
from zenitmq.broker.delay.timing import DelayRules, waiting_properties
from zenitmq.broker.waiting.waiting_index import BATCH_CHANGES, WaitingIndex
from zenitmq.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from zenitmq.model.properties import encode_properties
from zenitmq.model.queue import PhysicalOffset
from zenitmq.record.new_record import NewRecord
from zenitmq.record.sys_flag import TRANSACTION_PREPARED
from zenitmq.store.message_store import MessageStore
from zenitmq.store.opening.store_files import write_abort

RULES = DelayRules((1000, 5000), 1 << 40)
DUE = 1_700_000_100_000


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


def new_index(directory: Path, clock: StillClock) -> WaitingIndex:
    return open_timer_index(str(directory), RULES, clock=clock)


def wait_in(store: MessageStore, due_ms: int = DUE, **fields: int) -> int:
    properties = {**waiting_properties("t", 0, due_ms), "UNIQ_KEY": "A"}
    return store.stage_record(
        NewRecord(topic=TIMER_TOPIC, queue_id=0, body=b"x", properties=properties, **fields)
    ).physical_offset


def end(store: MessageStore, offset: int, topic: str = "t") -> None:
    store.stage_record(NewRecord(topic=topic, queue_id=0, body=b"x", prepared_transaction_offset=-1 - offset))


def test_it_follows_the_log_and_is_durable_as_far_as_the_disk_is(tmp_path: Path, clock: StillClock) -> None:
    index = new_index(tmp_path, clock)
    with make_store(tmp_path, dispatchers=(index,)) as store:
        flushed = 0
        index.on_opened(lambda: flushed)
        put(store, "t", 0, message("t", b"plain"))
        first, second = wait_in(store), wait_in(store, DUE + 1)
        store.commit()
        third = wait_in(store, prepared_transaction_offset=-1 - first)  # carried on
        end(store, second)
        wait_in(store, sys_flag=TRANSACTION_PREPARED)  # in no queue, so it waits for nothing
        store.stage_record(
            NewRecord(topic=TIMER_TOPIC, queue_id=0, body=b"x", properties=encode_properties({"a": "b"}))
        )
        store.commit()
        assert index.table.count == 1
        assert [index.table.is_waiting(offset, DUE) for offset in (first, third)] == [False, True]
        assert index.persist() == 0, "the disk has nothing of it"
        flushed = third
        assert index.persist() == third
        assert index.table.journal_length == 5
        flushed = store.written
        assert index.persist_confirmed(PhysicalOffset(third)) == third
        assert index.persist_confirmed(PhysicalOffset(store.written)) == store.written
        index.table.settle()
        assert (index.table.journal_length, index.table.count) == (0, 1)
    index.close()


def test_a_start_goes_on_where_the_index_ends(tmp_path: Path, clock: StillClock) -> None:
    index = new_index(tmp_path, clock)
    with make_store(tmp_path, dispatchers=(index,)) as store:
        index.on_opened(lambda: store.written)
        first = wait_in(store)
        store.commit()
        index.persist()
        second = wait_in(store)
        end(store, first)
        store.commit()
    index.close()
    again = new_index(tmp_path, clock)
    with make_store(tmp_path, dispatchers=(again,)):
        assert [again.table.is_waiting(offset, DUE) for offset in (first, second)] == [False, True]
        assert again.table.count == 1
    again.close()


def test_an_index_that_knows_more_than_the_log_starts_over(tmp_path: Path, clock: StillClock) -> None:
    index = new_index(tmp_path, clock)
    with make_store(tmp_path, dispatchers=(index,)) as store:
        index.on_opened(lambda: store.written)
        waiting = wait_in(store)
        store.commit()
        log_end = store.written
        index.persist()
    index.settle(PhysicalOffset(0), PhysicalOffset(log_end - 1))
    assert index.reflected() == 0
    assert index.table.count == 0
    index.close()
    again = new_index(tmp_path, clock)
    with make_store(tmp_path, dispatchers=(again,)):
        assert again.table.is_waiting(waiting, DUE)
    again.settle(PhysicalOffset(log_end), PhysicalOffset(log_end))
    assert again.table.count == 0, "nothing waits in what retention has taken"
    again.close()


def test_without_anything_to_note_it_is_written_seldom(tmp_path: Path, clock: StillClock) -> None:
    index = new_index(tmp_path, clock)
    with make_store(tmp_path, dispatchers=(index,)) as store:
        index.on_opened(lambda: store.written)
        put(store, "t", 0, message("t", b"plain"))
        assert index.persist() == 0
        clock.time_ms += 5000
        assert index.persist() == store.written
        put(store, "t", 0, message("t", b"plain"))
        assert index.persist() < store.written
        index.is_closing = True
        assert index.persist() == store.written
    index.close()


def test_many_changes_are_written_in_steps_that_each_say_how_far_they_go(tmp_path: Path, clock: StillClock) -> None:
    index = new_index(tmp_path, clock)
    with make_store(tmp_path, dispatchers=(index,), segment_bytes=1 << 20) as store:
        index.on_opened(lambda: store.written)
        offsets = [wait_in(store) for _ in range(4 * BATCH_CHANGES)]
        for offset in offsets[:-1]:
            wait_in(store, prepared_transaction_offset=-1 - offset)
        store.commit()
        steps: list[int] = []
        write = index._store.write
        index._store.write = lambda changes, reflected: (steps.append(reflected), write(changes, reflected))  # type: ignore[assignment,func-returns-value]
        index.persist()
        assert len(steps) >= 4
        assert steps == sorted(steps)
        assert steps[-1] == store.written
        assert index._store.count == 4 * BATCH_CHANGES
    index.close()


def test_what_began_and_ended_since_the_last_time_is_not_written(tmp_path: Path, clock: StillClock) -> None:
    index = new_index(tmp_path, clock)
    with make_store(tmp_path, dispatchers=(index,), segment_bytes=1 << 20) as store:
        index.on_opened(lambda: store.written)
        kept = wait_in(store)
        store.commit()
        index.persist()
        passed = wait_in(store)
        last = wait_in(store, prepared_transaction_offset=-1 - passed)
        store.commit()
        written: list[tuple[int, int]] = []
        write = index._store.write
        index._store.write = lambda changes, reflected: (written.extend(changes), write(changes, reflected))  # type: ignore[assignment,func-returns-value]
        index.persist()
        assert [offset for _, offset in written] == [last]
        assert index._store.below(1 << 40, count_max=9) == [kept, last]
        assert index._store.reflected == store.written
        assert [index.table.due_of(offset) is not None for offset in (kept, passed, last)] == [True, False, True]
    index.close()


def test_rocketmq_s_schedule_topic_waits_by_level_but_for_what_it_had_delivered(
    tmp_path: Path, clock: StillClock
) -> None:
    (tmp_path / "config").mkdir()
    table = {"1": 1, "2": "no number", "x": 3}
    (tmp_path / "config" / "delayOffset.json").write_text(json.dumps({"offsetTable": table}))
    index = new_index(tmp_path, clock)
    with make_store(tmp_path, dispatchers=(index,)) as store:
        offsets = [
            store.stage_record(NewRecord(topic=SCHEDULE_TOPIC, queue_id=queue_id, body=b"x")).physical_offset
            for queue_id in (0, 0, 1)
        ]
        store.commit()
        now_ms = clock.time_ms
        assert not index.table.is_waiting(offsets[0], now_ms + 1000)
        assert index.table.is_waiting(offsets[1], now_ms + 1000)
        assert index.table.is_waiting(offsets[2], now_ms + 5000)
    index.close()
    (tmp_path / "config" / "delayOffset.json").write_text(json.dumps({"offsetTable": []}))
    new_index(tmp_path, clock).close()


@pytest.mark.parametrize(("timer", "is_closed_well"), [(False, True), (True, True), (False, False)])
def test_a_store_in_which_nothing_ever_waited_is_not_read_from_its_beginning(
    tmp_path: Path, clock: StillClock, timer: bool, is_closed_well: bool
) -> None:
    with make_store(tmp_path, clock) as store:
        put(store, "t", 0, message("t", b"plain"))
        if timer:
            wait_in(store)
            store.commit()
        end = store.written
    if not is_closed_well:
        write_abort(str(tmp_path))
    index = new_index(tmp_path, clock)
    assert (index.reflected() > end) == (not timer and is_closed_well)
    with make_store(tmp_path, clock, dispatchers=(index,)) as store:
        assert index.table.count == timer
        assert (index.reflected() == end) == (not timer and is_closed_well)
        wait_in(store)
        store.commit()
        assert index.table.count == timer + 1
    index.close()


def test_an_index_that_is_damaged_keeps_what_it_has_made_durable_and_says_so(
    tmp_path: Path, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = new_index(tmp_path, clock)
    with make_store(tmp_path, dispatchers=(index,)) as store:
        index.on_opened(lambda: store.written)
        offset = wait_in(store)
        store.commit()
        reflected = index.persist()
        assert reflected == store.written
        end(store, offset)
        store.commit()

        def fail(*_: object) -> None:
            raise index._store._damaged(ValueError("a block that cannot be read"))

        monkeypatch.setattr(index._store, "due_of", fail)
        assert index.persist() == reflected
        assert index.is_damaged
    index.close()
    again = new_index(tmp_path, clock)
    assert not again.is_damaged
    with make_store(tmp_path, dispatchers=(again,)):
        assert again.table.count == 0
    again.close()
