"""Threads for work that its caller does not wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

_Work = Callable[[], None]


class WorkerThreads(Executor):
    """Like a ThreadPoolExecutor, but it works until it is shut down.

    Python ends the threads of a ThreadPoolExecutor before it calls the functions of `atexit`, and a broker in the user's
    process serves until then.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._threads_max: Final = threads
        self._name: Final = name
        self._waiting: Final[SimpleQueue[tuple[Future[object], _Work] | None]] = SimpleQueue()
        self._threads: Final[list[threading.Thread]] = []
        self._lock: Final = threading.Lock()
        self._is_shut = False

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Raises RuntimeError after `shutdown`."""
        future: Future[_T] = Future()
        work = partial(_run, future, partial(fn, *args, **kwargs))
        with self._lock:
            if self._is_shut:
                raise RuntimeError(f"{self._name} is shut down")
            self._waiting.put((future, work))  # type: ignore[arg-type]  # whatever the result is
            if len(self._threads) < self._threads_max:
                name = f"{self._name}_{len(self._threads)}"
                thread = threading.Thread(target=_serve, args=(self._waiting,), name=name, daemon=True)
                thread.start()
                self._threads.append(thread)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # Executor's
        """Ends the threads once they have done what was submitted."""
        with self._lock:
            if not self._is_shut:
                self._is_shut = True
                if cancel_futures:
                    while not self._waiting.empty():
                        self._cancel_next()
                for _ in self._threads:
                    self._waiting.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _cancel_next(self) -> None:
        """A thread may take it first: then there is nothing to cancel."""
        try:
            taken = self._waiting.get_nowait()
        except Empty:
            return
        if taken is not None:
            taken[0].cancel()


def _serve(waiting: SimpleQueue[tuple[Future[object], _Work] | None]) -> None:
    while (taken := waiting.get()) is not None:
        taken[1]()
        del taken  # it would be kept until the next work comes


def _run(future: Future[_T], work: Callable[[], _T]) -> None:
    """The top of a thread's task: what it raises is told to whom has the future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001
        future.set_exception(error)
    else:
        future.set_result(result)
