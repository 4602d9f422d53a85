"""The client's background thread: its timers, whichever way it waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from zenitmq.remoting import io_thread
from zenitmq.remoting.io_thread import IoThread


@pytest.fixture
def thread() -> Iterator[IoThread]:
    started = IoThread("io", lambda _now_ms: False, lambda: None)
    started.start()
    yield started
    assert started.stop(5000)


@pytest.mark.parametrize("descriptors", [0, io_thread.FD_SETSIZE])
def test_timers_run_in_the_order_of_their_times(
    thread: IoThread, monkeypatch: pytest.MonkeyPatch, descriptors: int
) -> None:
    """By `select` too, and in a process whose descriptors are too large for that."""
    monkeypatch.setattr(io_thread, "FD_SETSIZE", descriptors)
    order: list[float] = []
    is_done = threading.Event()

    def note(delay_ms: float) -> Callable[[], None]:
        return lambda: order.append(delay_ms)

    def set_all() -> None:
        for delay_ms in (2.5, 0.5, 4, 1):
            thread.add_timer(delay_ms, note(delay_ms), 0)
        thread.add_timer(8, is_done.set, 0)

    thread.post(set_all)
    assert is_done.wait(5)
    assert order == [0.5, 1, 2.5, 4]


def test_a_timer_that_the_thread_sets_itself_does_not_wake_it(
    thread: IoThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    rings = []
    ring = thread._ring
    monkeypatch.setattr(thread, "_ring", lambda: (rings.append(1), ring()))
    is_done = threading.Event()
    thread.post(lambda: thread.add_timer(1, is_done.set, 0))
    assert is_done.wait(5)
    assert len(rings) == 1


def test_what_was_posted_before_the_stop_is_still_run() -> None:
    """A producer that closes right after its last batch failed did not tell its on_error."""
    ticking, go_on, told = threading.Event(), threading.Event(), threading.Event()

    def tick(_now_ms: int) -> bool:
        ticking.set()
        go_on.wait(5)
        return False

    busy = IoThread("io", tick, lambda: None)
    busy.start()
    busy.post(lambda: None)
    assert ticking.wait(5)
    busy.post(told.set)
    busy._stopping = True  # as `stop` says first, before it waits
    go_on.set()
    assert busy.stop(5000)
    assert told.is_set()


def test_who_is_interrupted_before_it_rings_keeps_nothing_from_being_run(
    thread: IoThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next ones saw that something was posted already, and did not ring either: nothing was run any more."""
    first, second = threading.Event(), threading.Event()
    with monkeypatch.context() as halfway:
        halfway.setattr(thread, "_ring", interrupted)
        with pytest.raises(KeyboardInterrupt):
            thread.post(first.set)
    thread.post(second.set)
    assert first.wait(5)
    assert second.wait(5)


def interrupted() -> None:
    raise KeyboardInterrupt


def test_a_tick_that_fails_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    ticks = iter([OSError("once")])

    def tick(_now_ms: int) -> bool:
        for error in ticks:
            raise error
        return False

    ticking, is_done = IoThread("io", tick, lambda: None), threading.Event()
    ticking.start()
    ticking.add_timer(1, is_done.set, 0)
    assert is_done.wait(5)
    assert ticking.stop(5000)
    assert "once" in caplog.text


def test_who_is_interrupted_while_the_thread_starts_starts_it_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    thread, is_done = IoThread("io", lambda _now_ms: False, lambda: None), threading.Event()
    with monkeypatch.context() as halfway:
        halfway.setattr(thread._thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            thread.start()
    assert thread.stop(0)
    thread._stopping = False
    thread.start()
    thread.post(is_done.set)
    assert is_done.wait(5)
    assert thread.stop(5000)
