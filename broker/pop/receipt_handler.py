"""What receivers say of popped messages: handled, not handled, longer please, to the dead letters. Loop thread.

A handle is believed if its signature is ours. Whether it still means anything says the table: a lease that is over, or that was
given back, is refused; what is acknowledged already succeeds once more.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from functools import partial
from typing import Final

from ...model.errors import (
    CorruptRecordError,
    HandleRefused,
    InvalidParameter,
    LeaseExpired,
    MessageNotFound,
    ZenitError,
)
from ...model.handles.lite_handle import LiteHandle
from ...model.handles.receipt_handle import ReceiptHandle
from ...model.topics.light_queues import LIGHT_PREFIX
from ...record.kernel import StoredMessage
from ...remoting.commands import (
    AckMessages,
    AckReply,
    ChangedReply,
    ChangeInvisible,
    Done,
    ForwardDeadLetter,
    GetLeases,
    ReleaseMessages,
    SuspendLite,
)
from ...remoting.server import Call
from ..handlers.parts import Parts
from ..json_reply import reply_json
from ..state.pop_queue import Name, PopCheckpoint, PopQueue, indices
from ..state.pop_table import Bits, PopTable, QueueKey, key_of, place_of
from ..state.state_log import POPS
from .leases import Leases
from .pop_handler import INVISIBLE_MS_MAX, INVISIBLE_MS_MIN

ACKS_MAX: Final = 1024
HANDLES_MAX: Final = 4096  # that were checked a moment ago

_GOOD: Final = (0, "")


class ReceiptHandler:
    """AckMessages, ReleaseMessages, ChangeInvisible, SuspendLite, ForwardDeadLetter, GetLeases. `acked` counts messages."""

    def __init__(self, parts: Parts, leases: Leases) -> None:
        self.acked = 0
        self._parts = parts
        self._store, self._state, self._clock = parts.store, parts.state, parts.clock
        self._table: PopTable = parts.state.pop_table
        self._leases = leases
        self._known: OrderedDict[str, ReceiptHandle] = OrderedDict()

    def on_ack(self, call: Call[AckMessages]) -> None:
        """One event for all that is good of it; it is answered once that is as durable as a send."""
        request = call.request
        rows, bits = self._rows(request.group, request.topic, request.acks, may_be_acked=True)
        end = int(self._store.written)
        if bits:
            event = self._table.event_acked(request.group, request.topic, bits)
            end = int(self._state.stage(self._store, POPS, event))
            self.acked += sum(row[3].bit_count() for row in bits)
            self._leases.acking.settle(self._state.applied)
            for place, begin, pop_ms, of_pop in bits:
                self._leases.acking.add(key_of(request.group, request.topic, place), (begin, pop_ms), of_pop, end)
            if any(self._is_ordered(key_of(request.group, request.topic, row[0])) for row in bits):
                self._leases.on_available(request.topic, end)
        self._parts.acknowledgements.staged.append((call, AckReply(rows), end, ()))

    def on_release(self, call: Call[ReleaseMessages]) -> None:
        """What reached nobody is available again."""
        request = call.request
        rows, bits = self._rows(request.group, request.topic, request.acks, may_be_acked=False)
        end = int(self._store.written)
        if bits:
            end = self._leases.give_back(request.group, request.topic, bits, counts=False)
        self._parts.acknowledgements.staged.append((call, AckReply(rows), end, ()))

    def on_change(self, call: Call[ChangeInvisible]) -> None:
        """Raises HandleRefused, LeaseExpired, InvalidParameter."""
        request = call.request
        if request.invisible_ms and not INVISIBLE_MS_MIN <= request.invisible_ms <= INVISIBLE_MS_MAX:
            raise InvalidParameter(
                "invisible_ms", request.invisible_ms, f"0, or {INVISIBLE_MS_MIN} to {INVISIBLE_MS_MAX}"
            )
        key, name, queue, checkpoint = self._open_one(request.group, request.topic, request.handle, request.index)
        _, place = place_of(key)
        now_ms, bit = self._clock.now_ms(), 1 << request.index
        if not request.invisible_ms:
            end = self._leases.give_back(request.group, request.topic, [(place, *name, bit)], counts=True)
            reply = ChangedReply("", now_ms)
        else:
            pop_ms = queue.next_pop_ms(now_ms)
            lease = pop_ms, request.invisible_ms
            changes = ((request.index, *lease),)
            event = self._table.event_changed(request.group, request.topic, place, name, changes, renews=request.renews)
            end = int(self._state.stage(self._store, POPS, event))
            self._leases.ended.add(key, name, bit, end)
            begin = checkpoint.offsets[request.index]
            if isinstance(place, str):
                text = LiteHandle(place, begin, 1, pop_ms).text()
            else:
                text = ReceiptHandle(self._parts.config.name, *key, begin, 1, *lease).sign(self._table.key)
            reply = ChangedReply(text, pop_ms)
        self._parts.acknowledgements.staged.append((call, reply, end, ()))

    def on_suspend(self, call: Call[SuspendLite]) -> None:
        """The message, and what came with it behind it, are held back for a while. Raises HandleRefused, LeaseExpired,
        InvalidParameter."""
        request = call.request
        if not 0 <= request.delay_ms <= INVISIBLE_MS_MAX:
            raise InvalidParameter("delay_ms", request.delay_ms, f"0 to {INVISIBLE_MS_MAX}")
        key, name, queue, _ = self._open_one(request.group, request.topic, request.handle, request.index)
        topic, place = place_of(key)
        if not isinstance(place, str):
            raise HandleRefused("of another topic")
        bits = self._leases.open_bits(key, name) >> request.index << request.index
        now_ms = self._clock.now_ms()
        if not request.delay_ms:
            end = self._leases.give_back(request.group, topic, [(place, *name, bits)], counts=False)
        else:
            changes = [(index, queue.next_pop_ms(now_ms), request.delay_ms) for index in indices(bits)]
            event = self._table.event_changed(request.group, topic, place, name, changes, counts=False, renews=False)
            end = int(self._state.stage(self._store, POPS, event))
            self._leases.ended.add(key, name, bits, end)
        self._parts.acknowledgements.staged.append((call, ChangedReply("", now_ms), end, ()))

    def on_forward(self, call: Call[ForwardDeadLetter]) -> None:
        """A worker reads the message. Raises HandleRefused, LeaseExpired, BrokerBusy."""
        request = call.request
        key, _, _, checkpoint = self._open_one(request.group, request.topic, request.handle, request.index)
        offset = checkpoint.offsets[request.index]
        self._parts.workers.run(call, lambda: self._leases.read(key, offset), partial(self._forward, call))

    def _forward(self, call: Call[ForwardDeadLetter], found: StoredMessage | Exception) -> None:
        request = call.request
        key, name, _, checkpoint = self._open_one(request.group, request.topic, request.handle, request.index)
        if isinstance(found, (MessageNotFound, CorruptRecordError)):
            raise found
        assert isinstance(found, StoredMessage)
        attempts = checkpoint.attempts_of(request.index) + 1
        offset = checkpoint.offsets[request.index]
        end = self._leases.stage_dead_letter(found, key, offset, attempts, request.reason, name)
        self._leases.ended.add(key, name, 1 << request.index, end)
        self._parts.acknowledgements.staged.append((call, Done(), end, ()))

    def on_list(self, call: Call[GetLeases]) -> None:
        """What a group holds here."""
        now_ms = self._clock.now_ms()
        rows = []
        for (_, topic, queue_id), queue in self._table.queues_of(call.request.group):
            if topic.startswith(LIGHT_PREFIX):
                continue
            open_ones = list(queue.all_checkpoints())
            oldest = min((one.pop_ms for one in open_ones), default=None)
            attempts = [max(one.attempts, default=0) + 1 for one in open_ones]
            rows.append(
                {
                    "topic": topic,
                    "queue_id": queue_id,
                    "next_offset": queue.next,
                    "first_unacknowledged": queue.first_open(),
                    "leased": queue.leased,
                    "available": len(queue.available),
                    "oldest_lease_ms": None if oldest is None else max(0, now_ms - oldest),
                    "attempts_max": max([*attempts, *queue.available.values()], default=0),
                }
            )
        rows.sort(key=lambda row: (row["topic"], row["queue_id"]))
        reply_json(self._parts.loop, call, {"group": call.request.group, "queues": rows})

    def document(self) -> dict[str, int]:
        """For the statistics: what became of messages that were handed out."""
        return {"acked": self.acked, **self._leases.document()}

    # ---- handles

    def _handle(self, group: str, topic: str, text: str) -> tuple[QueueKey, Name, int]:
        """Which check point, and how many messages it has. Raises HandleRefused."""
        lite = LiteHandle.parse(text)
        if lite is not None:
            return key_of(group, topic, lite.lite_topic), lite.name, lite.count
        handle = self._known.get(text)
        if handle is None:
            if not self._table.key:
                raise HandleRefused("forged")
            handle = ReceiptHandle.parse(text, self._table.key)
            self._known[text] = handle
            if len(self._known) > HANDLES_MAX:
                self._known.popitem(last=False)
        if handle.broker_name != self._parts.config.name:
            raise HandleRefused("of another broker")
        if handle.group != group:
            raise HandleRefused("of another group")
        if handle.topic != topic:
            raise HandleRefused("of another topic")
        return (group, topic, handle.queue_id), (handle.begin, handle.pop_ms), handle.count

    def _rows(
        self, group: str, topic: str, acks: tuple[tuple[str, int], ...], *, may_be_acked: bool
    ) -> tuple[tuple[tuple[int, str], ...], list[Bits]]:
        """(the reply's rows, what of it is to be staged). Raises InvalidParameter."""
        if not 1 <= len(acks) <= ACKS_MAX:
            raise InvalidParameter("acks", f"{len(acks)} rows", f"1 to {ACKS_MAX}")
        rows: list[tuple[int, str]] = []
        staged: list[Bits] = []
        for text, bits in acks:
            try:
                key, name, count = self._handle(group, topic, text)
                if not 0 < bits < 1 << count:
                    raise HandleRefused("malformed")
                open_bits = self._leases.open_bits(key, name)
                known = self._acked_bits(key, name) if may_be_acked else 0
                if bits & open_bits:
                    staged.append((place_of(key)[1], *name, bits & open_bits))
                over = bits & ~open_bits & ~known
                rows.append(_GOOD if not over else _refusal(_expired(key, name, over)))
            except ZenitError as error:
                rows.append(_refusal(error))
        return tuple(rows), staged

    def _acked_bits(self, key: QueueKey, name: Name) -> int:
        return self._table.acked_bits(key, name) | self._leases.acking.bits(key, name, self._state.applied)

    def _open_one(
        self, group: str, topic: str, text: str, index: int
    ) -> tuple[QueueKey, Name, PopQueue, PopCheckpoint]:
        """Raises HandleRefused, LeaseExpired."""
        key, name, count = self._handle(group, topic, text)
        if not 0 <= index < count:
            raise HandleRefused("malformed")
        queue = self._table.queue(key)
        checkpoint = None if queue is None else queue.checkpoint(name)
        if queue is None or checkpoint is None or not self._leases.open_bits(key, name) >> index & 1:
            raise _expired(key, name, 1 << index)
        return key, name, queue, checkpoint

    def _is_ordered(self, key: QueueKey) -> bool:
        queue = self._table.queue(key)
        return queue is not None and queue.is_ordered


def _expired(key: QueueKey, name: Name, bits: int) -> LeaseExpired:
    """Of the first of `bits`; its offset is exact where the messages follow each other."""
    return LeaseExpired(key[1], key[2], name[0] + (bits & -bits).bit_length() - 1)


def _refusal(error: ZenitError) -> tuple[int, str]:
    return error.code, json.dumps(error.args)
