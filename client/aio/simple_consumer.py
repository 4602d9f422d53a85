"""The simple consumer for asyncio: `SimpleCore` on an event loop."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from ..connection.connection import Connection
from ..connection.waiting import Waits
from ..simple_consumer import SimpleCore
from .event_loop import OnLoop


class SimpleConsumer(SimpleCore):
    """Receives messages as a member of a group that pops, on one event loop; any of its tasks may call.

    What is cancelled: `receive` gives back what came; `ack` with `wait`, `change_invisible` and `dead_letter` may or may not
    have happened; `close` still leaves the group.
    """

    receive = SimpleCore._receive
    ack = SimpleCore._ack
    ack_batch = SimpleCore._ack_batch
    change_invisible = SimpleCore._change_invisible
    dead_letter = SimpleCore._dead_letter
    close = SimpleCore._close

    def _new_waits(self, connection: Connection) -> Waits:
        return OnLoop(connection.remoting, "consumer")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
