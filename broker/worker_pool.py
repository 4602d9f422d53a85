"""Worker threads for work that may take longer than a millisecond; the loop answers the calls.

The loop passes a call and a function to a worker; the result (or the error it raised) comes back
to the loop. Bounded: over the limit a call gets BrokerBusy. Only the loop thread calls `run`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final, TypeVar

from ..model.clock import Clock
from ..model.errors import BrokerBusy, BufferFull, SystemFault, ZenitError
from ..remoting.commands import Request
from ..remoting.server import Call, RequestLoop

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

RETRY_MS: Final = 100
_POST_RETRY_MS: Final = 5
_POST_TRIES: Final = 1000


class WorkerPool:
    """Hands work to an executor and brings the results back."""

    def __init__(
        self,
        executor: Executor,
        loop: RequestLoop,
        clock: Clock,
        *,
        waiting_max: int,
        check: Callable[[type[Request]], None],
    ) -> None:
        """`waiting_max`: calls that may be with the workers or on the way back. `check`: raises the reason why a
        request may not be answered; called again when its result comes, since another broker may have become master meanwhile.
        """
        self._executor = executor
        self._loop = loop
        self._clock = clock
        self._waiting_max = waiting_max
        self._check = check
        self.waiting = 0
        self.done = 0

    def run(self, call: Call[Request], work: Callable[[], _T], then: Callable[[_T], None]) -> None:
        """`work` runs in a worker, `then` with its result on the loop; if either raises a ZenitError, the call gets it.

        Raises BrokerBusy over the limit.
        """
        if self.waiting >= self._waiting_max:
            raise BrokerBusy(RETRY_MS, f"{self.waiting} queries are waiting")
        self.waiting += 1
        self._executor.submit(self._work, call, work, then)

    def run_aside(self, work: Callable[[], _T], then: Callable[[_T | None], None]) -> None:
        """The same for the broker's own work, without a caller. If `work` fails, that is logged, and
        `then` gets None.
        """
        self._executor.submit(self._work_aside, work, then)

    def _work_aside(self, work: Callable[[], _T], then: Callable[[_T | None], None]) -> None:
        """The top of a worker's task without a caller."""
        result: _T | None = None
        try:
            result = work()
        except Exception:  # noqa: BLE001  # the thread must go on; told once, here
            _log.exception("work of the broker's own failed")
        self._post(partial(then, result))

    def _work(self, call: Call[Request], work: Callable[[], _T], then: Callable[[_T], None]) -> None:
        """The top of a worker's task: answers a call."""
        try:
            result = work()
        except ZenitError as error:
            self._post(partial(self._fail, call, error))
        except Exception:  # noqa: BLE001  # the thread must go on; told once, here
            _log.exception("a query failed; request=%s", type(call.request).__name__)
            self._post(partial(self._fail, call, SystemFault("a query failed; see the broker's log")))
        else:
            self._post(partial(self._finish, call, result, then))

    def _post(self, callback: Callable[[], None]) -> None:
        """Passes a result to the loop; waits for room, since the call is counted until then."""
        for _ in range(_POST_TRIES):
            try:
                self._loop.post(callback)
            except BufferFull:
                self._clock.sleep_ms(_POST_RETRY_MS)
            else:
                return
        _log.error("the loop takes no results; it has stopped or hangs")

    def _finish(self, call: Call[Request], result: _T, then: Callable[[_T], None]) -> None:
        self.waiting -= 1
        self.done += 1
        try:
            self._check(type(call.request))
            then(result)
        except ZenitError as error:
            self._loop.fail(call, error)

    def _fail(self, call: Call[Request], error: ZenitError) -> None:
        self.waiting -= 1
        self.done += 1
        self._loop.fail(call, error)
