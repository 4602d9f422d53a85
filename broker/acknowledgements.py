"""Replies that wait for the log: until the write, and under stronger promises until the disk or the replicas have it.

Owned by the loop thread. Handlers add to `staged` during a turn; the service commits, then calls `on_committed`.
After the store is poisoned nothing is acknowledged any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..model.errors import FlushTimeout, ZenitError
from ..remoting.commands import Reply, Request
from ..remoting.server import Call, RequestLoop

Staged = tuple[
    Call[Request], Reply, int, Sequence[bytes]
]  # the reply and its payload go out once the log holds all below the int


Promised = Callable[[ZenitError | None], None]  # the error: why it will not be acknowledged


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Called once everything below `end` may be acknowledged."""

    end: int
    deadline_ms: int
    callback: Promised


@dataclass(frozen=True, slots=True)
class _Turn:
    """The waiting replies of one turn, in the order of their ends."""

    deadline_ms: int
    waiting: deque[Staged]


class Acknowledgements:
    """Handled requests that are not answered yet."""

    def __init__(
        self,
        loop: RequestLoop,
        *,
        promised: Callable[[], int] | None,
        timeout_ms: int,
        late: Callable[[int], ZenitError] = FlushTimeout,
    ) -> None:
        """`promised`: replies that end at or below this physical offset may be sent, because the disk or the replicas that
        count have the records; None if they may be sent as soon as the log has them. `timeout_ms`: how long a reply waits, and
        `late`: the error that it then becomes.
        """
        self.staged: list[Staged] = []
        self.waiting_count = 0
        self._loop = loop
        self._promised = promised
        self._timeout_ms = timeout_ms
        self._late = late
        self._turns: deque[_Turn] = deque()
        self.callbacks: list[tuple[int, Promised]] = []  # staged as well
        self._waiting: deque[_Waiting] = deque()
        self._is_poisoned = False

    def when_promised(self, end: int, callback: Promised) -> None:
        """Calls back when everything staged up to `end` could be acknowledged, for callers that do more than reply.

        Never after the store is poisoned.
        """
        self.callbacks.append((end, callback))

    def on_committed(self, now_ms: int) -> None:
        """Everything staged is in the log: send the replies, or park them until they may be sent. `now_ms`: monotonic."""
        if self.callbacks:
            self._take_callbacks(now_ms)
        staged = self.staged
        if not staged:
            return
        self.staged = []
        if self._is_poisoned:
            return
        if self._promised is not None:
            self._turns.append(_Turn(now_ms + self._timeout_ms, deque(staged)))
            self.waiting_count += len(staged)
            return
        reply = self._loop.reply
        for call, answer, _, payload in staged:
            reply(call, answer, payload)

    def on_promised(self) -> None:
        """The disk, or the replicas, have more than before: send the replies that may be sent now."""
        if self._is_poisoned or self._promised is None:
            return
        promised = self._promised()
        while self._waiting and self._waiting[0].end <= promised:
            self.waiting_count -= 1
            self._waiting.popleft().callback(None)
        reply = self._loop.reply
        while self._turns:
            waiting = self._turns[0].waiting
            while waiting and waiting[0][2] <= promised:
                call, answer, _, payload = waiting.popleft()
                self.waiting_count -= 1
                reply(call, answer, payload)
            if waiting:
                return
            self._turns.popleft()

    def fail_all(self, error: ZenitError) -> None:
        """This broker will not acknowledge the waiting sends any more."""
        for turn in self._turns:
            for call, _, _, _ in turn.waiting:
                self._loop.fail(call, error)
        self._turns.clear()
        callbacks, self._waiting = self._waiting, deque()
        self.waiting_count = 0
        for waiting in callbacks:
            waiting.callback(error)

    def on_tick(self, now_ms: int) -> None:
        """Answers expired calls: the disk, or the replicas, were not in time."""
        self.on_promised()
        while self._turns and self._turns[0].deadline_ms <= now_ms:
            for call, _, _, _ in self._turns.popleft().waiting:
                self.waiting_count -= 1
                self._loop.fail(call, self._late(self._timeout_ms))
        while self._waiting and self._waiting[0].deadline_ms <= now_ms:
            self.waiting_count -= 1
            self._waiting.popleft().callback(self._late(self._timeout_ms))

    def on_poisoned(self) -> None:
        """The disk failed: no waiting send may be acknowledged."""
        self._is_poisoned = True
        self.staged = []
        self._turns.clear()
        self.callbacks.clear()
        self._waiting.clear()
        self.waiting_count = 0

    def _take_callbacks(self, now_ms: int) -> None:
        staged, self.callbacks = self.callbacks, []
        if self._is_poisoned:
            return
        if self._promised is None:
            for _, callback in staged:
                callback(None)
            return
        self._waiting.extend(_Waiting(end, now_ms + self._timeout_ms, callback) for end, callback in staged)
        self.waiting_count += len(staged)
