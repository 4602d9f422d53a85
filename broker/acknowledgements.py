"""Replies that wait for the log: until the commit, and with synchronous flush until the disk has what they tell of.

Owned by the loop thread. Handlers add to `staged` during a turn; the service commits, then calls `on_committed`.
Once the store is poisoned nothing is acknowledged any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..model.errors import FlushTimeout
from ..remoting.commands import Reply
from ..remoting.server import Call, RequestLoop

Staged = tuple[
    Call, Reply, int, Sequence[bytes]
]  # the reply and its payload go out once the log holds all below the int


@dataclass(frozen=True, slots=True)
class _Turn:
    """Replies of one turn that wait for the disk, in the order of their ends."""

    deadline_ms: int
    waiting: deque[Staged]


class Acknowledgements:
    """What was done and is not yet answered."""

    def __init__(
        self, loop: RequestLoop, *, flushed: Callable[[], int], wait_for_flush: bool, flush_timeout_ms: int
    ) -> None:
        """`flushed`: everything below this physical offset is on the disk."""
        self.staged: list[Staged] = []
        self.waiting_count = 0
        self._loop = loop
        self._flushed = flushed
        self._wait_for_flush = wait_for_flush
        self._flush_timeout_ms = flush_timeout_ms
        self._turns: deque[_Turn] = deque()
        self._is_poisoned = False

    def on_committed(self, now_ms: int) -> None:
        """All that is staged is in the log: answer it, or park it until it is flushed. `now_ms`: monotonic."""
        staged = self.staged
        if not staged:
            return
        self.staged = []
        if self._is_poisoned:
            return
        if self._wait_for_flush:
            self._turns.append(_Turn(now_ms + self._flush_timeout_ms, deque(staged)))
            self.waiting_count += len(staged)
            return
        reply = self._loop.reply
        for call, answer, _, payload in staged:
            reply(call, answer, payload)

    def on_flushed(self) -> None:
        """The disk has more than before: answer whom it concerns."""
        if self._is_poisoned:
            return
        flushed = self._flushed()
        reply = self._loop.reply
        while self._turns:
            waiting = self._turns[0].waiting
            while waiting and waiting[0][2] <= flushed:
                call, answer, _, payload = waiting.popleft()
                self.waiting_count -= 1
                reply(call, answer, payload)
            if waiting:
                return
            self._turns.popleft()

    def on_tick(self, now_ms: int) -> None:
        """Tells those whose time is up that the disk has not answered."""
        self.on_flushed()
        while self._turns and self._turns[0].deadline_ms <= now_ms:
            for call, _, _, _ in self._turns.popleft().waiting:
                self.waiting_count -= 1
                self._loop.fail(call, FlushTimeout(self._flush_timeout_ms))

    def on_poisoned(self) -> None:
        """The disk failed: nothing that waits may be acknowledged."""
        self._is_poisoned = True
        self.staged = []
        self._turns.clear()
        self.waiting_count = 0
