"""The push consumer for asyncio: `PushCore` on an event loop. Its handler runs in tasks of the loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Self

from ...record.kernel import StoredMessage
from ..connection.connection import Connection
from ..connection.waiting import Lock, Waits
from ..consuming.push.handler_pool import ConsumeResult, checked_answer
from ..push_consumer import PushCore
from .event_loop import OnLoop

AsyncHandler = Callable[[list[StoredMessage]], Awaitable[ConsumeResult | None] | ConsumeResult | None]
"""A coroutine function, or a function that does not block; its result or exception means the same as for a synchronous one."""


class PushConsumer(PushCore[AsyncHandler]):
    """Calls `handler(messages)` from `start` to `close`, in `concurrency` tasks of one event loop.

    `start`, `subscribe`, `unsubscribe` and `close` are coroutines. A cancelled `close` does not wait for handlers. A
    handler that is cancelled, other than by the end of its loop, has failed, and its messages come again.
    """

    subscribe = PushCore._subscribe
    unsubscribe = PushCore._unsubscribe
    start = PushCore._start
    close = PushCore._close

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    _handlers_may_wait = True

    def _new_waits(self, connection: Connection) -> Waits:
        return OnLoop(connection.remoting, "consumer")

    def _who_runs(self) -> object:
        return asyncio.current_task()

    def _new_lock(self) -> Lock:
        return asyncio.Lock()

    async def _handle(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        assert self._handler is not None
        answer = self._handler(messages)
        return checked_answer(self._handler_name, await answer if inspect.isawaitable(answer) else answer)
