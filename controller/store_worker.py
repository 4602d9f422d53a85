"""The worker that asks ZooKeeper for the loop: one thread, in order, which posts the answers back.

Calls to ZooKeeper block for up to their deadline; the loop never does. There is one worker, so that answers come in the order
of the requests: a read that is answered after a write shows what was written. Bounded: over the limit, which only an
unresponsive ZooKeeper can cause, callers get BrokerBusy. The log says once that ZooKeeper does not answer, and
once that it does again. If the loop has no room for an answer, its waiter would
wait for ever: so the process ends, and the next one begins with the data in ZooKeeper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final, Protocol, TypeVar

from ..model.errors import BrokerBusy, BufferFull, SystemFault, ZenitError, ZooKeeperUnavailable

log = logging.getLogger(__name__)

WAITING_MAX: Final = 4096
RETRY_AFTER_MS: Final = 500

_T = TypeVar("_T")


class Poster(Protocol):
    """The loop, as far as a worker may touch it."""

    def post(self, callback: Callable[[], None]) -> None:
        """Runs `callback` on the loop soon; raises BufferFull."""


class StoreWorker:
    """Passes work to an executor of one thread. Loop thread, except `_work`."""

    def __init__(
        self, executor: Executor, loop: Poster, *, waiting_max: int = WAITING_MAX, on_dropped: Callable[[], None]
    ) -> None:
        """`on_dropped`: an answer was lost, end the process; called by the worker."""
        self._executor = executor
        self._loop = loop
        self._waiting_max = waiting_max
        self._on_dropped = on_dropped
        self._waiting = 0
        self._is_failing = False

    def ask(self, work: Callable[[], _T], then: Callable[[_T | ZenitError], None]) -> None:
        """`work` runs in the worker; `then` on the loop, with its result or the ZenitError it raised.

        Raises BrokerBusy over the limit, and then never calls either.
        """
        if self._waiting >= self._waiting_max:
            raise BrokerBusy(RETRY_AFTER_MS, "too many calls wait for ZooKeeper")
        self._waiting += 1
        self._executor.submit(self._work, work, then)

    def _work(self, work: Callable[[], _T], then: Callable[[_T | ZenitError], None]) -> None:
        """The worker's top."""
        result: _T | ZenitError
        try:
            result = work()
        except ZenitError as error:
            result = error
        except Exception as error:  # the worker must go on; told here, and to whoever asked
            log.exception("work for ZooKeeper failed")
            result = SystemFault(f"{type(error).__name__}: see the controller's log")
        try:
            self._loop.post(partial(self._finish, result, then))
        except BufferFull:
            log.critical("an answer of ZooKeeper was dropped: the loop is far behind")
            self._on_dropped()

    def _finish(self, result: _T | ZenitError, then: Callable[[_T | ZenitError], None]) -> None:
        self._waiting -= 1
        fails = isinstance(result, ZooKeeperUnavailable)
        if fails and not self._is_failing:
            log.warning("ZooKeeper does not serve, waiting for it; error=%s", result)
        elif self._is_failing and not isinstance(result, ZenitError):
            log.info("ZooKeeper serves again")
            self._is_failing = False
        self._is_failing = self._is_failing or fails
        then(result)
