"""Requests that read messages: pulls and pops, which may wait, and single messages by id or key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ...model.clock import now_ms
from ...model.errors import CorruptRecordError, InvalidParameter, MessageNotFound
from ...model.get_status import GetStatus
from ...model.handles.receipt_handle import split_index
from ...model.ids import HostAddress
from ...model.properties import encode_properties
from ...record.kernel import decode_batch
from ...remoting.commands import PopMessages, PullMessages, PullReply, QueryMessages, ViewMessage
from ..back.pops import PoppedMessage
from .bodies import ClassicSubscription, subscription_of
from .calls import DONE, BrokerPorts, ClassicAnswer, ClassicCall, ClassicHandler
from .clients import ClassicClients
from .codes import ClassicCode, ClassicStatus
from .records import ANSWER_BYTES_MAX, ReadableRecords, readable, readable_records, rewritten
from .told_subscriptions import ToldSubscriptions

PULL_BYTES: Final = 1024 * 1024
PULL_BYTES_MAX: Final = 8 * 1024 * 1024
PULL_MESSAGES_MAX: Final = 4096
POP_MESSAGES_MAX: Final = 32
QUERY_MAX: Final = 64
POP_CHECK: Final = "POP_CK"
NO_REVIVE_QUEUE: Final = "999"
MAY_WAIT: Final = 2
HAS_SUBSCRIPTION: Final = 4
"""Bits of a pull's sysFlag."""
_FROM_LAST: Final = 0
_HANDLE_WORD: Final = 8
"""Words before the handle in POP_CK."""

_ENDS: Final = {
    GetStatus.FOUND: ClassicStatus.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ClassicStatus.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ClassicStatus.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ClassicStatus.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ClassicStatus.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ClassicStatus.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ClassicStatus.PULL_OFFSET_MOVED,
    GetStatus.MESSAGES_LOST: ClassicStatus.PULL_OFFSET_MOVED,
}


def pull_status(status: int, queue_offset: int) -> ClassicStatus:
    """How a pull from that offset ended. Pure."""
    if status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE):
        return ClassicStatus.PULL_OFFSET_MOVED if queue_offset else ClassicStatus.PULL_NOT_FOUND
    return _ENDS[GetStatus(status)]


