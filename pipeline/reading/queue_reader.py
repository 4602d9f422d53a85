"""Reads one range of one queue as Arrow record batches: the work of one task.

The calling thread requests, waits and decodes; answers come from the connection's I/O thread. The next pulls are sent
before an answer is decoded, so that the broker works meanwhile. For what to request, and what an answer means, see
range_pulls.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from ...client.connection.connection import Connection
from ...client.connection.waiting import Blocking, run_blocking
from ...model.clock import monotonic_ms
from ...model.errors import CorruptRecordError, DamagedMessage, ZenitError
from ...model.route import MASTER_ID
from ...model.subscription import Sql, Subscription
from ...record.codes import ALL_TAKEN, BEHIND_END, NO_ROOM
from ...record.codes import FILL_REASONS as REASONS
from ...record.kernel import MessageBatch, decode_batch
from ...remoting.commands import PullMessages, PullReply, Reply
from ..options.options import ReadOptions
from ..session.connections import connection
from .columns import ROWS_MAX, BatchBuilder
from .offsets import QueueRange
from .range_pulls import NextPull, PullLimits, RangePulls, Taken

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

WAIT_MS: Final = 1_000  # the longest wait for an answer between two checks of the time
TRY_MS_MIN: Final = 1_000

_Answer = tuple[NextPull, Reply | None, bytes, ZenitError | None]


def read_range(options: ReadOptions, item: QueueRange) -> Iterator[pa.RecordBatch]:
    """The messages of a range, in order, as batches of the columns in `options`; each call reads them again.

    Brokers are looked up now and whenever one fails or says that it is not the master. Lost or damaged messages are an
    error, or are skipped and logged, as `options` say. Raises TopicNotFound, DataLost, OffsetOutOfRange, RangeUnread,
    DamagedMessage, WrongCluster if the range's cluster is not there, and errors that a broker answers.
    """
    if item.rows:
        with connection(options.namesrv, item.cluster_id, key=options.key) as shared:
            yield from _RangeReader(options, item, shared).batches()


class _RangeReader:
    """One read. One thread, and callbacks that put answers into its queue."""

    def __init__(self, options: ReadOptions, item: QueueRange, shared: Connection) -> None:
        self._options = options
        self._item = item
        self._shared = shared
        self._answers: SimpleQueue[_Answer] = SimpleQueue()
        expression = Sql(options.sql_filter) if options.sql_filter is not None else options.filter
        subscription = Subscription.parse(item.topic, expression)
        self._tag_codes, self._sql = subscription.codes(), subscription.sql
        self._try_ms = max(TRY_MS_MIN, options.request_timeout_ms // 3)
        limits = PullLimits(
            options.fetch_max_bytes, options.request_timeout_ms, options.retries, options.fail_on_data_loss
        )
        self._pulls = RangePulls(
            str(item.key),
            item.start,
            item.end,
            limits,
            is_filtered=bool(self._tag_codes or self._sql),
            is_replica_good=options.read_from == "replica",
        )
        self._doubted = -1  # the message that was requested again last
        self._builder = BatchBuilder(
            options.columns,
            topic=item.topic,
            broker=item.broker,
            rows_max=min(ROWS_MAX, item.rows + 1),
            tags=tuple(sorted(tag.encode() for tag in subscription.tags)) or None,
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `read_range`."""
        routes = self._shared.routes
        timeout_ms = self._options.request_timeout_ms
        run_blocking(routes.route(self._item.topic, Blocking(self._shared.remoting), timeout_ms=timeout_ms))
        while (taken := self._next_taken()) is not None:
            yield from self._filled(taken)
        if self._builder.rows:
            yield self._builder.finish()

    # ---- requests

    def _next_taken(self) -> Taken | None:
        """The next answer in order, after waiting; None if all was read. Sends further pulls before it returns."""
        pulls = self._pulls
        while True:
            taken = pulls.take()
            now_ms = monotonic_ms()
            for ask in pulls.asks(now_ms):
                self._send(ask)
            if taken is not None or pulls.is_done:
                return taken
            due_ms = pulls.next_due_ms()
            wait_ms = WAIT_MS if due_ms is None else max(0, min(WAIT_MS, due_ms - now_ms))
            self._take_answers(wait_ms)

    def _take_answers(self, wait_ms: int) -> None:
        """Takes the answers that have come; waits for the first."""
        try:
            answer = self._answers.get(timeout=wait_ms / 1000)
            while True:
                self._on_answer(*answer)
                answer = self._answers.get_nowait()
        except Empty:
            return

    def _on_answer(self, ask: NextPull, reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
        now_ms = monotonic_ms()
        if isinstance(reply, PullReply):
            lost = self._pulls.on_reply(ask, reply, payload, now_ms)
            if lost is not None and lost.is_damage:
                self._on_damage(lost.begin, f"it and the messages up to {lost.end} are lost at the broker")
            elif lost is not None:
                log.warning("rows lost queue=%s begin=%d end=%d", self._item.key, lost.begin, lost.end)
        elif error is not None:
            if error.route_stale:
                self._shared.routes.refresh_soon(self._item.topic)
            self._pulls.on_error(ask, error, now_ms)

    def _send(self, ask: NextPull) -> None:
        def on_reply(reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
            self._answers.put((ask, reply, payload, error))

        item, options = self._item, self._options
        request = PullMessages(
            options.reading_group,
            item.topic,
            item.queue_id,
            ask.offset,
            ask.messages_max,
            options.fetch_max_bytes,
            0,
            self._tag_codes,
            self._sql,
            item.incarnation,
            is_doubted=ask.is_doubted,
        )
        try:
            member = self._replica() if ask.is_replica_good else MASTER_ID
            address = self._shared.routes.address_of(item.topic, item.broker, member)
            self._shared.remoting.send_nowait(address, request, None, timeout_ms=self._try_ms, on_reply=on_reply)
        except ZenitError as error:
            on_reply(None, b"", error)

    def _replica(self) -> int:
        """A slave of the queue's group, chosen by the queue's number to spread the load; the master if there is none."""
        route = self._shared.routes.cached(self._item.topic)
        brokers = route.brokers if route is not None else ()
        slaves = [
            member
            for broker in brokers
            if broker.broker_name == self._item.broker
            for member in sorted(broker.addresses)
            if member != MASTER_ID
        ]
        return slaves[self._item.queue_id % len(slaves)] if slaves else MASTER_ID

    # ---- decoding

    def _filled(self, taken: Taken) -> Iterator[pa.RecordBatch]:
        """Converts an answer's messages to columns; yields each batch when it is full."""
        damage: CorruptRecordError | None = None
        payload = taken.payload
        if taken.missing:
            self._on_damage(taken.begin, f"{taken.missing} of the messages up to {taken.end} are damaged at the broker")
        try:
            batch = decode_batch(payload, self._item.broker)
        except CorruptRecordError as error:
            damage = error
            batch = decode_batch(payload[: error.offset], self._item.broker)
        if damage is None and _held(batch, taken.begin) != taken.count:
            if self._is_first_doubt(taken.begin):
                return
            self._on_damage(taken.begin, f"a batch among the messages up to {taken.end} is damaged")
            batch = _without_damaged(batch, self._item.broker)
        index, status = 0, NO_ROOM
        while status not in (ALL_TAKEN, BEHIND_END):
            index, status = self._builder.add(batch, index, taken.begin, taken.end)
            if status == NO_ROOM:
                yield self._builder.finish()
            elif status in REASONS:
                offset = batch[index].queue_offset
                if self._is_first_doubt(offset):
                    return
                self._on_damage(offset, REASONS[status])
                index += 1
        if damage is not None and status == ALL_TAKEN:
            offset = batch.next_offset() if len(batch) else taken.begin
            if offset < taken.end and not self._is_first_doubt(offset):
                self._on_damage(offset, damage.reason)
                self._pulls.restart(offset + 1)

    def _is_first_doubt(self, offset: int) -> bool:
        """True if it is requested once more, as doubted: the broker then checks its log, and a replica may have it whole."""
        if offset == self._doubted:
            return False
        self._doubted = offset
        self._pulls.restart(offset, is_doubted=True)
        return True

    def _on_damage(self, offset: int, reason: str) -> None:
        """Raises DamagedMessage, or logs that it is skipped."""
        if self._options.on_corrupt == "fail":
            raise DamagedMessage(str(self._item.key), offset, reason)
        log.warning("damaged message passed over queue=%s offset=%d reason=%s", self._item.key, offset, reason)


def _held(batch: MessageBatch, begin: int) -> int:
    """How many messages from `begin` on were found: a batch that cannot be taken apart is one."""
    before = max(0, begin - batch[0].queue_offset) if len(batch) else 0
    return len(batch) - before


def _without_damaged(batch: MessageBatch, broker: str) -> MessageBatch:
    """The messages whose bodies are whole. Those of a damaged batch are none."""
    return decode_batch(b"".join(message.record for message in batch if message.body_crc_matches), broker)
