"""Requests that store messages: sends, batches, replies to requests, messages sent back, ends of transactions, recalls."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ...client.sending.target import GivenQueue, Priority
from ...model.clock import now_ms
from ...model.errors import InvalidParameter, MessageIllegal, TopicNotFound, error_from_wire
from ...model.handles.transaction import Resolution, TransactionId
from ...model.ids import offset_message_id
from ...model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from ...model.properties import PRODUCER_GROUP, REPLY_TO_CLIENT, UNIQUE_KEY, decode_properties, encode_properties
from ...model.queue import PhysicalOffset
from ...model.route import PERMISSION_WRITE
from ...record.codes import HOST_V4_BYTES, HOST_V6_BYTES
from ...record.kernel import plain_batch_count
from ...record.sys_flag import COMPRESSED, COMPRESSION_MASK, MULTI_TAGS
from ...remoting.commands import CreateTopic, EndTransactions, RecallMessage, SendBack, SendReplyMessage
from ..back.ready_message import ReadyMessage, SendKind, SentBatch, Stored, StoredBatch
from ..back.sends import GROUP_BYTES_MAX, RECORDS_MAX
from .calls import DONE, BrokerPorts, ClassicAnswer, ClassicCall, ClassicHandler
from .codes import ClassicCode, ClassicStatus
from .records import (
    TELLING_NAMES,
    BatchedMessage,
    is_delayed,
    is_half,
    priority_of,
    read_batch,
    sent_properties,
    telling_properties,
)

KEPT_FLAGS: Final = COMPRESSED | COMPRESSION_MASK | MULTI_TAGS
CLUSTER: Final = "CLUSTER"
"""With it who replies finds the cluster's topic of replies."""
_ID_BYTES: Final = 16
_DECIDED: Final = (Resolution.COMMIT.value, Resolution.ROLLBACK.value)


