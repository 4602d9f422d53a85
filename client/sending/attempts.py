"""How a producer's batches get into queues: plainly, or as sequences that are stored once (idempotent/).

The two send loops (waited_send, batch_sender) are the same for both. They ask the producer's `SendAttempts` for one
`SendAttempt` per batch, let it enter a queue, send its requests, and pass the results to it. A plain attempt lets any
number of batches into a queue and takes each answer as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...model.errors import ZenitError
from ...model.queue import MessageQueue
from ...remoting.commands import Reply, RequestFor
from ..connection.waiting import Signal
from .delayed_send import Answer, send_request

Sizes = Callable[[], Sequence[int]]
"""The sizes of a batch's records, bytes."""


class SendAttempt(Protocol):
    """One batch on its way into a queue. Owned by the sender of the batch.

    `queue`: None if it has none yet; then it may enter any. `in_doubt`: the queue may have stored it, so it goes to no
    other. `result`: set when all of it is stored.
    """

    queue: MessageQueue | None
    in_doubt: bool
    result: Answer | None

    def enter(self, queue: MessageQueue) -> bool:
        """Enters the queue and leaves the one it had; False while the queue is taken. Not for a batch in doubt."""

    def leave(self) -> None:
        """Leaves its queue: the batch is done, or may go elsewhere."""

    @property
    def part_count(self) -> int:
        """The number of records in the next request."""

    def part_of(self, payload: memoryview) -> memoryview:
        """Those records of the batch."""

    def request(self, group: str, *, delayed: bool) -> RequestFor[Reply]:
        """The next request. `delayed`: some of the messages are to be delivered later."""

    def on_answer(self, answer: Answer) -> Answer | None:
        """Takes the answer to the last request; returns the batch's result, or None if there is more to send."""

    def on_error(self, error: ZenitError) -> bool:
        """Takes the error of the last request; True = ask again at once, else as `retry` says."""

    def failure(self, error: ZenitError) -> ZenitError:
        """The error for the sender if `error` was the last one."""


class SendAttempts(Protocol):
    """The attempts of one producer. Any thread may call. `own_properties`: encoded, added to the sender's in each record."""

    own_properties: bytes

    @property
    def is_awaited(self) -> bool:
        """Whether batches wait for a queue to be left."""

    def begin(self, count: int, sizes: Sizes) -> SendAttempt:
        """Creates the attempt for a batch of `count` records."""

    def is_taken(self, queue: MessageQueue) -> bool:
        """Whether another batch has exclusive use of the queue."""

    def watch(self, callback: Callable[[], None]) -> None:
        """Calls back whenever a batch leaves its queue, in any thread; the callback must not block."""

    def next_change(self, signal: Signal) -> Signal:
        """Sets the signal at the next time that a batch leaves its queue; returns it."""

    def forget(self, signal: Signal) -> None:
        """Drops a signal that nobody waits for any more."""

    def look_after(self) -> None:
        """Called now and then: frees queues whose batches are gone."""


class PlainAttempt:
    """A batch that may be stored twice if an answer is lost."""

    __slots__ = ("part_count", "queue", "result")
    in_doubt = False

    def __init__(self, count: int) -> None:
        self.queue: MessageQueue | None = None
        self.result: Answer | None = None
        self.part_count = count

    def enter(self, queue: MessageQueue) -> bool:
        """See `SendAttempt`."""
        self.queue = queue
        return True

    def leave(self) -> None:
        """See `SendAttempt`."""
        self.queue = None

    def part_of(self, payload: memoryview) -> memoryview:
        """See `SendAttempt`: all of it."""
        return payload

    def request(self, group: str, *, delayed: bool) -> RequestFor[Reply]:
        """See `SendAttempt`."""
        assert self.queue is not None
        return send_request(self.queue, self.part_count, group, delayed=delayed)

    def on_answer(self, answer: Answer) -> Answer:
        """See `SendAttempt`."""
        self.result = answer
        return answer

    def on_error(self, error: ZenitError) -> bool:  # noqa: ARG002
        """See `SendAttempt`."""
        return False

    def failure(self, error: ZenitError) -> ZenitError:
        """See `SendAttempt`."""
        return error


class PlainAttempts:
    """The attempts of a producer that is not idempotent: no queue is ever taken."""

    own_properties = b""
    is_awaited = False

    def begin(self, count: int, sizes: Sizes) -> PlainAttempt:  # noqa: ARG002
        """See `SendAttempts`."""
        return PlainAttempt(count)

    def is_taken(self, queue: MessageQueue) -> bool:  # noqa: ARG002
        """See `SendAttempts`."""
        return False

    def watch(self, callback: Callable[[], None]) -> None:
        """See `SendAttempts`."""

    def next_change(self, signal: Signal) -> Signal:
        """See `SendAttempts`."""
        return signal

    def forget(self, signal: Signal) -> None:
        """See `SendAttempts`."""

    def look_after(self) -> None:
        """See `SendAttempts`."""
