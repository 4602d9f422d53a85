"""A compacted topic against a dictionary: whatever is put, deleted, compacted, killed and expired, who reads from the first
offset ends with the dictionary, and every message that is read is the one that was sent there."""

import random
import shutil

import pytest
from compaction_kit import compact, open_compacting, present, put_value, read_on, retain
from store_kit import StillClock, kill

KEYS = [f"k{n}" for n in range(12)]


class Model:
    """What was sent to two queues."""

    def __init__(self, clock: StillClock, tombstone_ms: int) -> None:
        self.clock = clock
        self.tombstone_ms = tombstone_ms
        self.sent: list[list[tuple[str, bytes]]] = [[], []]
        self.times: list[list[int]] = [[], []]

    def put(self, store, queue_id: int, key: str, body: bytes) -> None:
        assert put_value(store, queue_id, key, body) == len(self.sent[queue_id])
        self.sent[queue_id].append((key, body))
        self.times[queue_id].append(self.clock.time_ms)

    def state(self, queue_id: int) -> dict[str, bytes]:
        return {key: body for key, body in dict(self.sent[queue_id]).items() if body}

    def gone(self, queue_id: int) -> set[str]:
        """Keys whose tombstone may have gone: a reader that stopped before it may miss it."""
        newest = {key: (body, at) for (key, body), at in zip(self.sent[queue_id], self.times[queue_id], strict=True)}
        old = self.clock.time_ms - self.tombstone_ms
        return {key for key, (body, at) in newest.items() if not body and at <= old}

    def check(self, store, chosen: random.Random) -> None:
        for queue_id, sent in enumerate(self.sent):
            found = read_on(store, queue_id, 0)
            assert [one.queue_offset for one in found] == sorted({one.queue_offset for one in found})
            assert all(sent[one.queue_offset] == (one.keys[0], one.body) for one in found)
            assert present(found) == self.state(queue_id)
            assert store.max_offset("c", queue_id) == len(sent)
            if sent:
                begin = chosen.randrange(len(sent))
                seen = dict(sent[:begin]) | {one.keys[0]: one.body for one in read_on(store, queue_id, begin)}
                kept = {key: body for key, body in seen.items() if body}
                assert {key: body for key, body in kept.items() if key not in self.gone(queue_id)} == self.state(
                    queue_id
                )


@pytest.mark.parametrize("engine", ["file", "rocksdb"])
@pytest.mark.parametrize("seed", range(4))
def test_a_reader_from_the_first_offset_has_the_newest_value_of_each_key(tmp_path, seed: int, engine: str) -> None:
    chosen, clock = random.Random(seed), StillClock()
    tombstone_ms = chosen.choice([0, 10_000])
    model = Model(clock, tombstone_ms)
    settings = {"consume_queue": engine, "compaction_tombstone_ms": tombstone_ms}
    place = tmp_path / "s0"
    store = open_compacting(place, clock, **settings)
    for step in range(60):
        for _ in range(chosen.randrange(4)):
            body = b"" if chosen.random() < 0.2 else b"%d" % step * chosen.randrange(1, 90)
            model.put(store, chosen.randrange(2), chosen.choice(KEYS), body)
            clock.time_ms += chosen.randrange(2000)
        what = chosen.randrange(8)
        if what < 3:
            compact(store, clock, "c" if what else None)
        elif what < 6:
            retain(store, clock)
        elif what == 6:
            store.flush_all(20_000)
            copy = kill(place, tmp_path / f"s{step + 1}")
            store.__exit__(None, None, None)
            shutil.rmtree(place)
            place = copy
            store = open_compacting(place, clock, **settings)
        model.check(store, chosen)
    compact(store, clock)
    retain(store, clock)
    assert store.begin > 0
    model.check(store, chosen)
    for queue_id in range(2):
        below = [one.keys[0] for one in read_on(store, queue_id, 0) if one.physical_offset < store.begin]
        assert len(below) == len(set(below))
    store.__exit__(None, None, None)