class SendHandlers:
    """On the event loop."""

    def __init__(self, ports: BrokerPorts) -> None:
        self._ports = ports

    def handlers(self) -> dict[int, ClassicHandler]:
        """Those that it answers."""
        return {
            ClassicCode.SEND_MESSAGE: self.on_send,
            ClassicCode.SEND_MESSAGE_V2: self.on_send,
            ClassicCode.SEND_BATCH_MESSAGE: self.on_batch,
            ClassicCode.SEND_REPLY_MESSAGE: self.on_reply,
            ClassicCode.SEND_REPLY_MESSAGE_V2: self.on_reply,
            ClassicCode.CONSUMER_SEND_MSG_BACK: self.on_send_back,
            ClassicCode.END_TRANSACTION: self.on_end,
            ClassicCode.RECALL_MESSAGE: self.on_recall,
        }

    async def on_send(self, call: ClassicCall) -> ClassicAnswer:
        """SEND_MESSAGE, in both its forms."""
        if call.fields.flag("batch"):
            return await self.on_batch(call)
        message = _message(call)
        if message.topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
            message = await _again(call, message)
        if REPLY_TO_CLIENT.encode() in message.properties:
            message = await _with_cluster(call, message)
        priority = priority_of(message.properties)
        target = await _target(call, message.topic, priority)
        stored = await call.back.sends.send(message, target, deadline_ms=call.deadline_ms, turn=call.turn)
        return self._answer(stored)

    async def on_batch(self, call: ClassicCall) -> ClassicAnswer:
        """SEND_BATCH_MESSAGE. All are stored side by side as far as one request to the broker holds them, which is refused or
        stored as a whole."""
        batch = _plain_batch(call)
        if batch is not None:  # as most are
            target = await _target(call, batch.topic)
            whole = await call.back.sends.send_batch(batch, target, deadline_ms=call.deadline_ms, turn=call.turn)
            return self._batch_answer(whole)
        messages = _messages(call, read_batch(call.frame.body))
        if any(message.kind is not SendKind.PLAIN for message in messages):
            raise MessageIllegal("a batch has messages that are delayed, or of a transaction: send each by itself")
        topic = call.fields.text("topic")
        target = await _target(call, topic)
        stored = await call.back.sends.send_all(messages, target, deadline_ms=call.deadline_ms, turn=call.turn)
        first = stored[0]
        whole = StoredBatch(first.queue, first.queue_offset, [one.physical_offset for one in stored])
        return self._batch_answer(whole)

    async def on_reply(self, call: ClassicCall) -> ClassicAnswer:
        """SEND_REPLY_MESSAGE: to whoever asked, over the broker at which the reply is stored."""
        message = _message(call)
        message.check()
        broker_name = await call.any_broker()
        masters = await call.back.backend.masters(deadline_ms=call.deadline_ms)
        host_bytes = HOST_V6_BYTES if masters.get(broker_name, "").startswith("[") else HOST_V4_BYTES
        request = SendReplyMessage(message.topic, call.fields.text("producerGroup"))
        reply, _ = await call.back.backend.call_master(
            broker_name, request, message.record(b"", host_bytes), deadline_ms=call.deadline_ms
        )
        if not reply.is_delivered:
            return ClassicAnswer(ClassicStatus.SYSTEM_ERROR, remark="the requester is not connected to that broker now")
        host = self._ports.host_of(broker_name).encode()
        fields = {
            "msgId": offset_message_id(host, PhysicalOffset(reply.physical_offset)),
            "queueId": str(call.fields.number("queueId")),
            "queueOffset": str(reply.queue_offset),
        }
        return ClassicAnswer(fields=fields)

    async def on_send_back(self, call: ClassicCall) -> ClassicAnswer:
        """CONSUMER_SEND_MSG_BACK."""
        fields = call.fields
        topic, group = fields.text("originTopic"), fields.text("group")
        if not topic:
            raise InvalidParameter("originTopic", "", "the topic of the message that is sent back")
        broker_name = await call.broker_of(topic)
        request = SendBack(
            group, topic, fields.number("offset"), fields.number("delayLevel"), fields.number("maxReconsumeTimes")
        )
        await call.back.backend.call_master(broker_name, request, deadline_ms=call.deadline_ms)
        return DONE

    async def on_end(self, call: ClassicCall) -> ClassicAnswer:
        """END_TRANSACTION; "not known yet" changes nothing: the broker asks again."""
        fields = call.fields
        decision = fields.number("commitOrRollback")
        if decision == Resolution.UNKNOWN.value:
            return DONE
        if decision not in _DECIDED:
            raise InvalidParameter("commitOrRollback", decision, "8, 12, or 0 for not known yet")
        text = fields.text("transactionId")
        transaction = TransactionId.parse(text)
        half_offset = fields.number("commitLogOffset") if fields.flag("fromTransactionCheck") else -1
        request = EndTransactions(fields.text("producerGroup"), ((transaction.topic, text, decision, half_offset),))
        reply, _ = await call.back.backend.call(
            transaction.topic, transaction.broker_name, request, deadline_ms=call.deadline_ms
        )
        code, outcome, *_ = reply.rows[0]
        if code:
            raise error_from_wire(code, json.loads(outcome), outcome)
        return DONE

    async def on_recall(self, call: ClassicCall) -> ClassicAnswer:
        """RECALL_MESSAGE."""
        topic = call.fields.text("topic")
        request = RecallMessage(topic, call.fields.text("recallHandle"), call.fields.text("producerGroup"))
        broker_name = await call.broker_of(topic)
        reply, _ = await call.back.backend.call(topic, broker_name, request, deadline_ms=call.deadline_ms)
        return ClassicAnswer(fields={"msgId": reply.message_id})

    def _batch_answer(self, stored: StoredBatch) -> ClassicAnswer:
        host = self._ports.host_of(stored.queue.broker_name).encode().hex().upper()
        fields = {
            "msgId": ",".join(
                [f"{host}{at:016X}" for at in stored.physical_offsets]
            ),  # each as `offset_message_id` has it
            "queueId": str(stored.queue.queue_id),
            "queueOffset": str(stored.queue_offset),
        }
        return ClassicAnswer(fields=fields)

    def _answer(self, stored: Stored) -> ClassicAnswer:
        host = self._ports.host_of(stored.queue.broker_name).encode()
        fields = {
            "msgId": offset_message_id(host, PhysicalOffset(stored.physical_offset)),
            "queueId": str(stored.queue.queue_id),
            "queueOffset": str(stored.queue_offset),
        }
        if stored.recall_handle:
            fields["recallHandle"] = stored.recall_handle
        if stored.is_half:
            fields["transactionId"] = stored.transaction_id
        return ClassicAnswer(fields=fields)


