"""What one client is asked over its telemetry stream, and its answers, which bring a question's nonce back."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, Final

from ...model.errors import BrokerBusy, ConnectionLost, InvalidParameter, RequestTimeout
from ...record.kernel import StoredMessage
from ..back.asked_clients import Handled
from ..schema import enum_value, message_class
from .mapping import fill_message

ANSWERS: Final = frozenset({"thread_stack_trace", "verify_message_result"})
"""The commands by which clients answer."""
ANSWER_MS: Final = 5_000
OPEN_MAX: Final = 16
REMARK_LENGTH_MAX: Final = 1_024
STACKS_LENGTH_MAX: Final = 1 << 20
RETRY_AFTER_MS: Final = 1_000

_TelemetryCommand: Final = message_class("TelemetryCommand")
_OK: Final = enum_value("Code", "OK")
_UNSERVED: Final = frozenset(enum_value("Code", name) for name in ("NOT_IMPLEMENTED", "UNSUPPORTED"))


class Questions:
    """To one client; on the event loop. See AskedClient."""

    def __init__(self, tell: Callable[[Any], None], namespace: str) -> None:
        """`tell` sends a command to the client, if it has a stream."""
        self._tell = tell
        self._namespace = namespace
        self._open: dict[str, asyncio.Future[Any]] = {}

    async def thread_stacks(self) -> str:
        """See AskedClient. Raises RequestTimeout, ConnectionLost, BrokerBusy; InvalidParameter: it cannot."""
        command = _TelemetryCommand()
        command.print_thread_stack_trace_command.nonce = nonce = secrets.token_hex(8)
        answer = await self._ask(nonce, command)
        if answer.status.code in _UNSERVED:
            raise InvalidParameter("client_id", "", "a client that can tell what its threads do")
        return str(answer.thread_stack_trace.thread_stack_trace[:STACKS_LENGTH_MAX])

    async def handle(self, message: StoredMessage) -> Handled:
        """See AskedClient. Raises as `thread_stacks`, and CorruptRecordError."""
        command = _TelemetryCommand()
        command.verify_message_command.nonce = nonce = secrets.token_hex(8)
        fill_message(command.verify_message_command.message, message, self._namespace)
        answer = await self._ask(nonce, command)
        if answer.status.code in _UNSERVED:
            raise InvalidParameter(
                "client_id", "", "a client that can handle a message that it is told: a push consumer"
            )
        return Handled(answer.status.code == _OK, answer.status.message[:REMARK_LENGTH_MAX])

    def on_answer(self, nonce: str, command: Any) -> None:
        """From the client."""
        answered = self._open.get(nonce)
        if answered is not None and not answered.done():
            answered.set_result(command)

    def give_up(self) -> None:
        """Its stream ended: who waits is told."""
        for answered in self._open.values():
            if not answered.done():
                answered.set_exception(ConnectionLost("the client: its stream ended"))

    async def _ask(self, nonce: str, command: Any) -> Any:
        if len(self._open) >= OPEN_MAX:
            raise BrokerBusy(RETRY_AFTER_MS, f"{OPEN_MAX} questions to this client are open")
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open[nonce] = answered
        command.status.code, command.status.message = _OK, "OK"
        self._tell(command)
        try:
            async with asyncio.timeout(ANSWER_MS / 1000):
                return await answered
        except TimeoutError:
            raise RequestTimeout("a question to a client", ANSWER_MS) from None
        finally:
            del self._open[nonce]
