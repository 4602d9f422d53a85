"""Sends that their caller waits for, and that are told to whoever measures (client_telemetry)."""

from __future__ import annotations

from ...model.queue import MessageQueue
from ..sending.delayed_send import Answer
from ..sending.outgoing import Fill
from ..sending.ready_batch import ReadyBatch, ReadyBatches
from ..sending.send_context import SendContext
from ..sending.target import Target
from ..sending.waited_send import WaitedSends
from .client_telemetry import ClientTelemetry


class ToldSends(WaitedSends):
    """As `WaitedSends`; it takes its place, so that the other has nothing to test."""

    def __init__(self, context: SendContext, batches: ReadyBatches, telemetry: ClientTelemetry) -> None:
        super().__init__(context, batches)
        self._telemetry = telemetry
        self._is_of_transactions = context.is_of_transactions

    async def send(
        self, topic: str, fill: Fill, target: Target | None, total_ms: int, *, delayed: bool = False
    ) -> tuple[ReadyBatch, MessageQueue, Answer]:
        """See `WaitedSends`."""
        told = self._telemetry.begin_send(topic, self._type(target, delayed=delayed))
        try:
            batch, queue, answer = await super().send(topic, told.filled(fill), target, total_ms, delayed=delayed)
        except BaseException as error:
            told.on_failed(error)
            raise
        told.on_stored(batch, queue, batch.facts().receipt(queue, answer, 0).message_id if batch.count == 1 else None)
        return batch, queue, answer

    async def send_oneway(self, topic: str, fill: Fill, target: Target | None, total_ms: int, *, delayed: bool) -> None:
        """See `WaitedSends`."""
        told = self._telemetry.begin_send(topic, self._type(target, delayed=delayed))
        try:
            batch, queue = await self._send_oneway(topic, told.filled(fill), target, total_ms, delayed=delayed)
        except BaseException as error:
            told.on_failed(error)
            raise
        told.on_stored(batch, queue, None)

    def _type(self, target: Target | None, *, delayed: bool) -> str:
        if self._is_of_transactions:
            return "transaction"
        return "delay" if delayed else "fifo" if isinstance(target, str) else "normal"