def _plain_batch(call: ClassicCall) -> SentBatch | None:
    """The batch of a request, if one request to the broker holds it and no message of it needs a look by itself."""
    body = call.frame.body
    count = plain_batch_count(body, TELLING_NAMES)
    if not 0 < count <= RECORDS_MAX:
        return None
    fields = call.fields
    batch = SentBatch(
        fields.text("topic"),
        body,
        count,
        fields.number("bornTimestamp") or now_ms(),
        call.link.peer.encode(),
        fields.number("sysFlag") & KEPT_FLAGS,
        fields.number("reconsumeTimes"),
    )
    return batch if batch.size_bytes <= GROUP_BYTES_MAX else None


def _message(call: ClassicCall) -> ReadyMessage:
    """The one of a request that is no batch."""
    flag, properties = call.fields.number("flag"), call.fields.text("properties").encode()
    return _messages(call, (BatchedMessage(flag, call.frame.body, properties),))[0]


def _messages(call: ClassicCall, sent: Sequence[BatchedMessage]) -> list[ReadyMessage]:
    """Messages as they were sent; one gets an id if its client gave it none."""
    fields = call.fields
    topic, group = fields.text("topic"), fields.text("producerGroup")
    born_at_ms, born_host = fields.number("bornTimestamp") or now_ms(), call.link.peer.encode()
    sys_flag, reconsume_times = fields.number("sysFlag") & KEPT_FLAGS, fields.number("reconsumeTimes")
    messages = []
    for one in sent:
        encoded = sent_properties(one.properties)
        properties = telling_properties(encoded)
        message_id = properties.pop(UNIQUE_KEY, "")
        if not message_id:
            message_id = secrets.token_hex(_ID_BYTES).upper()
            encoded += encode_properties({UNIQUE_KEY: message_id})
        kind = SendKind.PLAIN
        if properties:
            kind = SendKind.HALF if is_half(properties) else SendKind.DELAYED if is_delayed(properties) else kind
        producer_group = properties.get(PRODUCER_GROUP, "") or group
        messages.append(
            ReadyMessage(
                topic,
                one.body,
                encoded,
                message_id,
                born_at_ms,
                born_host,
                kind,
                one.flag,
                sys_flag,
                reconsume_times,
                producer_group,
            )
        )
    return messages


async def _target(call: ClassicCall, topic: str, priority: int | None = None) -> GivenQueue | Priority | None:
    """The queue that the client chose; any of the broker's where it names none, any at all where it names no broker either. A
    message with a priority is in the broker's queue of that number, or in its last one, whatever its client chose."""
    queue_id = call.fields.number("queueId")
    if queue_id < 0 or priority is not None:
        if not call.broker_name:
            return None if priority is None else Priority(priority)
        route = await call.back.backend.route(topic, deadline_ms=call.deadline_ms)
        count = next(
            (
                data.write_queues
                for data in route.queues
                if data.broker_name == call.broker_name and data.permission & PERMISSION_WRITE
            ),
            0,
        )
        if not count:
            return None
        queue_id = random.randrange(count) if priority is None else min(priority, count - 1)
    return GivenQueue(await call.broker_of(topic), queue_id)


async def _with_cluster(call: ClassicCall, message: ReadyMessage) -> ReadyMessage:
    """A request: with the name of the cluster, which who replies needs."""
    if CLUSTER in decode_properties(message.properties):
        return message
    route = await call.back.backend.route(message.topic, deadline_ms=call.deadline_ms)
    cluster = encode_properties({CLUSTER: route.brokers[0].cluster})
    return replace(message, properties=message.properties + cluster)


async def _again(call: ClassicCall, message: ReadyMessage) -> ReadyMessage:
    """A message that a consumer sends to its group's retry topic by itself, as ordered ones do: after its last attempt it is a
    dead letter. The topic is made if there is none."""
    group = message.topic.removeprefix(RETRY_PREFIX)
    if group != message.topic:
        limit = call.fields.number("maxReconsumeTimes")
        if limit < 0:
            limit = (await call.back.settings.group(group, deadline_ms=call.deadline_ms)).retries_max
        if message.reconsume_times > limit:
            message = replace(message, topic=DEAD_LETTER_PREFIX + group, kind=SendKind.PLAIN)
    try:
        await call.back.backend.route(message.topic, deadline_ms=call.deadline_ms)
    except TopicNotFound:
        name = await call.any_broker()
        await call.back.backend.call_master(name, CreateTopic(message.topic, 1, 1), deadline_ms=call.deadline_ms)
        await call.await_route(message.topic, name)
    return message
