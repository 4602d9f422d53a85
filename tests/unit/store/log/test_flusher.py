"""The flush thread against a log that is no log: when it syncs, whom it tells, what ends it."""

import threading

import pytest

from zenitmq.model.errors import StorePoisoned
from zenitmq.store.log import flusher as flusher_module
from zenitmq.store.log.flusher import Flusher

DEADLINE_MS = 20_000


class Target:
    """Counts what is asked of it."""

    def __init__(self) -> None:
        self.written = self.flushed = 0
        self.synced_to: list[int] = []
        self.poisoned: list[str] = []

    def sync_to(self, target: int) -> None:
        self.synced_to.append(target)
        self.flushed = target

    def poison(self, what: str) -> StorePoisoned:
        self.poisoned.append(what)
        return StorePoisoned(what)


def test_without_a_request_it_runs_each_interval():
    target, told = Target(), threading.Event()
    target.written = 5
    flusher = Flusher(target, interval_ms=1, on_flushed=told.set)
    flusher.start()
    assert told.wait(DEADLINE_MS / 1000)
    flusher.close()
    assert target.synced_to == [5]


def test_with_nothing_new_it_syncs_nothing_and_tells_nobody():
    target, told = Target(), []
    flusher = Flusher(target, interval_ms=DEADLINE_MS, on_flushed=lambda: told.append(1))
    flusher.flush_once()
    assert (target.synced_to, told) == ([], [])


def test_closing_flushes_a_last_time():
    target = Target()
    flusher = Flusher(target, interval_ms=DEADLINE_MS, on_flushed=lambda: None)
    flusher.start()
    target.written = 7
    flusher.close()
    assert target.flushed == 7


def test_what_is_written_during_the_last_flush_before_closing_is_flushed_too():
    target = Target()
    flusher = Flusher(target, interval_ms=1, on_flushed=lambda: None)

    def sync_to(up_to: int) -> None:
        target.flushed = up_to
        if up_to == 1:
            target.written = 2
            flusher._stopping = True

    target.sync_to = sync_to
    target.written = 1
    flusher.start()
    flusher.wait(2, DEADLINE_MS)
    flusher.close()
    assert target.flushed == 2


@pytest.mark.parametrize("culprit", ["sync_to", "on_flushed"])
def test_whatever_fails_ends_the_thread_and_frees_who_waits(culprit, caplog):
    target = Target()
    calls = []

    def fail(*_):
        calls.append(1)
        raise OSError(5, "Input/output error") if culprit != "on_flushed" else RuntimeError("a mistake")

    if culprit != "on_flushed":
        setattr(target, culprit, fail)
    flusher = Flusher(target, interval_ms=1, on_flushed=fail if culprit == "on_flushed" else lambda: None)
    target.written = 1
    flusher.start()
    with pytest.raises(StorePoisoned):
        flusher.wait(2, DEADLINE_MS)
    target.written = 2
    flusher.close()
    assert (len(calls), len(target.poisoned), len(caplog.records)) == (1, 1, 1)
    assert target.flushed < 2


def test_a_sync_that_does_not_end_tells_for_how_long(monkeypatch):
    now = [100]
    monkeypatch.setattr(flusher_module, "monotonic_ms", lambda: now[0])
    seen = []

    class Slow(Target):
        def sync_to(self, target: int) -> None:
            now[0] += 2_500
            seen.append(flusher.pending_ms)
            super().sync_to(target)

    target = Slow()
    target.written = 5
    flusher = Flusher(target, interval_ms=DEADLINE_MS, on_flushed=lambda: None)
    assert flusher.pending_ms == 0
    flusher.flush_once()
    assert seen == [2_500]
    assert flusher.pending_ms == 0


def test_a_sync_that_failed_is_not_under_way():
    class Broken(Target):
        def sync_to(self, target: int) -> None:
            raise OSError(5, "broken")

    target = Broken()
    target.written = 5
    flusher = Flusher(target, interval_ms=DEADLINE_MS, on_flushed=lambda: None)
    flusher.flush_once()
    assert (flusher.pending_ms, len(target.poisoned)) == (0, 1)
