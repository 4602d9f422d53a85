"""A replicated store is read, told of and persisted below its confirm offset only; one without replicas never waits."""

import dataclasses
import random

import pytest
from store_kit import ALL_TIME, SMALL, StillClock, make_store, message, persist, put, read_queue, stage

from zenitmq.model.errors import MessageNotFound
from zenitmq.model.get_status import GetStatus
from zenitmq.store.config import StoreConfig
from zenitmq.store.log import unsynced_files
from zenitmq.store.message_store import MessageStore
from zenitmq.store.opening.checkpoint import read_checkpoint, write_checkpoint
from zenitmq.store.opening.store_cut import truncate_store
from zenitmq.store.queues.deleted_queues import DELETED_FOLDER

BOUNDS = {"max_messages": 100, "max_bytes": 1 << 20}


@pytest.fixture
def store(tmp_path):
    with make_store(tmp_path / "s") as opened:
        yield opened


def numbered(number: int) -> bytes:
    return message("t", b"%d" % number, keys=f"k{number}", unique=f"{number:032X}")


def pull(store: MessageStore, offset: int, topic: str = "t") -> tuple[str, int, int, int]:
    result = store.get_messages(topic, 0, offset, **BOUNDS)
    return GetStatus(result.status).name, result.next_offset, result.max_offset, result.count


def test_without_replicas_all_that_is_written_is_read(store) -> None:
    end = put(store, "t", 0, numbered(0)).end
    assert store.confirm_offset == store.written == end
    assert store.take_arrivals() == [("t", 0)]
    assert store.max_offset("t", 0) == 1


def test_what_is_not_confirmed_is_not_there_for_clients(store) -> None:
    store.confirm(0)
    ends = [put(store, "t", 0, numbered(number)).end for number in range(3)]
    assert (store.confirm_offset, store.max_offset("t", 0), store.take_arrivals()) == (0, 0, [])
    for offset in range(4):
        assert pull(store, offset) == ("OFFSET_OVERFLOW_ONE", offset, 0, 0)
    assert pull(store, 4) == ("OFFSET_OVERFLOW_BADLY", 0, 0, 0)
    store.confirm(ends[1])
    assert (store.confirm_offset, store.max_offset("t", 0)) == (ends[1], 2)
    assert (store.take_arrivals(), store.take_arrivals()) == ([("t", 0)], [])
    assert pull(store, 0) == ("FOUND", 2, 2, 2)
    assert pull(store, 2) == ("OFFSET_OVERFLOW_ONE", 2, 2, 0)
    assert pull(store, 3) == ("OFFSET_OVERFLOW_ONE", 3, 2, 0)
    assert store.offset_by_time("t", 0, 1 << 61, upper=False) == 2
    found = [store.query("t", f"k{n}", max_messages=9, unique=False, **ALL_TIME) for n in range(3)]
    assert [len(records) for records in found] == [1, 1, 0]
    store.record_at(ends[0])
    with pytest.raises(MessageNotFound):
        store.record_at(ends[1])
    store.confirm(ends[2])
    assert [m.body for m in read_queue(store, "t", 0)] == [b"0", b"1", b"2"]
    assert store.take_arrivals() == [("t", 0)]


def test_it_grows_only(store) -> None:
    store.confirm(0)
    end = put(store, "t", 0, numbered(0)).end
    store.confirm(end)
    store.confirm(0)
    assert (store.confirm_offset, store.max_offset("t", 0)) == (end, 1)


