"""Light queues through random histories, held against a list of what was put into each: with every engine, at a master and at
a slave of another engine, through kills, starts, expiries, deletions and rebuilds. No offset is ever used twice."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from store_kit import StillClock, kill, light, make_store, message, persist, put, read_queue

from zenitmq.store.message_store import MessageStore
from zenitmq.store.queues import light_offsets

NAMES = [f"%LMQ%{letter}" for letter in "abcdef"]
SETTINGS: dict[str, Any] = {"segment_bytes": 4096, "retention_bytes": 8192, "flush_interval_ms": 1}
OTHER = {"file": "rocksdb", "rocksdb": "both", "both": "file"}


class History:
    """A master and a slave, what is in each light queue, and which offsets were used."""

    def __init__(self, directory: Path, engine: str, seed: int) -> None:
        self.draw = Random(seed)
        self.clock = StillClock()
        self.engine, self.directory = engine, directory
        self.lives = 0
        self.put: dict[str, list[tuple[int, bytes]]] = {name: [] for name in NAMES}
        self.used = dict.fromkeys(NAMES, -1)
        self.master = self.open(directory / "m0", engine)
        self.slave = self.open(directory / "s0", OTHER[engine])

    def open(self, path: Path, engine: str) -> MessageStore:
        return make_store(path, self.clock, consume_queue=engine, **SETTINGS).__enter__()

    def close(self) -> None:
        self.master.__exit__(None, None, None)
        self.slave.__exit__(None, None, None)

    def send(self) -> None:
        records = []
        bodies: dict[str, list[bytes]] = {}
        for _ in range(self.draw.randrange(1, 6)):
            names = self.draw.sample(NAMES, self.draw.choice((0, 1, 1, 1, 2, 3)))
            body = b"%d" % self.draw.randrange(1 << 40)
            records.append(light("t", body, *names) if names else message("t", body))
            for name in names:
                bodies.setdefault(name, []).append(body)
        before = {name: self.master.max_offset(name, 0) for name in bodies}
        put(self.master, "t", self.draw.randrange(3), *records)
        for name, sent in bodies.items():
            end = self.master.max_offset(name, 0)
            begin = end - len(sent)
            assert begin > self.used[name], "no offset is used again"
            assert begin in (before[name], self.master.min_offset(name, 0))
            self.put[name] += [(begin + index, body) for index, body in enumerate(sent)]
            self.used[name] = end - 1

    def fill(self) -> None:
        for _ in range(self.draw.randrange(5, 30)):
            put(self.master, "t", 0, message("t", bytes(150)))

    def follow(self) -> None:
        while self.slave.written < self.master.written:
            begin = self.slave.written
            chunk = self.master.chunk(begin, bytes_max=self.draw.choice((600, 4096)))
            self.slave.append_chunk(bytes(chunk.data), begin, chunk.end)

    def expire(self) -> None:
        self.follow()
        for store in (self.master, self.slave):
            store.flush_all(20_000)
            for _ in range(20):
                self.clock.time_ms += 100
                persist(store, self.clock.time_ms)
                store.on_tick(self.clock.time_ms)

    def delete(self) -> None:
        self.follow()
        name = self.draw.choice(NAMES)
        for store in (self.master, self.slave):
            store.delete_light_queue(name)
            persist(store, self.clock.time_ms)  # a replay does not bring it back
        self.put[name] = []

    def start_again(self, *, is_killed: bool, is_rebuilt: bool = False) -> None:
        self.lives += 1
        path = self.directory / f"m{self.lives}"
        if is_killed:
            kill(self.directory / f"m{self.lives - 1}", path)
        self.master.__exit__(None, None, None)
        if not is_killed:
            shutil.copytree(self.directory / f"m{self.lives - 1}", path)
        if is_rebuilt:
            for folder in ("consumequeue", "shadow"):
                shutil.rmtree(path / folder, ignore_errors=True)
        self.master = self.open(path, self.engine)

    def check(self) -> None:
        self.follow()
        for store in (self.master, self.slave):
            for name, sent in self.put.items():
                found = [(m.queue_offset, m.body) for m in read_queue(store, name, 0)]
                assert found == sent[len(sent) - len(found) :]
                lost = len(sent) - len(found)
                assert lost == 0 or store.begin > 0, "only what expired is gone"
            if isinstance(differences := getattr(store._queues, "differences", 0), int):
                assert differences == 0


@pytest.mark.parametrize("engine", ["file", "rocksdb", "both"])
@pytest.mark.parametrize("seed", range(8))
def test_what_was_put_is_read_and_no_offset_is_used_twice(
    tmp_path: Path, engine: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(light_offsets, "LIGHT_STEP", 32)  # a queue may begin anew each 4096 bytes
    history = History(tmp_path, engine, seed)
    try:
        for _ in range(60):
            step = history.draw.choice(
                [history.send] * 8
                + [history.fill] * 2
                + [history.follow, history.expire, history.check]
                + [history.delete] * (seed % 2)
            )
            step()
            if history.draw.randrange(12) == 0:
                history.start_again(is_killed=bool(history.draw.randrange(2)))
        history.check()
        if seed % 2 == 0:
            history.start_again(is_killed=False, is_rebuilt=True)
            history.check()
    finally:
        history.close()