class ReadHandlers:
    """On the event loop."""

    def __init__(self, ports: BrokerPorts, clients: ClassicClients) -> None:
        self._ports = ports
        self._clients = clients
        self._told = ToldSubscriptions()

    def handlers(self) -> dict[int, ClassicHandler]:
        """Those that it answers."""
        return {
            ClassicCode.PULL_MESSAGE: self.on_pull,
            ClassicCode.LITE_PULL_MESSAGE: self.on_pull,
            ClassicCode.POP_MESSAGE: self.on_pop,
            ClassicCode.ACK_MESSAGE: self.on_ack,
            ClassicCode.CHANGE_MESSAGE_INVISIBLETIME: self.on_change_invisible,
            ClassicCode.QUERY_MESSAGE: self.on_query,
            ClassicCode.VIEW_MESSAGE_BY_ID: self.on_view,
        }

    async def on_pull(self, call: ClassicCall) -> ClassicAnswer:
        """PULL_MESSAGE. What a pull commits beside is left to UPDATE_CONSUMER_OFFSET, which each client sends as well."""
        fields = call.fields
        topic, group = fields.text("topic"), fields.text("consumerGroup")
        flags = fields.number("sysFlag")
        if flags & HAS_SUBSCRIPTION and fields.text("subscription"):
            row = ClassicSubscription(topic, fields.text("expressionType"), fields.text("subscription"))
            wanted = subscription_of(row)
        else:
            known = self._clients.subscription(call.back.user, group, topic, call.link)
            if known is None:
                known = await self._told.get(call.back, group, topic, deadline_ms=call.deadline_ms)
            if known is None:
                remark = f"no member of group {group} has told its subscription to {topic}"
                return ClassicAnswer(ClassicStatus.SUBSCRIPTION_NOT_EXIST, remark=remark)
            wanted = known
        size_bytes = fields.number("maxMsgBytes")
        broker_name = await call.broker_of(topic)
        wait_ms = call.poll_ms(fields.number("suspendTimeoutMillis") if flags & MAY_WAIT else 0)
        request = PullMessages(
            group,
            topic,
            fields.number("queueId"),
            fields.number("queueOffset"),
            min(fields.number("maxMsgNums"), PULL_MESSAGES_MAX),
            min(size_bytes if size_bytes > 0 else PULL_BYTES, PULL_BYTES_MAX, call.answer_bytes),
            wait_ms,
            wanted.codes(),
            wanted.sql,
        )
        reply, payload = await self._pull(call, broker_name, request, wait_ms)
        try:
            body, left_out = self._readable(call, broker_name, payload)
        except CorruptRecordError:  # damaged at the broker: it looks, and sends what is whole
            doubted = replace(request, suspend_ms=0, is_doubted=True)
            reply, payload = await self._pull(call, broker_name, doubted, 0)
            body, left_out = self._readable(call, broker_name, payload)
        answer = {
            "groupSysFlag": "0",
            "maxOffset": str(reply.max_offset),
            "minOffset": str(reply.min_offset),
            "nextBeginOffset": str(reply.next_offset if left_out < 0 else left_out),
            "suggestWhichBrokerId": "0",
            "topicSysFlag": "0",
        }
        return ClassicAnswer(pull_status(reply.status, request.queue_offset), answer, body)

    async def _pull(
        self, call: ClassicCall, broker_name: str, request: PullMessages, wait_ms: int
    ) -> tuple[PullReply, bytes]:
        return await call.back.backend.call(
            request.topic, broker_name, request, deadline_ms=call.deadline_ms, wait_ms=wait_ms
        )

    def _readable(self, call: ClassicCall, broker_name: str, payload: bytes) -> tuple[bytes, int]:
        """See readable_records."""
        can = readable(call.frame.language, call.frame.version)
        return readable_records(payload, self._ports.host_of(broker_name), can)

    async def on_pop(self, call: ClassicCall) -> ClassicAnswer:
        """POP_MESSAGE. Each message has its receipt handle in POP_CK, behind RocketMQ's words; its client gives that back."""
        fields = call.fields
        topic, group = fields.text("topic"), fields.text("consumerGroup")
        wanted = subscription_of(ClassicSubscription(topic, fields.text("expType"), fields.text("exp") or "*"))
        most, invisible_ms = fields.number("maxMsgNums"), fields.number("invisibleTime")
        if not 1 <= most <= POP_MESSAGES_MAX:
            raise InvalidParameter("maxMsgNums", most, f"1 to {POP_MESSAGES_MAX}")
        broker_name = await call.broker_of(topic)
        request = PopMessages(
            group,
            topic,
            most,
            invisible_ms,
            call.poll_ms(fields.number("pollTime")),
            tag_codes=wanted.codes(),
            sql=wanted.sql,
            start="last" if fields.number("initMode") != _FROM_LAST else "first",
            queue_id=max(-1, fields.number("queueId")),
            is_ordered=fields.flag("order"),
        )
        popped = await call.back.pops.pop_once(broker_name, request, deadline_ms=call.deadline_ms)
        if not popped:
            return ClassicAnswer(
                ClassicStatus.POLLING_TIMEOUT if fields.number("pollTime") else ClassicStatus.PULL_NOT_FOUND
            )
        pop_ms = now_ms()
        host, can = self._ports.host_of(broker_name), readable(call.frame.language, call.frame.version)
        told = 0
        try:
            records = popped_records(popped, host, can, broker_name, pop_ms, invisible_ms)
            told = len(records)
        finally:
            call.back.pops.release(group, popped[told:])
        answer = {
            "invisibleTime": str(invisible_ms),
            "msgOffsetInfo": "",
            "orderCountInfo": "",
            "popTime": str(pop_ms),
            "restNum": "0",
            "reviveQid": NO_REVIVE_QUEUE,
            "startOffsetInfo": f"0 0 {popped[0].message.queue_offset}",
        }
        return ClassicAnswer(fields=answer, body=b"".join(records))

    async def on_ack(self, call: ClassicCall) -> ClassicAnswer:
        """ACK_MESSAGE; once more, and it succeeds as the first time."""
        handle = handle_of(call.fields.text("extraInfo"))
        group = call.fields.text("consumerGroup")
        (outcome,) = await call.back.acks.ack(group, [handle], deadline_ms=call.deadline_ms)
        if outcome is not None:
            raise outcome
        return DONE

    async def on_change_invisible(self, call: ClassicCall) -> ClassicAnswer:
        """CHANGE_MESSAGE_INVISIBLETIME. The message's new handle is told in a field of its own, which no client of RocketMQ's
        reads: they leave the message alone afterwards, so that it comes again."""
        handle, invisible_ms = handle_of(call.fields.text("extraInfo")), call.fields.number("invisibleTime")
        group = call.fields.text("consumerGroup")
        fresh = await call.back.acks.change_invisible(group, handle, invisible_ms, deadline_ms=call.deadline_ms)
        fields = {
            "extraInfo": fresh,
            "invisibleTime": str(invisible_ms),
            "popTime": str(now_ms()),
            "reviveQid": NO_REVIVE_QUEUE,
        }
        return ClassicAnswer(fields=fields)

    async def on_query(self, call: ClassicCall) -> ClassicAnswer:
        """QUERY_MESSAGE: by a key, or by the unique id. The newest, as far as one answer holds them."""
        fields = call.fields
        broker_name = await call.broker_of(fields.text("topic"))
        request = QueryMessages(
            fields.text("topic"),
            fields.text("key"),
            max(1, min(fields.number("maxNum"), QUERY_MAX)),
            max(0, fields.number("beginTimestamp")),
            fields.number("endTimestamp"),
            fields.flag("_UNIQUE_KEY_QUERY"),
        )
        reply, payload = await call.back.backend.call_master(broker_name, request, deadline_ms=call.deadline_ms)
        if not reply.count:
            raise MessageNotFound(f"key {fields.text('key')}")
        messages = decode_batch(payload)
        newest = messages[0]
        answer = {
            "indexLastUpdatePhyoffset": str(newest.physical_offset),
            "indexLastUpdateTimestamp": str(newest.stored_at_ms),
        }
        return ClassicAnswer(fields=answer, body=self._readable(call, broker_name, payload)[0])

    async def on_view(self, call: ClassicCall) -> ClassicAnswer:
        """VIEW_MESSAGE_BY_ID."""
        broker_name = await call.any_broker()
        request = ViewMessage(call.fields.number("offset"))
        _, payload = await call.back.backend.call_master(broker_name, request, deadline_ms=call.deadline_ms)
        return ClassicAnswer(body=self._readable(call, broker_name, payload)[0])


