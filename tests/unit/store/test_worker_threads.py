"""Threads for work that its caller does not wait for."""

from __future__ import annotations

import threading

import pytest

from zenitmq.store.worker_threads import WorkerThreads

WAIT_S = 20


def test_work_is_done_in_order_by_as_many_threads_as_wanted() -> None:
    one = WorkerThreads(1, "one")
    done: list[int] = []
    for number in range(100):
        one.submit(done.append, number)
    one.shutdown()
    assert done == list(range(100))
    two, both = WorkerThreads(2, "two"), threading.Barrier(2)
    first, second = two.submit(both.wait, WAIT_S), two.submit(both.wait, WAIT_S)
    assert {first.result(WAIT_S), second.result(WAIT_S)} == {0, 1}
    two.shutdown()


def test_what_work_raises_is_told_and_the_thread_goes_on() -> None:
    threads = WorkerThreads(1, "one")

    def fail() -> None:
        raise ValueError("a test")

    with pytest.raises(ValueError, match="a test"):
        threads.submit(fail).result(WAIT_S)
    assert threads.submit(len, "abc").result(WAIT_S) == 3
    threads.shutdown()


def test_shut_down_it_ends_what_waits_or_cancels_it() -> None:
    threads, may_end, begun = WorkerThreads(1, "one"), threading.Event(), threading.Event()

    def first() -> bool:
        begun.set()
        return may_end.wait(WAIT_S)

    running, waiting = threads.submit(first), threads.submit(len, "abc")
    assert begun.wait(WAIT_S)
    threads.shutdown(wait=False, cancel_futures=True)
    may_end.set()
    threads.shutdown()
    assert running.result(WAIT_S)
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="one is shut down"):
        threads.submit(len, "abc")
