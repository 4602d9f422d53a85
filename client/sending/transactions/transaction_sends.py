"""Stores half messages and decides them; concurrent calls of threads or tasks go out together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from ....model.clock import monotonic_ms
from ....model.errors import BrokerBusy, MessageIllegal, MessageTooLarge, ZenitError
from ....model.handles.transaction import Resolution, TransactionId
from ....model.message import Message, SendReceipt
from ....model.properties import encode_properties
from ....model.queue import MessageQueue
from ....record.kernel import Accumulator
from ....remoting.commands import EndTransactions
from ...connection.waiting import Waits
from ..outgoing import Parts, message_parts
from ..send_future import BatchReceipts
from ..target import Target, target_of
from ..waited_send import WaitedSends
from .combiner import Combiner
from .transaction_receipt import TransactionReceipt, receipts_of

UNDER_WAY_MAX: Final = 1  # more make smaller requests, which cost broker and producer more than they save
COMBINERS_MAX: Final = 256
_END_BYTES: Final = 256  # of one decision in a request, approximately

_End = tuple[TransactionId, str, Resolution, int]
"""Which, its text, how, and where its half message begins."""


class TransactionSends:
    """One producer's transactions. Any thread may call, or the one event loop."""

    def __init__(
        self,
        group: str,
        waits: Waits,
        waited: WaitedSends,
        compress_over: int,
        *,
        in_context: Callable[[str, Parts], Parts] | None = None,
    ) -> None:
        """`in_context`: as RequestReply has it."""
        self._group = group
        self._in_context = in_context
        self._waits = waits
        self._waited = waited
        self._compress_over = compress_over
        self._lock = threading.Lock()
        self._halves: dict[tuple[str, int], Combiner[Parts, SendReceipt]] = {}
        self._ends: dict[tuple[str, str, int], Combiner[_End, TransactionReceipt]] = {}

    async def store(
        self, message: Message, sharding_key: str | None, own: Mapping[str, str], total_ms: int
    ) -> SendReceipt:
        """Stores a half message. `own`: properties that the sender adds. Raises as Producer.send does."""
        body, tags, keys, properties, flag, body_flags = message_parts(message, self._compress_over, sharding_key)
        parts: Parts = body, tags, keys, properties + encode_properties(own), flag, body_flags
        if self._in_context is not None:
            parts = self._in_context(message.topic, parts)
        target = target_of(message, sharding_key)
        if target is not None:
            return (await self._store(message.topic, [parts], target, total_ms))[0]
        key = message.topic, total_ms
        with self._lock:
            combiner = self._halves.get(key)
            if combiner is None:
                if len(self._halves) >= COMBINERS_MAX:
                    self._halves.clear()

                async def send(items: list[Parts]) -> list[SendReceipt | ZenitError]:
                    return await self._store_all(key[0], items, key[1])

                combiner = Combiner(self._waits, send, under_way_max=UNDER_WAY_MAX, what=f"a half message of {key[0]}")
                self._halves[key] = combiner
        return await combiner.ask(parts, size_bytes=len(parts[0]) + len(parts[3]), total_ms=total_ms)

    async def _store_all(self, topic: str, items: list[Parts], total_ms: int) -> list[SendReceipt | ZenitError]:
        """The outcome of each. They are of several callers, so one that cannot be stored does not prevent the others."""
        try:
            return list(await self._store(topic, items, None, total_ms))
        except (MessageIllegal, MessageTooLarge):
            if len(items) == 1:
                raise
        results: list[SendReceipt | ZenitError] = []
        for item in items:
            try:
                results += await self._store(topic, [item], None, total_ms)
            except ZenitError as error:
                results.append(error)
        return results

    async def _store(self, topic: str, items: list[Parts], target: Target | None, total_ms: int) -> list[SendReceipt]:
        def fill(accumulator: Accumulator) -> bool:
            append = accumulator.append
            return all(append(*parts) for parts in items)

        batch, queue, reply = await self._waited.send(topic, fill, target, total_ms)
        return list(BatchReceipts(batch.facts(), queue, reply))

    async def end(
        self, which: TransactionId, text: str, resolution: Resolution, half_offset: int, total_ms: int
    ) -> TransactionReceipt:
        """Decides one transaction, whose name is `text`. Raises as TransactionProducer.commit does."""
        deadline_ms = monotonic_ms() + total_ms
        while True:
            try:
                return await self._end_once((which, text, resolution, half_offset), total_ms)
            except BrokerBusy as error:  # only this transaction: its half message cannot be read now
                if monotonic_ms() + error.retry_after_ms >= deadline_ms:
                    raise
                await self._waits.sleep(error.retry_after_ms)

    async def _end_once(self, end: _End, total_ms: int) -> TransactionReceipt:
        which = end[0]
        key = which.broker_name, which.topic, total_ms
        with self._lock:
            combiner = self._ends.get(key)
            if combiner is None:
                if len(self._ends) >= COMBINERS_MAX:
                    self._ends.clear()

                async def send(items: list[_End]) -> list[TransactionReceipt | ZenitError]:
                    return await self._end(key[0], key[1], items, key[2])

                combiner = Combiner(self._waits, send, under_way_max=UNDER_WAY_MAX, what=f"an end at {key[0]}")
                self._ends[key] = combiner
        return await combiner.ask(end, size_bytes=_END_BYTES, total_ms=total_ms)

    async def _end(
        self, broker_name: str, topic: str, items: list[_End], total_ms: int
    ) -> list[TransactionReceipt | ZenitError]:
        rows = tuple((topic, text, resolution.value, offset) for _, text, resolution, offset in items)
        request = EndTransactions(self._group, rows)
        reply = await self._waited.ask(MessageQueue(topic, broker_name, 0), request, total_ms)
        return receipts_of(reply, [end[:2] for end in items])