def popped_records(
    popped: Sequence[PoppedMessage],
    host: HostAddress,
    can: ReadableRecords,
    broker_name: str,
    pop_ms: int,
    invisible_ms: int,
) -> list[bytes]:
    """The records of as many as one answer holds, one at least. Pure. Raises RemoteProtocolError, CorruptRecordError."""
    records: list[bytes] = []
    size_bytes = 0
    for one in popped:
        record = popped_record(one, host, can, broker_name, pop_ms, invisible_ms)
        size_bytes += len(record)
        if records and size_bytes > ANSWER_BYTES_MAX:
            break
        records.append(record)
    return records


def popped_record(
    one: PoppedMessage, host: HostAddress, can: ReadableRecords, broker_name: str, pop_ms: int, invisible_ms: int
) -> bytes:
    """A record as it is popped: how often it came is counted in it, and its handle is in POP_CK. Pure."""
    message = one.message
    offset = message.queue_offset
    words = (offset, pop_ms, invisible_ms, NO_REVIVE_QUEUE, 0, broker_name, message.queue_id, offset, one.handle)
    check = encode_properties({POP_CHECK: " ".join(map(str, words))})
    return rewritten(message, host.encode(), can, more_properties=check)


def handle_of(extra: str) -> str:
    """The receipt handle in what a client gives back. Pure. Raises HandleRefused."""
    words = extra.split(" ", _HANDLE_WORD)
    handle = words[_HANDLE_WORD] if len(words) > _HANDLE_WORD else extra
    split_index(handle)
    return handle
