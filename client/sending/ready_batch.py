"""A batch that its sender waits for: the calling thread encodes it into a buffer of its own and sends it.

Each thread keeps one accumulator per topic and two buffers that take turns, so a send of usual size allocates nothing and
no thread waits for another. If a thread has several sends in progress, each batch is a copy of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

from ...model.errors import MessageTooLarge
from ...model.message import SendReceipt
from ...model.queue import MessageQueue
from ...record.kernel import Accumulator, batch_sizes, wrap_batch
from ..connection.unique_ids import BornTime
from .delayed_send import Answer
from .outgoing import Fill
from .send_future import SealedFacts

BUFFER_BYTES: Final = 256 * 1024
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024  # of a request's payload; the broker refuses a larger frame
MEASURED_BYTES_MAX: Final = 128 * 1024 * 1024  # a batch is encoded up to here, so that the refusal can say its size
TOPICS_MAX: Final = 64  # accumulators kept per thread


class WholeBatch(Protocol):
    """Encoded records of one topic. `count`: messages."""

    count: int

    def payload(self) -> memoryview:
        """The records."""

    def sizes(self) -> list[int]:
        """The sizes of the records, bytes; see ReadyBatch."""


class ReadyBatch:
    """The records of one request, and what receipts need besides its reply."""

    __slots__ = ("_buffer", "_first_counter", "_id_prefix", "_is_wrapped", "_month_ms", "_used", "count")

    def __init__(
        self,
        buffer: bytearray,
        used: int,
        count: int,
        *,
        id_prefix: bytes,
        month_ms: int,
        first_counter: int,
        is_wrapped: bool = False,
    ) -> None:
        """`is_wrapped`: all messages are in one record."""
        self._is_wrapped = is_wrapped
        self._buffer = buffer
        self._used = used
        self.count = count
        self._id_prefix = id_prefix
        self._month_ms = month_ms
        self._first_counter = first_counter

    def payload(self) -> memoryview:
        """The records."""
        return memoryview(self._buffer)[: self._used]

    def facts(self) -> SealedFacts:
        """What receipts are made of; remains valid."""
        return SealedFacts(self._id_prefix, self._month_ms, self._first_counter, self.sizes())

    def first_receipt(self, queue: MessageQueue, reply: Answer) -> SendReceipt:
        """Of its first message, without a look at the others."""
        return SealedFacts(self._id_prefix, self._month_ms, self._first_counter, []).receipt(queue, reply, 0)

    def sizes(self) -> list[int]:
        """The sizes of the records, bytes; 0 for each message of a batch that is one record: they have one place."""
        return [0] * self.count if self._is_wrapped else batch_sizes(self._buffer, self._used)


class _Encoder:
    __slots__ = ("accumulator", "born", "spare")

    def __init__(self, accumulator: Accumulator, buffer_bytes: int) -> None:
        self.accumulator = accumulator
        self.born = BornTime()
        self.spare = bytearray(buffer_bytes)


class ReadyBatches:
    """Makes batches. Any thread may call; each works on its own accumulators."""

    def __init__(
        self, new_accumulator: Callable[[str, int], Accumulator], *, keep: bool, buffer_bytes: int = BUFFER_BYTES
    ) -> None:
        """`new_accumulator(topic, capacity in bytes)`: creates one with an id prefix of its own.

        `keep`: a batch stays valid when its thread makes the next. `buffer_bytes`: a batch up to this size needs no
        allocation.
        """
        self._new_accumulator = new_accumulator
        self._keep = keep
        self._buffer_bytes = buffer_bytes
        self._local = threading.local()

    def make(self, topic: str, fill: Fill, wrap_over: int | None = None) -> ReadyBatch:
        """Encodes what `fill` appends. `wrap_over`: as `SendContext.wrap_over`.

        Raises MessageTooLarge if it does not fit into one request, and what `fill` raises.
        """
        encoder = self._encoder(topic)
        accumulator = encoder.accumulator
        if accumulator.count:  # a `fill` that raised left some of its messages behind
            accumulator.swap(accumulator.swap(encoder.spare)[0])
        size_bytes = self._buffer_bytes
        accumulator.begin(*encoder.born.read())
        while not fill(accumulator):
            if size_bytes > MEASURED_BYTES_MAX:
                raise MessageTooLarge("batch", size_bytes, BATCH_BYTES_MAX)
            size_bytes *= 4
            encoder.spare = accumulator.swap(bytearray(size_bytes))[0]
            accumulator.begin(*encoder.born.read())
        spare = encoder.spare if len(encoder.spare) == self._buffer_bytes else bytearray(self._buffer_bytes)
        buffer, used, count, _born_ms, month_ms, first_counter = accumulator.swap(spare)
        encoder.spare = buffer
        if used > BATCH_BYTES_MAX:
            raise MessageTooLarge("batch", used, BATCH_BYTES_MAX)
        if wrap_over is not None:
            record = wrap_batch(buffer, used, wrap_over)
            return ReadyBatch(
                bytearray(record),
                len(record),
                count,
                id_prefix=accumulator.id_prefix,
                month_ms=month_ms,
                first_counter=first_counter,
                is_wrapped=True,
            )
        if self._keep:
            buffer = buffer[:used]
        return ReadyBatch(
            buffer, used, count, id_prefix=accumulator.id_prefix, month_ms=month_ms, first_counter=first_counter
        )

    def _encoder(self, topic: str) -> _Encoder:
        encoders: dict[str, _Encoder] | None = getattr(self._local, "encoders", None)
        if encoders is None:
            encoders = self._local.encoders = {}
        encoder = encoders.get(topic)
        if encoder is None:
            if len(encoders) >= TOPICS_MAX:
                encoders.clear()
            encoder = encoders[topic] = _Encoder(self._new_accumulator(topic, self._buffer_bytes), self._buffer_bytes)
        return encoder
