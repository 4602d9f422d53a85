"""The transaction producer for asyncio: `execute` and `check` may be coroutine functions, and run on the event loop."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from ...model.errors import ZenitError
from ..connection.connection import Connection
from ..connection.waiting import Waits
from ..transaction_producer import TransactionProducerCore
from .event_loop import OnLoop

log = logging.getLogger(__name__)


class TransactionProducer(TransactionProducerCore):
    """Sends messages with a local transaction, on one event loop. Plain functions block the loop while they run."""

    _keeps_batches = True

    send = TransactionProducerCore._send_transaction
    begin = TransactionProducerCore._begin_transaction
    commit = TransactionProducerCore._commit
    rollback = TransactionProducerCore._rollback
    close = TransactionProducerCore._close

    def _new_waits(self, connection: Connection) -> Waits:
        self._on_loop = OnLoop(connection.remoting, "transaction producer")
        return self._on_loop

    async def _call(self, function: Callable[..., Any], argument: object) -> object:
        result = function(argument)
        return await result if inspect.isawaitable(result) else result

    async def __aenter__(self) -> Self:
        self._on_loop.calls()  # from here on brokers may ask: `check` runs on this loop
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except ZenitError as failure:
            if error is None:
                raise
            log.warning("closing a transaction producer failed error=%s", failure)
