"""The lite consumer for asyncio: `LiteCore` on an event loop."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from ..connection.connection import Connection
from ..connection.waiting import Waits
from ..lite_consumer import LiteCore
from .event_loop import OnLoop


class LiteConsumer(LiteCore):
    """Receives lite topics as a member of a group, on one event loop; any of its tasks may call.

    What is cancelled: `receive` gives back what came; `subscribe`, `ack` with `wait`, `extend`, `refuse` and `dead_letter` may
    or may not have happened; `close` still leaves the group.
    """

    subscribe = LiteCore._subscribe
    unsubscribe = LiteCore._unsubscribe
    receive = LiteCore._receive
    ack = LiteCore._ack
    ack_batch = LiteCore._ack_batch
    extend = LiteCore._extend
    refuse = LiteCore._refuse
    dead_letter = LiteCore._dead_letter
    close = LiteCore._close

    def _new_waits(self, connection: Connection) -> Waits:
        return OnLoop(connection.remoting, "consumer")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
