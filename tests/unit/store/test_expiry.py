"""What expires goes some at a time: a call looks at few queues, gives up few segments and files, and says that it has more."""

import os

import pytest
from store_kit import StillClock, make_store, message, put, wait_until

from zenitmq.store.expiry import share_of
from zenitmq.store.message_store import MessageStore
from zenitmq.store.queues.consume_queue import ConsumeQueue
from zenitmq.store.retention_needs import FixedNeeds

QUEUES = 50
SETTINGS = {"retention_bytes": 4096, "recycle_segments": 0, "queue_file_units": 16, "index_enabled": False}


class Groups(FixedNeeds):
    """Whose offsets a test moves."""

    def __init__(self, offsets) -> None:
        super().__init__(offsets)
        self.offsets = offsets
        self.revision = 0
        self.lowered: list[tuple[str, int, int]] = []

    def lower(self, queue_id: int, offset: int) -> None:
        self.offsets["t", queue_id] = offset
        self.lowered.append(("t", queue_id, offset))
        self.revision += 1

    def since(self, revision):
        return super().since(None) if revision is None else iter(self.lowered[revision:])


def fill(store: MessageStore, clock: StillClock, rounds: int) -> None:
    for _ in range(rounds):
        for queue_id in range(QUEUES):
            put(store, "t", queue_id, message("t", b"x" * 30))
    store.flush_all(20_000)
    for _ in range(2):
        clock.time_ms += 100
        store._upkeep._persist((store.written, clock.time_ms))


def segments(directory) -> list[str]:
    return sorted(os.listdir(directory / "s" / "commitlog"))


@pytest.fixture
def looks(monkeypatch) -> list[int]:
    found: list[int] = []
    unit = ConsumeQueue.unit

    def counted(queue: ConsumeQueue, queue_offset: int):
        found.append(queue.queue_id)
        return unit(queue, queue_offset)

    monkeypatch.setattr(ConsumeQueue, "unit", counted)
    monkeypatch.setattr("zenitmq.store.expiry.LOOKS_PER_SLICE", 5 * 17)
    return found


def test_a_call_looks_at_few_queues_and_nothing_goes_before_all_were_looked_at(tmp_path, looks) -> None:
    clock = StillClock()
    with make_store(tmp_path / "s", clock, **SETTINGS) as store:
        fill(store, clock, 6)
        groups = Groups({("t", q): 5 for q in range(QUEUES)})
        store.protect(groups)
        begin, calls = store.begin, 0
        while not store.on_tick(clock.time_ms):
            calls += 1
            assert store.has_upkeep_left
            assert store.begin == begin
            assert len(looks) <= 5 * calls
        assert calls == QUEUES // 5
        assert store.begin > begin


def test_whoever_goes_back_while_others_are_looked_at_loses_nothing(tmp_path, looks) -> None:
    clock = StillClock()
    with make_store(tmp_path / "s", clock, **SETTINGS) as store:
        fill(store, clock, 6)
        groups = Groups({("t", q): 5 for q in range(QUEUES)})
        store.protect(groups)
        for _ in range(4):
            assert store.on_tick(clock.time_ms) == []
        groups.lower(2, 0)  # it was looked at
        events = []
        while store.has_upkeep_left:
            events += store.on_tick(clock.time_ms)
        position = store._queues.get("t", 2).unit(0)[0]
        assert store.begin <= position
        assert [event.kind for event in events] == ["unconsumed_held"]
        looks.clear()
        for _ in range(5):
            assert store.on_tick(clock.time_ms) == []
            assert not store.has_upkeep_left
        assert looks == [2] * 5, "the one that holds, and no other"
        groups.offsets["t", 2] = 6
        while not (events := store.on_tick(clock.time_ms)):
            assert store.has_upkeep_left
        assert {event.kind for event in events} == {"segment_deleted"}


