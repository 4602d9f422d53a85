"""The scrub's shell: a tick reads a little, damage leaves sight, progress is kept, and a busy broker is left alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from store_kit import StillClock, make_store, message, put

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.repair import scrub as scrub_module
from zenitmq.broker.repair.scrub import SCRUB_FILE, Scrub
from zenitmq.model.errors import InvalidParameter
from zenitmq.remoting.commands import ScrubLog
from zenitmq.store.opening.snapshot import read_snapshot

WEEK_MS = 7 * 86_400_000


class World:
    """The loop and the workers: work is done at once."""

    def __init__(self) -> None:
        self.tick: Callable[[], None] = lambda: None

    def every(self, _interval_ms: int, callback: Callable[[], None]) -> None:
        self.tick = callback

    def run_aside(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        then(work())


class Call:
    def __init__(self, rate: int) -> None:
        self.request = ScrubLog(rate)


class Scene:
    def __init__(self, directory: Any, clock: StillClock) -> None:
        self.clock = clock
        self.store = make_store(directory, clock).__enter__()
        self.world: Any = World()
        self.scrub = Scrub(self.store, self.world, clock, self.world, BrokerConfig(store_dir=str(directory)))
        self.scrub.start()

    def ask(self, rate: int = 1 << 30) -> None:
        call: Any = Call(rate)
        self.scrub.on_scrub(call)

    def run(self, ticks: int) -> dict[str, Any]:
        for _ in range(ticks):
            self.clock.time_ms += 100
            self.world.tick()
        return self.scrub.document()

    def close(self) -> None:
        self.store.__exit__(None, None, None)


@pytest.fixture
def scene(tmp_path):
    scene = Scene(tmp_path / "s", StillClock())
    for number in range(60):
        put(scene.store, "t", 0, message("t", b"%04d" % number * 50))
    scene.store.flush_all(20_000)
    yield scene
    scene.close()


def test_a_round_that_is_asked_for_finds_what_has_rotted_and_is_kept(scene: Scene, tmp_path) -> None:
    entry = list(scene.store._log.checksums.entries(0, scene.store.written))[3]
    segment = scene.store._log.segments()[0]
    os.pwrite(segment.open_fd(), b"\xff", entry.offset + 120)
    scene.ask()
    found = scene.run(20)
    assert found["current"] is None
    assert (found["last"]["damaged_ranges"], found["last"]["damaged_bytes"]) == (1, entry.length)
    assert scene.store.damage.quarantine.rotten == ((entry.offset, entry.end),)
    kept = read_snapshot(str(tmp_path / "s" / SCRUB_FILE))
    assert kept is not None
    assert kept.document["last"] == found["last"]
    scene.close()
    again = Scene(tmp_path / "s", scene.clock)
    scene.store = again.store
    assert again.scrub.document()["last"] == found["last"]


def test_a_round_comes_by_itself_but_not_while_the_broker_is_busy(scene: Scene, monkeypatch) -> None:
    used_ns = [0]
    monkeypatch.setattr(scrub_module, "process_cpu_ns", lambda: used_ns[0])
    assert scene.run(10)["next_due_ms"] == scene.clock.time_ms - 1000 + WEEK_MS
    scene.clock.time_ms += WEEK_MS
    used_ns[0] += WEEK_MS * 600_000
    for _ in range(30):
        used_ns[0] += 60_000_000  # of each 100 ms
        busy = scene.run(1)
    assert (busy["current"] is not None, busy["is_waiting_for_calm"], busy["last"]) == (True, True, None)
    calm = scene.run(40)
    assert (calm["current"], calm["is_waiting_for_calm"]) == (None, False)
    assert calm["last"]["read_bytes"] == calm["last"]["vouched_bytes"] > 0


def test_what_went_to_retention_while_it_was_to_be_read_is_left_out(scene: Scene) -> None:
    scene.ask(4096)
    assert scene.scrub.document()["current"]["begin"] == 0
    scene.store._log.remove_before(8192)
    scene.ask()
    assert scene.run(20)["last"]["begin"] == 8192


@pytest.mark.parametrize("rate", [-1, 1, 4095])
def test_a_rate_below_the_settings_minimum_is_refused(scene: Scene, rate: int) -> None:
    with pytest.raises(InvalidParameter):
        scene.ask(rate)


def test_a_log_whose_file_was_moved_away_ends_the_round_with_an_error(scene: Scene, caplog) -> None:
    path = scene.store._log.segments()[0].path
    os.rename(path, f"{path}.x")
    scene.ask()
    found = scene.run(20)
    os.rename(f"{path}.x", path)
    assert found["current"] is None
    assert "No such file" in found["last"]["error"]
    assert path in found["last"]["error"]
    assert sum("scrub ended early" in record.getMessage() for record in caplog.records) == 1
    scene.ask()
    assert scene.run(20)["last"]["error"] == ""


def test_a_file_that_may_not_be_opened_ends_the_round_with_an_error(scene: Scene) -> None:
    path = scene.store._log.segments()[0].path
    os.rename(path, f"{path}.x")
    os.symlink(path, path)
    scene.ask()
    found = scene.run(20)
    os.replace(f"{path}.x", path)
    assert (found["current"], found["last"]["read_bytes"]) == (None, 0)
    assert "symbolic links" in found["last"]["error"]


def test_a_checksum_entry_that_has_rotted_is_told_once_and_rewritten_where_it_is_sure(scene: Scene, caplog) -> None:
    path = scene.store._log.segments()[0].path.replace("commitlog", "checksum")
    with open(path, "rb") as file:
        whole = file.read()
    for slots in ((3,), (3, 8)):
        data = bytearray(whole)
        for slot in slots:
            data[slot * 16 + 7] ^= 1
        if len(slots) == 2:
            data[8 * 16 + 15] ^= 1  # its checksum too: nothing says what it was
        with open(path, "r+b") as file:
            file.write(data)
        scene.ask()
        last = scene.run(20)["last"]
        assert (last["damaged_entries"], last["mended_entries"], last["damaged_ranges"]) == (len(slots), 1, 0)
    assert last["damaged_entry"] == f"checksum/{0:020d} entry 8"
    scene.ask()
    last = scene.run(20)["last"]
    assert (last["damaged_entries"], last["mended_entries"]) == (1, 0)
    told = [record.getMessage() for record in caplog.records if "checksum entry" in record.getMessage()]
    assert [("rewritten" in text, "entry 8" in text) for text in told] == [(True, False), (True, False), (False, True)]


def test_what_was_quarantined_and_has_its_checksum_comes_back(scene: Scene) -> None:
    entries = list(scene.store._log.checksums.entries(0, scene.store.written))
    whole, rotten = entries[3], entries[7]
    os.pwrite(scene.store._log.segments()[0].open_fd(), b"\xff", rotten.offset + 120)
    scene.store.damage.add_all([(whole.offset, whole.end), (rotten.offset, rotten.end)], "by somebody who was wrong")
    scene.ask()
    scene.run(20)
    assert scene.store.damage.quarantine.ranges == ((rotten.offset, rotten.end),)
