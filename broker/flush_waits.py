"""FlushLog requests of a controller: each waits until the disk has everything that the log held when it came.

A group changes to synchronous flushing only after every replica that may become its master has answered one. A request is
answered when `flushed` has passed the end of the log at its arrival, or refused once its sender has given up. Later
writes do not delay it. Loop thread.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from ..model.errors import FlushTimeout, IncarnationUnknown, UnknownReplica, ZenitError
from ..model.groups.group import Incarnation
from ..remoting.commands import Done, FlushLog, Reply, Request
from ..remoting.server import Call


class FlushedLog(Protocol):
    """The store, as far as a flush is waited for."""

    @property
    def written(self) -> int:
        """The end of the log."""

    @property
    def flushed(self) -> int:
        """Everything below was made durable by this process."""

    def request_flush(self) -> None:
        """Requests a sync of everything written so far."""


class AnswerLoop(Protocol):
    """The request loop, as far as it is used here."""

    def reply(self, call: Call[Request], reply: Reply) -> None:
        """Answers a call."""

    def fail(self, call: Call[Request], error: ZenitError) -> None:
        """Answers a call with an error."""


class FlushWaits:
    """The waiting requests of one replica in one incarnation."""

    def __init__(
        self, loop: AnswerLoop, log: FlushedLog, *, broker_name: str, name: str, incarnation: Incarnation
    ) -> None:
        self._loop = loop
        self._log = log
        self._broker_name = broker_name
        self._name = name
        self._incarnation = incarnation
        self._waiting: deque[tuple[int, Call[Request], int]] = deque()  # end to be reached, call, arrival

    def on_flush_log(self, call: Call[FlushLog], now_ms: int) -> Done | None:
        """Answers at once if the disk has everything. Raises UnknownReplica, IncarnationUnknown if another replica is meant."""
        request = call.request
        if (request.broker_name, request.name) != (self._broker_name, self._name):
            raise UnknownReplica(request.broker_name, request.name)
        if Incarnation(request.store_id, request.starts) != self._incarnation:
            raise IncarnationUnknown(request.broker_name, request.name, self._incarnation.starts, request.starts)
        written = self._log.written
        if self._log.flushed >= written:
            return Done()
        self._waiting.append((written, call, now_ms))
        self._log.request_flush()
        return None

    def on_flushed(self) -> None:
        """More of the log is on the disk."""
        while self._waiting and self._waiting[0][0] <= self._log.flushed:
            self._loop.reply(self._waiting.popleft()[1], Done())

    def on_tick(self, now_ms: int) -> None:
        """Refuses requests whose sender no longer waits."""
        late = [waiting for waiting in self._waiting if waiting[1].deadline_ms <= now_ms]
        for waiting in late:
            _, call, came_ms = waiting
            self._waiting.remove(waiting)
            self._loop.fail(call, FlushTimeout(now_ms - came_ms))