def test_what_is_given_up_unconsumed_is_told_of_each_queue(tmp_path, looks) -> None:
    clock = StillClock()
    with make_store(tmp_path / "s", clock, **SETTINGS, delete_unconsumed=True) as store:
        fill(store, clock, 6)
        store.protect(Groups({("t", q): 0 for q in range(0, QUEUES, 2)}))
        while not (events := store.on_tick(clock.time_ms)):
            assert store.has_upkeep_left
        told = [event.detail.partition(":")[0] for event in events if event.kind == "unconsumed_deleted"]
        assert told == [f"t queue {q}" for q in range(0, QUEUES, 2)]


def test_many_small_segments_and_queue_files_go_in_parts(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("zenitmq.store.expiry.SEGMENTS_PER_SLICE", 3)
    monkeypatch.setattr("zenitmq.store.expiry.QUEUES_PER_SLICE", 4)
    removed: list[int] = []
    remove_before = ConsumeQueue.remove_before

    def counted(queue: ConsumeQueue, log_begin: int) -> int:
        removed.append(queue.queue_id)
        return remove_before(queue, log_begin)

    monkeypatch.setattr(ConsumeQueue, "remove_before", counted)
    clock = StillClock()
    with make_store(tmp_path / "s", clock, **SETTINGS) as store:
        fill(store, clock, 40)
        while store.begin + 2 * 4096 < store.written or store.has_upkeep_left:
            before = store.begin, len(removed)
            events = store.on_tick(clock.time_ms)
            assert len(events) <= 3
            assert store.begin - before[0] <= 3 * 4096
            assert len(removed) - before[1] <= 8
        assert not store.on_tick(clock.time_ms)
        wait_until(lambda: len(segments(tmp_path)) <= 3)
        for queue_id in range(QUEUES):
            assert len(os.listdir(tmp_path / "s" / "consumequeue" / "t" / str(queue_id))) == 1


def test_segments_do_not_wait_for_the_queue_files_of_those_before(tmp_path, monkeypatch) -> None:
    """With a million queues those took longer than the next segments to be written: the log grew as long as somebody sent."""
    monkeypatch.setattr("zenitmq.store.expiry.QUEUES_PER_SLICE", 1)
    clock = StillClock()
    with make_store(tmp_path / "s", clock, **SETTINGS, consume_queue="rocksdb") as store:
        for _ in range(20):
            fill(store, clock, 4)
            for _ in range(3):
                store.on_tick(clock.time_ms)
            assert store.written - store.begin <= 4096 + 3 * 4096
        assert store.has_upkeep_left
        while store.has_upkeep_left:
            store.on_tick(clock.time_ms)
        firsts = [store._queues.get("t", queue_id) for queue_id in range(QUEUES)]
        assert [queue.first_offset for queue in firsts] == [queue.min_offset(store.begin) for queue in firsts]


@pytest.mark.parametrize(
    ("behind", "share"), [(-1, 1), (0, 1), ((1 << 30) - 1, 1), (1 << 30, 2), (5 << 30, 6), (7 << 30, 8), (1 << 40, 8)]
)
def test_who_is_further_behind_gets_more_of_the_loop_up_to_a_bound(behind: int, share: int) -> None:
    assert share_of(behind) == share


def test_the_log_is_kept_for_a_replica_that_copies_and_goes_once_its_lease_is_over(tmp_path) -> None:
    clock = StillClock()
    with make_store(tmp_path / "s", clock, **SETTINGS) as store:
        fill(store, clock, 6)
        begin = store.begin
        store.hold_log("store-b", begin, 60_000)
        events = [event.kind for _ in range(20) for event in store.on_tick(clock.time_ms)]
        assert (store.begin, events) == (begin, ["held_for_readers"])
        clock.time_ms += 50_000
        store.renew_log_hold("store-b", 60_000)
        clock.time_ms += 50_000
        for _ in range(20):
            store.on_tick(clock.time_ms)
        assert store.begin == begin
        clock.time_ms += 10_000
        for _ in range(20):
            store.on_tick(clock.time_ms)
        assert store.begin > begin
