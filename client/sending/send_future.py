"""The outcome of messages that are sent without waiting: one future per message, one outcome per batch.

A future is two fields: its batch's outcome and its index in the batch. Receipt, ids and the physical offset of each record
are computed when they are asked for, from a few facts of the batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import overload

from ...model.clock import monotonic_ms
from ...model.errors import ClientClosed, RequestTimeout, ZenitError
from ...model.ids import offset_message_id, unique_id
from ...model.message import SendReceipt
from ...model.queue import MessageQueue, PhysicalOffset, QueueOffset
from ...remoting.io_thread import check_may_wait
from ..connection.argument_checks import wait_milliseconds
from ..connection.connection import client_repr
from .delayed_send import Answer, DelayedAnswer

log = logging.getLogger(__name__)

Callbacks = list[tuple[Callable[["SendFuture"], object], "SendFuture"]]
"""Pairs of callback and future."""


class SealedFacts:
    """What receipts are made of, known when a batch is sealed. `sizes`: of its records, bytes."""

    __slots__ = ("_begins", "first_counter", "id_prefix", "month_ms", "sizes")

    def __init__(self, id_prefix: bytes, month_ms: int, first_counter: int, sizes: list[int]) -> None:
        self.id_prefix = id_prefix
        self.month_ms = month_ms
        self.first_counter = first_counter
        self.sizes = sizes
        self._begins: list[int] | None = None

    def receipt(self, queue: MessageQueue, reply: Answer, index: int) -> SendReceipt:
        """The receipt of the batch's message `index`, at the place that the broker answered."""
        if isinstance(reply, DelayedAnswer):
            message_id = unique_id(self.id_prefix, self.month_ms, self.first_counter + index)
            return reply.receipt(message_id, queue, index)
        position = PhysicalOffset(reply.physical_offset)
        if index:
            if self._begins is None:  # once per batch, at the first receipt of a message other than the first
                self._begins = record_begins(self.sizes)
            position = record_position(reply, self._begins, index)
        return SendReceipt(
            unique_id(self.id_prefix, self.month_ms, self.first_counter + index),
            offset_message_id(reply.store_host, position),
            queue,
            QueueOffset(reply.queue_offset + index),
            position,
        )


def record_begins(sizes: Iterable[int]) -> list[int]:
    """The byte position of each record in its batch, and the batch's end."""
    return list(accumulate(sizes, initial=0))


def record_position(reply: Answer, begins: Sequence[int], index: int) -> PhysicalOffset:
    """The physical offset of record `index` of a batch: behind the earlier records in its piece of the log."""
    if isinstance(reply, DelayedAnswer):
        return PhysicalOffset(reply.places[index].physical_offset)
    first, base = 0, reply.physical_offset
    passed = 0
    for count, piece_offset in reply.pieces:
        if index < passed + count:
            first, base = passed, piece_offset
            break
        passed += count
    return PhysicalOffset(base + begins[index] - begins[first])


def record_positions(reply: Answer, begins: Sequence[int], first: int, count: int) -> list[int]:
    """The physical offsets of `count` records of a batch, from the one of index `first` on."""
    if isinstance(reply, DelayedAnswer) or reply.pieces:
        return [record_position(reply, begins, index) for index in range(first, first + count)]
    base = reply.physical_offset - begins[0]
    return [base + begin for begin in begins[first : first + count]]


