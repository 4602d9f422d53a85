"""Looking at a store beside the broker that writes it: what expires meanwhile is left out, and is no damage."""

import os
from pathlib import Path

import pytest
from store_kit import StillClock, make_store, message, put, wait_until

from zenitmq.broker.repair.stored_state import store_statistics
from zenitmq.model.names import TIMER_TOPIC
from zenitmq.store.integrity.scrub_reader import ScrubReader
from zenitmq.store.message_store import MessageStore
from zenitmq.store.offline import offline_log
from zenitmq.store.offline.offline import dump_store, inspect_store, verify_store
from zenitmq.store.offline.pending import PendingReader

SEGMENT_BYTES = 1 << 16
SETTINGS = {"segment_bytes": SEGMENT_BYTES, "retention_bytes": 4 * SEGMENT_BYTES, "preallocate_segments": 1}


class Broker:
    """Writes on, so that the oldest segments expire and are shortened or written over."""

    def __init__(self, store: MessageStore, clock: StillClock) -> None:
        self.store, self.clock, self.sent = store, clock, 0

    def write(self, segments: int) -> None:
        for _ in range(segments):
            end = self.store.written + SEGMENT_BYTES
            while self.store.written < end:
                put(self.store, "t", 0, message("t", b"%06d" % self.sent + b"b" * 1500))
                self.sent += 1
            self.store.flush_all(20_000)
            for _ in range(2):
                self.clock.time_ms += 100
                self.store.on_tick(self.clock.time_ms)
                self.store._upkeep.run_in_worker(lambda: None).result(20)

    def expire(self) -> None:
        """All that was there when this was called is given up, and its files are done with."""
        end = self.store.written
        files = [Path(segment.path) for segment in self.store._log.segments()[:-1]]
        inodes = {os.stat(path).st_ino for path in files}
        while self.store.begin < end - SEGMENT_BYTES:
            self.write(1)
        wait_until(lambda: not any(path.exists() and os.stat(path).st_ino in inodes for path in files))


@pytest.fixture(params=[(0, 16), (2, 16), (0, 4096)], ids=["deleted", "recycled", "queues stay"])
def broker(request, tmp_path, monkeypatch):
    monkeypatch.setattr("zenitmq.store.log.allocator.SHRINK_STEP_BYTES", 4096)
    clock = StillClock()
    recycled, units = request.param
    more = {"recycle_segments": recycled, "queue_file_units": units}
    with make_store(tmp_path / "s", clock, **SETTINGS, **more) as store:
        broker = Broker(store, clock)
        broker.write(3)
        yield broker


@pytest.mark.parametrize("when", ["before it is read", "after it was read"])
def test_what_expires_while_it_is_verified_is_no_damage(tmp_path, broker: Broker, monkeypatch, when: str) -> None:
    monkeypatch.setattr(offline_log, "READ_BYTES", 20_000)
    calls: list[str] = []

    def expire_once(reader: ScrubReader, *rest: object) -> object:
        calls.append("")
        if len(calls) == 2:
            broker.expire()
            broker.write(2)
        return real(reader, *rest)

    name = "read" if when == "before it is read" else "is_there"
    real = getattr(ScrubReader, name)
    monkeypatch.setattr(ScrubReader, name, expire_once)
    end = broker.store.written
    found = verify_store(str(tmp_path / "s"))
    assert broker.store.begin > 0
    assert found["damaged"] == []
    assert found["end_offset"] == end
    assert 0 <= found["bytes"] <= 2 * SEGMENT_BYTES
    monkeypatch.undo()
    found = verify_store(str(tmp_path / "s"))
    assert found["damaged"] == []
    assert found["bytes"] == broker.store.written - broker.store.begin


@pytest.mark.parametrize("read_bytes", [700, 20_000])
def test_what_expires_while_it_is_printed_is_left_out(tmp_path, broker: Broker, monkeypatch, read_bytes: int) -> None:
    """However small the pieces are that it is read in: a record is never cut."""
    monkeypatch.setattr(offline_log, "READ_BYTES", read_bytes)
    sent, bodies = broker.sent, []
    for record in dump_store(str(tmp_path / "s")):
        bodies.append(int(record.body[:6]))
        if len(bodies) == 60:
            broker.expire()
    assert bodies == sorted(set(bodies))
    assert bodies[:60] == list(range(60))
    assert len(bodies) < sent
    monkeypatch.undo()
    first = next(iter(dump_store(str(tmp_path / "s"))))
    kept = [int(record.body[:6]) for record in dump_store(str(tmp_path / "s"))]
    assert kept == list(range(int(first.body[:6]), broker.sent))


def test_what_expires_while_what_waits_is_listed_is_left_out(tmp_path, broker: Broker, monkeypatch) -> None:
    """Their pages are gone: to touch them would end the process."""
    for number in range(100):
        put(broker.store, TIMER_TOPIC, 0, message(TIMER_TOPIC, b"%d" % number + b"w" * 1500, unique=f"{number:032X}"))
    broker.store.flush_all(20_000)
    real = PendingReader._messages

    def expire_first(reader: PendingReader, *place: object) -> object:
        if not calls:
            calls.append(broker.expire())
        return real(reader, *place)

    calls: list[None] = []
    monkeypatch.setattr(PendingReader, "_messages", expire_first)
    found = inspect_store(str(tmp_path / "s"))["pending"]["timed"]
    assert calls
    kept = len(found)
    assert [one["message_id"] for one in found] == [f"{number:032X}" for number in range(100 - kept, 100)]
    assert kept < 100
    assert store_statistics(str(tmp_path / "s"))["waiting"]["delayed"] == kept


def test_damage_beside_a_broker_is_found_all_the_same(tmp_path, broker: Broker) -> None:
    place = broker.store._queues.get("t", 0).unit(50)[0]
    path = tmp_path / "s" / "commitlog" / f"{place // SEGMENT_BYTES * SEGMENT_BYTES:020d}"
    with open(path, "r+b") as file:
        file.seek(place % SEGMENT_BYTES + 300)
        file.write(b"?")
    found = verify_store(str(tmp_path / "s"))
    assert [damage["begin"] for damage in found["damaged"]] == [place]
    assert found["records"] == broker.sent - 1


def test_a_segment_that_goes_while_the_log_is_opened(tmp_path, broker: Broker, monkeypatch) -> None:
    list_segments, calls = offline_log._LogBeside, []

    def late(directory: str, **options: object) -> object:
        calls.append(directory)
        if len(calls) < 3:
            raise FileNotFoundError(directory)
        return list_segments(directory, **options)

    monkeypatch.setattr(offline_log, "_LogBeside", late)
    assert verify_store(str(tmp_path / "s"))["records"] == broker.sent
    assert inspect_store(str(tmp_path / "s"))["end_offset"] == broker.store.written
    calls.clear()
    monkeypatch.setattr(offline_log, "_TRIES", 2)
    with pytest.raises(FileNotFoundError):
        verify_store(str(tmp_path / "s"))
