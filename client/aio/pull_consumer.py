"""The pull consumer for asyncio: `PullCore` on an event loop.

Messages are taken from the prefetched ones in one step of the loop, after all waiting: a cancelled poll has taken nothing,
and the next one gets the same messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from ...record.kernel import StoredMessage
from ..connection.connection import Connection
from ..connection.waiting import Waits
from ..consuming.pull.work import Taken
from ..pull_consumer import PullCore
from .event_loop import OnLoop


class PullConsumer(PullCore):
    """Reads topics as a member of a group (`subscribe`), or given queues on its own (`assign`), on one event loop.

    One task polls or iterates; others may commit, seek, pause, resume or close meanwhile. If cancelled: `poll` and
    iteration lose no message; `commit` may or may not have committed; `close` still leaves the group.
    """

    assignment = PullCore._assignment
    poll = PullCore._poll
    commit = PullCore._commit
    committed = PullCore._committed
    position = PullCore._position
    seek = PullCore._seek
    seek_to_time = PullCore._seek_to_time
    close = PullCore._close

    def _new_waits(self, connection: Connection) -> Waits:
        return OnLoop(connection.remoting, "consumer")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After an exception, commits only earlier messages: the current ones come again."""
        await self._end.close(handed=error is None)

    def __aiter__(self) -> Messages:
        """Message by message, waiting for more until the consumer is closed. Raises what `poll` raises."""
        self._check_usable()
        return Messages(self)

    # ---- for the iterator

    async def next_to_iterate(self) -> Taken | None:
        """The next messages of one queue, to be passed on one by one; None when the consumer is closed."""
        return await self._next_to_iterate()

    def hand_on(self, taken: Taken, message: StoredMessage) -> bool:
        """Notes that `message` is being handled; False if a poll, seek or close has taken the rest back."""
        if self._work.iterated is not taken:
            return False
        self._work.current = message
        return True


class Messages:
    """One iteration over a consumer. Messages that it took and did not pass on go back at the next poll, seek or close."""

    def __init__(self, consumer: PullConsumer) -> None:
        self._consumer = consumer
        self._taken: Taken | None = None
        self._left: Iterator[StoredMessage] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StoredMessage:
        """Raises StopAsyncIteration when the consumer is closed."""
        while True:
            if self._taken is not None:
                for message in self._left:
                    if self._consumer.hand_on(self._taken, message):
                        return message
                    break
            self._taken = await self._consumer.next_to_iterate()
            if self._taken is None:
                raise StopAsyncIteration
            self._left = iter(self._taken[1])