def test_a_batch_is_seen_as_a_whole(store) -> None:
    """Slaves acknowledge chunks, which may end within it."""
    store.confirm(0)
    first = put(store, "t", 0, numbered(0)).end
    end = put(store, "t", 0, numbered(1), numbered(2)).end
    store.confirm((first + end) // 2)
    assert pull(store, 0) == ("FOUND", 1, 1, 1)
    assert pull(store, 1) == ("OFFSET_OVERFLOW_ONE", 1, 1, 0)
    store.confirm(end)
    assert pull(store, 1) == ("FOUND", 3, 3, 2)


def test_a_confirm_offset_above_the_end_waits_for_the_log(store) -> None:
    """A slave that lost its tail knows of more than it has."""
    store.confirm(1 << 40)
    assert store.confirm_offset == 0
    end = put(store, "t", 0, numbered(0)).end
    assert (store.confirm_offset, store.max_offset("t", 0)) == (end, 1)
    assert store.take_arrivals() == [("t", 0)]


def test_what_a_start_found_waits_too(tmp_path) -> None:
    with make_store(tmp_path / "s") as store:
        ends = [put(store, "t", 0, numbered(number)).end for number in range(5)]
        put(store, "u", 0, message("u", b"x"))
    with make_store(tmp_path / "s") as store:
        store.confirm(ends[1])
        assert (store.max_offset("t", 0), store.max_offset("u", 0)) == (2, 0)
        assert pull(store, 4) == ("OFFSET_OVERFLOW_ONE", 4, 2, 0)
        assert pull(store, 0) == ("FOUND", 2, 2, 2)
        put(store, "t", 0, numbered(5))
        assert store.max_offset("t", 0) == 2
        store.confirm(ends[3])
        assert sorted(store.take_arrivals()) == [("t", 0), ("u", 0)]
        assert store.max_offset("t", 0) == 4
        store.confirm(store.written)
        assert sorted(store.take_arrivals()) == [("t", 0), ("u", 0)]
        assert (store.max_offset("t", 0), store.max_offset("u", 0)) == (6, 1)


def test_below_the_first_message_nothing_is_confirmed_and_no_reader_loses_its_place(tmp_path) -> None:
    """A master elected below the minimum confirms nothing, and may remember less than retention has deleted meanwhile.

    Who has read further than it knows to be confirmed waits; only who is behind its last message is sent elsewhere, which
    takes a forced election of a replica that lacks what was read.
    """
    clock, settings = StillClock(), {"retention_bytes": 8192, "flush_interval_ms": 1}
    with make_store(tmp_path / "s", clock, **settings) as store:
        first = put(store, "t", 0, numbered(0)).end
        for number in range(1, 150):
            put(store, "t", 0, numbered(number))
        store.flush_all(20_000)
        for _ in range(40):
            clock.time_ms += 100
            persist(store, clock.time_ms)
            store.on_tick(clock.time_ms)
    with make_store(tmp_path / "s", clock, **settings) as store:
        store.confirm(first)
        low = store.min_offset("t", 0)
        assert 0 < low < 150
        assert store.max_offset("t", 0) == low, "of what it has, nothing may be read"
        assert pull(store, 0) == ("OFFSET_TOO_SMALL", low, low, 0)
        assert {pull(store, offset)[:2] for offset in (low, 149, 150)} == {
            ("OFFSET_OVERFLOW_ONE", offset) for offset in (low, 149, 150)
        }
        assert pull(store, 151)[0] == "OFFSET_OVERFLOW_BADLY"
        store.confirm(store.written)
        assert pull(store, 149)[:2] == ("FOUND", 150)


@pytest.mark.parametrize("waits", [False, True])
def test_behind_the_end_a_slave_s_reader_waits(store, waits: bool) -> None:
    """Its master may have given the reader more than the slave holds: such an offset is not illegal there."""
    store.waits_above_end = waits
    assert pull(store, 7)[:2] == (("OFFSET_OVERFLOW_ONE", 7) if waits else ("NO_MATCHED_LOGIC_QUEUE", 0))
    assert pull(store, 0)[:2] == ("NO_MATCHED_LOGIC_QUEUE", 0)
    put(store, "t", 0, numbered(0))
    assert pull(store, 7)[:2] == (("OFFSET_OVERFLOW_ONE", 7) if waits else ("OFFSET_OVERFLOW_BADLY", 0))
    assert pull(store, 0)[:2] == ("FOUND", 1)


def test_a_deleted_topic_waits_for_nothing(store) -> None:
    store.confirm(0)
    put(store, "t", 0, numbered(0))
    store.delete_topic("t", store.written)
    end = put(store, "t", 0, numbered(1)).end
    store.confirm(end)
    assert [(m.body, m.queue_offset) for m in read_queue(store, "t", 0)] == [(b"1", 0)]


def test_a_topic_set_aside_while_its_units_are_synced_is_synced_where_it_is_then(store, monkeypatch) -> None:
    """Its deletion may be cut from the log, and then they are needed: until they are synced nothing says that they are."""
    store.confirm(0)
    put(store, "t", 0, numbered(0))
    open_file, synced = unsynced_files._open_file, []

    def note(path: str) -> int | None:
        synced.append(path)
        return open_file(path)

    def lose_the_race(path: str) -> int | None:
        monkeypatch.setattr(unsynced_files, "_open_file", note)
        store.delete_topic("t", store.written)
        return open_file(path)

    monkeypatch.setattr(unsynced_files, "_open_file", lose_the_race)
    assert store._queues.persist() == 0
    assert store._queues.persist() == store.written
    assert [DELETED_FOLDER in path for path in synced] == [True]


@pytest.mark.parametrize("seed", range(30))
def test_any_history_is_read_up_to_the_runs_that_are_confirmed(tmp_path, seed: int) -> None:
    """Against a model: a queue ends before its first run that ends above the confirm offset; arrivals miss no queue."""
    chosen = random.Random(seed)
    runs: dict[int, list[tuple[int, int]]] = {queue_id: [] for queue_id in range(3)}  # (end, offset behind)
    confirmed, seen = 0, dict.fromkeys(runs, 0)
    with make_store(tmp_path / "s") as store:
        store.confirm(0)
        for _ in range(80):
            if chosen.random() < 0.6:
                staged = []
                for _ in range(chosen.randrange(1, 4)):
                    queue_id, count = chosen.randrange(3), chosen.randrange(1, 4)
                    placed = stage(store, "t", queue_id, *[numbered(chosen.randrange(9)) for _ in range(count)])
                    staged.append((queue_id, placed.end, placed.queue_offset + count))
                store.commit()
                for queue_id, end, behind in staged:
                    runs[queue_id].append((end, behind))
            else:
                confirmed = chosen.randint(0, store.written)
                store.confirm(confirmed)
            confirmed = store.confirm_offset
            arrivals = {queue_id for _, queue_id in store.take_arrivals()}
            for queue_id, ended in runs.items():
                expected = max([behind for end, behind in ended if end <= confirmed], default=0)
                assert store.max_offset("t", queue_id) == expected, f"seed={seed}"
                assert len(read_queue(store, "t", queue_id)) == expected, f"seed={seed}"
                if expected > seen[queue_id]:
                    assert queue_id in arrivals, f"seed={seed}"
                seen[queue_id] = expected


class State:
    """A state table of the simplest kind: how far it was told; `snapshots`: what was made durable."""

    def __init__(self) -> None:
        self.told = 0
        self.snapshots: list[int] = []

    def on_run(self, run) -> None:
        self.told = run.end

    def reflected(self) -> int:
        return self.snapshots[-1] if self.snapshots else 0

    def persist(self) -> int:
        self.snapshots.append(self.told)
        return self.told


class CopiedState(State):
    """One that keeps a copy until it is confirmed."""

    copy: int | None = None

    def persist_confirmed(self, confirmed: int) -> int:
        if self.copy is None:
            self.copy = self.told
        if self.copy <= confirmed:
            self.snapshots.append(self.copy)
            self.copy = None
        return self.reflected()


def tick(store: MessageStore, clock: StillClock) -> None:
    clock.time_ms += 100
    store.on_tick(clock.time_ms)
    store._upkeep.run_in_worker(lambda: None).result(20)


@pytest.mark.parametrize("kind", [State, CopiedState])
def test_no_snapshot_reflects_what_may_be_cut(tmp_path, kind) -> None:
    """Though the log grows faster than it is confirmed, and though the store is closed before all is."""
    clock, state = StillClock(), kind()
    with make_store(tmp_path / "s", clock, dispatchers=[state]) as store:
        store.confirm(0)
        confirmed = 0
        for number in range(20):
            end = put(store, "t", 0, numbered(number)).end
            tick(store, clock)
            assert all(snapshot <= confirmed for snapshot in state.snapshots)
            store.confirm(confirmed := end - 1)
        assert bool(state.snapshots) == (kind is CopiedState)
    assert state.reflected() <= confirmed


@pytest.mark.parametrize("kind", [State, CopiedState])
def test_a_stop_that_finds_all_confirmed_persists_all(tmp_path, kind) -> None:
    state = kind()
    with make_store(tmp_path / "s", dispatchers=[state]) as store:
        store.confirm(0)
        end = put(store, "t", 0, numbered(0)).end
        store.confirm(end)
    assert state.reflected() == end


def test_retention_keeps_what_is_not_confirmed(tmp_path) -> None:
    clock = StillClock()
    with make_store(tmp_path / "s", clock, retention_bytes=4096, delete_unconsumed=True) as store:
        store.confirm(0)
        for _ in range(6):
            put(store, "t", 0, message("t", bytes(3000)))
        store.flush_all(20_000)
        for _ in range(3):
            tick(store, clock)
        assert store.begin == 0
        store.confirm(store.written)
        for _ in range(8):
            tick(store, clock)
        assert store.begin > 0


# ---- what the next life knows


def reopened(tmp_path) -> int:
    with make_store(tmp_path / "s") as opened:
        return opened.remembered_confirm


def test_a_checkpoint_remembers_what_was_confirmed(tmp_path) -> None:
    with make_store(tmp_path / "s") as opened:
        opened.confirm(0)
        first = put(opened, "t", 0, numbered(0)).end
        put(opened, "t", 0, numbered(1))
        opened.confirm(first)
    assert reopened(tmp_path) == first


def test_it_stays_until_somebody_was_told(tmp_path) -> None:
    """A log that has lost bytes below it must tell so in every life, until one was heard."""
    with make_store(tmp_path / "s") as opened:
        opened.confirm(0)
        end = put(opened, "t", 0, numbered(0)).end
        opened.confirm(end)
    for confirmed, is_told, remembered in ((0, False, end), (0, False, end), (7, True, 7), (7, True, 7)):
        with make_store(tmp_path / "s") as opened:
            opened.confirm(confirmed)
            put(opened, "t", 0, numbered(1))
            if is_told:
                opened.forget_remembered_confirm()
                assert opened.remembered_confirm == 0
        assert reopened(tmp_path) == remembered


def test_what_was_lost_is_forgotten_before_other_bytes_can_take_its_place(tmp_path) -> None:
    """Durably: a crash right after must not take what an operator's forced master has written for what was confirmed."""
    with make_store(tmp_path / "s") as opened:
        opened.confirm(0)
        end = put(opened, "t", 0, numbered(0)).end
        opened.confirm(end)
    path = str(tmp_path / "s" / "checkpoint")
    write_checkpoint(path, dataclasses.replace(read_checkpoint(path), confirm_offset=end + 1000))
    with make_store(tmp_path / "s") as opened:
        assert opened.remembered_confirm == end + 1000
        opened.confirm(end)
        assert read_checkpoint(path).confirmed == end + 1000
        opened.forget_remembered_confirm()
        assert read_checkpoint(path).confirmed == end


def test_a_store_without_replicas_remembers_nothing(tmp_path) -> None:
    with make_store(tmp_path / "s") as opened:
        put(opened, "t", 0, numbered(0))
    assert reopened(tmp_path) == 0


@pytest.mark.parametrize("at", [1024 + 20 + 32, 0])
def test_a_torn_checkpoint_remembers_nothing_that_is_not_whole(tmp_path, at) -> None:
    """Both slots damaged, or the head written by RocketMQ: neither is taken for what we confirmed."""
    with make_store(tmp_path / "s") as opened:
        opened.confirm(0)
        opened.confirm(put(opened, "t", 0, numbered(0)).end)
    path = tmp_path / "s" / "checkpoint"
    data = bytearray(path.read_bytes())
    for position in (at, at + 1024) if at else (0,):
        data[position] ^= 0xFF
    path.write_bytes(data)
    assert reopened(tmp_path) == 0


def test_a_cut_takes_what_is_remembered_with_it(tmp_path) -> None:
    with make_store(tmp_path / "s") as opened:
        opened.confirm(0)
        first = put(opened, "t", 0, numbered(0)).end
        opened.confirm(put(opened, "t", 0, numbered(1)).end)
    truncate_store(str(tmp_path / "s"), StoreConfig(**SMALL), first)
    assert reopened(tmp_path) == first