class BatchOutcome:
    """The outcome of a batch with futures. Created with its first message, settled once; `facts` are set before."""

    __slots__ = ("_callbacks", "_gates", "_lock", "error", "facts", "is_settled", "queue", "reply")

    def __init__(self) -> None:
        self._lock = threading.Lock()  # no Condition: one whose `with` is interrupted may stay locked
        self._gates: list[threading.Lock] = []  # one per waiter, locked until the batch is settled
        self._callbacks: Callbacks = []
        self.is_settled = False
        self.facts: SealedFacts | None = None
        self.queue: MessageQueue | None = None
        self.reply: Answer | None = None
        self.error: ZenitError | None = None

    def settle(self, queue: MessageQueue | None, reply: Answer | None, error: ZenitError | None) -> bool:
        """Settles the batch and wakes waiters; may be repeated. Returns whether there are callbacks to take and run."""
        with self._lock:
            self.queue, self.reply, self.error = queue, reply, error
            self.is_settled = True
            for gate in self._gates:
                if gate.locked():
                    gate.release()
            self._gates = []
            return bool(self._callbacks)

    def take_callbacks(self) -> Callbacks:
        """Returns, after the settlement, the callbacks to run while no lock is held."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
        return callbacks

    def wait_settled(self, timeout_ms: int | None) -> bool:
        """Waits at most `timeout_ms`; None: until the batch's own deadline settles it."""
        gate = threading.Lock()
        gate.acquire()
        with self._lock:
            if self.is_settled:
                return True
            self._gates.append(gate)
        return gate.acquire(timeout=-1 if timeout_ms is None else max(0, timeout_ms) / 1000)

    def add_callback(self, callback: Callable[[SendFuture], object], future: SendFuture) -> bool:
        """Keeps the callback until the batch is settled; False if it is settled already."""
        with self._lock:
            if self.is_settled:
                return False
            self._callbacks.append((callback, future))
            return True

    def receipt(self, index: int) -> SendReceipt:
        """The receipt of the batch's message `index`. Raises the batch's error."""
        if self.error is not None:
            raise self.error
        if self.reply is None or self.queue is None or self.facts is None:
            raise ClientClosed("producer")
        return self.facts.receipt(self.queue, self.reply, index)


class BatchReceipts(Sequence[SendReceipt]):
    """The receipts of a stored batch, each made when it is read."""

    __slots__ = ("_facts", "_queue", "_reply")

    def __init__(self, facts: SealedFacts, queue: MessageQueue, reply: Answer) -> None:
        self._facts = facts
        self._queue = queue
        self._reply = reply

    def __len__(self) -> int:
        return len(self._facts.sizes)

    @overload
    def __getitem__(self, index: int) -> SendReceipt: ...

    @overload
    def __getitem__(self, index: slice) -> list[SendReceipt]: ...

    def __getitem__(self, index: int | slice) -> SendReceipt | list[SendReceipt]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        return self._facts.receipt(self._queue, self._reply, range(len(self))[index])


class SendFuture:
    """The outcome of one `send_async`: `result`, `exception`, `done`, `add_done_callback` as in concurrent.futures."""

    __slots__ = ("index", "outcome")

    def __init__(self, outcome: BatchOutcome, index: int) -> None:
        """The future of the batch's message `index`."""
        self.outcome = outcome
        self.index = index

    def __repr__(self) -> str:
        outcome = self.outcome
        if not outcome.is_settled:
            return client_repr(self, "pending")
        if outcome.error is not None:
            return client_repr(self, error=outcome.error)
        return client_repr(self, queue=str(outcome.queue))

    def done(self) -> bool:
        """True when the message is stored or has failed for good."""
        return self.outcome.is_settled

    def result(self, timeout: float | None = None) -> SendReceipt:
        """The receipt. Raises the error of the send; RequestTimeout if `timeout` seconds pass first.

        None waits as long as the producer tries (its `batch_timeout`). Raises WaitsForItself in a callback before that.
        """
        self._wait(timeout)
        return self.outcome.receipt(self.index)

    def exception(self, timeout: float | None = None) -> ZenitError | None:
        """The error of the send, or None; waits as `result` does."""
        self._wait(timeout)
        return self.outcome.error

    def add_done_callback(self, callback: Callable[[SendFuture], object]) -> None:
        """Calls `callback(self)` when done (in the I/O thread; it must not block), or at once if it is done already."""
        if not self.outcome.add_callback(callback, self):
            callback(self)

    def _wait(self, timeout: float | None) -> None:
        if self.outcome.is_settled:
            return
        check_may_wait("result() of a send that is not answered")
        started_ms = monotonic_ms()
        if not self.outcome.wait_settled(None if timeout is None else wait_milliseconds("timeout", timeout)):
            raise RequestTimeout("an asynchronous send", monotonic_ms() - started_ms)


def run_callbacks(callbacks: Callbacks) -> None:
    """Runs callbacks of futures; an exception of one is logged and does not stop the others."""
    for callback, future in callbacks:
        try:
            callback(future)
        except Exception:
            log.exception("a send callback failed")
