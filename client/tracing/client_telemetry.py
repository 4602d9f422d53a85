"""Where clients tell of their sends and deliveries to somebody who measures: the seam for `zenitmq.otel`.

A client asks `current()` once, when it is made. While nobody measures, that is None, and a client does what it did
before but for one test at the edge of a batch. Whoever measures must not block, and must not raise. `current` remembers
what the program chose; otherwise this file is values. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...model.queue import MessageQueue
    from ..consuming.push.handler_pool import Handle
    from ..sending.outgoing import Fill, Parts
    from ..sending.ready_batch import ReadyBatch
    from .trace_records import Messages


class ToldSend(Protocol):
    """One send that its caller waits for."""

    def filled(self, fill: Fill) -> Fill:
        """What fills the batch, with the send's context in each message."""

    def on_stored(self, batch: ReadyBatch, queue: MessageQueue, message_id: str | None) -> None:
        """It is stored. `message_id`: if it is one message, and there was an answer."""

    def on_failed(self, error: BaseException) -> None:
        """It failed, or its caller was interrupted."""


class ClientTelemetry(Protocol):
    """Any thread may call."""

    def begin_send(self, topic: str, message_type: str) -> ToldSend:
        """A send begins in the caller's context. `message_type`: "normal", "fifo", "delay" or "transaction"."""

    def in_context(self, topic: str, parts: Parts) -> Parts:
        """A message that will be sent in a batch with others', with its caller's context."""

    def on_batch(
        self,
        topic: str,
        records: memoryview,
        count: int,
        queue: MessageQueue | None,
        error: BaseException | None,
        cost_ms: int,
    ) -> None:
        """A batch in the background was stored, or (`error`) given up, `cost_ms` after it was closed."""

    def handled(self, group: str, model: str, handle: Handle) -> Handle:
        """A push consumer's way to call its handler, told of each call. `model`: "clustering" or "broadcasting"."""

    def on_received(self, group: str, messages: Messages, begun_ns: int) -> None:
        """A consumer that asks got these, of one topic or several; not empty. `begun_ns`: monotonic, when it asked."""

    def on_settled(
        self, group: str, topic: str, operation: str, count: int, begun_ns: int, error: BaseException | None
    ) -> None:
        """A broker answered an "ack", a "change_invisible" or a "dead_letter" of so many messages."""


class _Current:
    telemetry: ClientTelemetry | None = None


def current() -> ClientTelemetry | None:
    """Who measures the clients that are made now."""
    return _Current.telemetry


def measure_with(telemetry: ClientTelemetry | None) -> None:
    """From now on new clients tell this one; None = nobody."""
    _Current.telemetry = telemetry
