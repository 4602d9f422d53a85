"""One queue of a push consumer: what is handed out and unfinished, and so what may be committed. Pure.

    committed <= first unfinished <= position <= next pull        queue offsets of one queue

Handlers finish in any order. Everything below the first unfinished message is done, so this is what may be committed,
however much behind it is done too: after a restart those messages come once more. How far handlers may run ahead is
limited.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from ....model.errors import InvalidParameter
from ....model.queue import MessageQueue
from ....model.subscription import Subscription
from ....record.kernel import MessageBatch

NOT_LEASED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLimits:
    """When to stop pulling from a queue until some of its messages are finished; each limit is for one queue.

    `messages` and `size_bytes`: fetched and unfinished. `span`: from the first unfinished message to the last fetched, in
    queue offsets; so many may come again after a crash.
    """

    messages: int = 1000
    size_bytes: int = 100 * 1024 * 1024
    span: int = 2000

    def __post_init__(self) -> None:
        for name in ("messages", "size_bytes", "span"):
            if getattr(self, name) < 1:
                raise InvalidParameter(name, getattr(self, name), "at least 1")


DEFAULT_LIMITS: Final = FlowLimits()


class ProcessQueue:
    """A queue while this consumer has it; a queue that comes back gets a new object. Not thread-safe."""

    __slots__ = (
        "_size_bytes",
        "_unfinished",
        "committed",
        "is_gone",
        "is_held",
        "is_leaving",
        "leased_until_ms",
        "name",
        "pulled_ms",
        "refused",
        "returning",
        "running",
        "subscription",
    )

    def __init__(
        self,
        name: MessageQueue,
        subscription: Subscription,
        *,
        committed: int,
        now_ms: int,
        leased_until_ms: int = NOT_LEASED,
    ) -> None:
        """`committed`: the broker's offset. `leased_until_ms`: how long the queue is ours, if queues are locked."""
        self.name = name
        self.subscription = subscription
        self.committed = committed
        self.leased_until_ms = leased_until_ms
        self.pulled_ms = now_ms  # when the last pull was sent
        self.running = 0  # deliveries in a handler
        self.returning = 0  # messages on their way back to the broker
        # ordered: offset -> (a message that the dead letter queue refused, its next attempt)
        self.refused: dict[int, tuple[MessageBatch, int]] = {}
        self.is_held = False  # not pulled: too much is unfinished
        self.is_leaving = False  # nothing more is handed out
        self.is_gone = False  # the answers of its handlers are ignored
        self._unfinished: OrderedDict[int, int] = OrderedDict()  # offset -> size, in the order handed out: ascending
        self._size_bytes = 0

    @property
    def unfinished(self) -> int:
        """Messages handed out and unfinished."""
        return len(self._unfinished)

    @property
    def is_busy(self) -> bool:
        """Whether a handler is running or a message is on its way back."""
        return self.running > 0 or self.returning > 0

    def hand_out(self, batch: MessageBatch) -> None:
        """These messages go to a handler."""
        for message in batch:
            self._unfinished[message.queue_offset] = message.size_bytes
            self._size_bytes += message.size_bytes

    def finish(self, queue_offset: int) -> None:
        """This message is finished."""
        self._size_bytes -= self._unfinished.pop(queue_offset)

    def commit_offset(self, position: int) -> int:
        """What may be committed: the first unfinished offset; if there is none, `position`, the offset handed out next."""
        return next(iter(self._unfinished), position)

    def is_full(self, limits: FlowLimits, fetched: tuple[int, int, int]) -> bool:
        """Whether pulling must stop. `fetched`: (messages ready, their bytes, the offset pulled next)."""
        ready, ready_bytes, next_pull = fetched
        return (
            ready + len(self._unfinished) >= limits.messages
            or ready_bytes + self._size_bytes >= limits.size_bytes
            or (bool(self._unfinished) and next_pull - self.commit_offset(next_pull) >= limits.span)
        )
