"""Requests of clients and their groups: heartbeats, members, locks, offsets, assignments."""

from __future__ import annotations

import logging
from typing import Final

from ...client.consuming.allocation import averaging, averaging_by_circle
from ...model.clock import monotonic_ms
from ...model.errors import InvalidParameter, ZenitError
from ...model.names import retry_topic
from ...model.queue import MessageQueue
from ...record.kernel import decode_batch
from ...remoting.commands import (
    CreateTopic,
    GetConsumerList,
    GetMaxOffset,
    GetMinOffset,
    LockQueues,
    PullMessages,
    QueryConsumerOffset,
    SearchOffset,
    UnlockQueues,
    UpdateConsumerOffsets,
)
from .bodies import (
    ClassicHeartbeat,
    ClassicQueue,
    assignment_body,
    consumer_list_body,
    locked_body,
    read_assignment_question,
    read_client_check,
    read_heartbeat,
    read_lock,
    subscription_of,
)
from .calls import DONE, ClassicAnswer, ClassicCall, ClassicHandler
from .clients import ClassicClients
from .codes import ClassicCode, ClassicStatus

log = logging.getLogger(__name__)

MADE_MAX: Final = 100_000
MADE_MS: Final = 300_000
BROADCASTING: Final = "BROADCASTING"
_NOTHING: Final = -1
_ONE_BYTES: Final = 4 * 1024 * 1024


class GroupHandlers:
    """On the event loop."""

    def __init__(self, clients: ClassicClients) -> None:
        self._clients = clients
        self._made: dict[tuple[str, str], int] = {}  # (broker, group): when its retry topic was last made sure of

    def handlers(self) -> dict[int, ClassicHandler]:
        """Those that it answers."""
        return {
            ClassicCode.HEART_BEAT: self.on_heartbeat,
            ClassicCode.UNREGISTER_CLIENT: self.on_leave,
            ClassicCode.CHECK_CLIENT_CONFIG: self.on_check,
            ClassicCode.GET_CONSUMER_LIST_BY_GROUP: self.on_members,
            ClassicCode.LOCK_BATCH_MQ: self.on_lock,
            ClassicCode.UNLOCK_BATCH_MQ: self.on_unlock,
            ClassicCode.QUERY_ASSIGNMENT: self.on_assignment,
            ClassicCode.QUERY_CONSUMER_OFFSET: self.on_committed,
            ClassicCode.UPDATE_CONSUMER_OFFSET: self.on_commit,
            ClassicCode.SEARCH_OFFSET_BY_TIMESTAMP: self.on_search,
            ClassicCode.GET_MAX_OFFSET: self.on_max,
            ClassicCode.GET_MIN_OFFSET: self.on_min,
            ClassicCode.GET_EARLIEST_MSG_STORETIME: self.on_earliest,
        }

    # ---- clients

    async def on_heartbeat(self, call: ClassicCall) -> ClassicAnswer:
        """HEART_BEAT. As at RocketMQ's brokers, a group's retry topic is made by it."""
        heartbeat = read_heartbeat(call.frame.body)
        await self._clients.heard(call, heartbeat)
        if call.broker_name:
            await self._make_retry_topics(call, heartbeat)
        return DONE

    async def _make_retry_topics(self, call: ClassicCall, heartbeat: ClassicHeartbeat) -> None:
        """Without the right to do it, its first message that is sent back makes it."""
        now = monotonic_ms()
        for consumer in heartbeat.consumers:
            key = call.broker_name, consumer.group
            if consumer.model == BROADCASTING or self._made.get(key, now - MADE_MS) > now - MADE_MS:
                continue
            if len(self._made) >= MADE_MAX:
                self._made.clear()
            self._made[key] = now
            request = CreateTopic(retry_topic(consumer.group), 1, 1)
            try:
                await call.back.backend.call_master(call.broker_name, request, deadline_ms=call.deadline_ms)
            except ZenitError as error:
                log.info("a retry topic is not made yet group=%s error=%s", consumer.group, error)

    async def on_leave(self, call: ClassicCall) -> ClassicAnswer:
        """UNREGISTER_CLIENT."""
        fields = call.fields
        producer_group, consumer_group = fields.text("producerGroup"), fields.text("consumerGroup")
        await self._clients.left(call.back.user, fields.text("clientID"), producer_group, consumer_group)
        return DONE

    async def on_check(self, call: ClassicCall) -> ClassicAnswer:
        """CHECK_CLIENT_CONFIG: an expression that cannot be served is refused here."""
        subscription_of(read_client_check(call.frame.body).subscription)
        return DONE

    async def on_members(self, call: ClassicCall) -> ClassicAnswer:
        """GET_CONSUMER_LIST_BY_GROUP."""
        request = GetConsumerList(call.fields.text("consumerGroup"))
        reply, _ = await call.back.backend.call_master(await call.any_broker(), request, deadline_ms=call.deadline_ms)
        return ClassicAnswer(body=consumer_list_body(reply.client_ids))

    async def on_assignment(self, call: ClassicCall) -> ClassicAnswer:
        """QUERY_ASSIGNMENT: reckoned here as members would. They pull: nobody can set a group to pop by this protocol."""
        asked = read_assignment_question(call.frame.body)
        backend = call.back.backend
        route = await backend.route(asked.topic, deadline_ms=call.deadline_ms)
        queues = route.read_queues()
        if asked.model != BROADCASTING:
            name = await call.any_broker()
            reply, _ = await backend.call_master(name, GetConsumerList(asked.group), deadline_ms=call.deadline_ms)
            if asked.client_id not in reply.client_ids:
                raise InvalidParameter(
                    "clientId", asked.client_id[:64], f"a member of {asked.group}: send a heartbeat first"
                )
            share = averaging_by_circle if asked.strategy == "AVG_BY_CIRCLE" else averaging
            queues = share(asked.client_id, reply.client_ids, queues)
        return ClassicAnswer(body=assignment_body(map(_classic, queues)))

    # ---- locks

    async def on_lock(self, call: ClassicCall) -> ClassicAnswer:
        """LOCK_BATCH_MQ."""
        asked = read_lock(call.frame.body)
        locked: list[ClassicQueue] = []
        for (broker_name, topic), numbers in _by_broker(asked.queues).items():
            request = LockQueues(asked.group, asked.client_id, tuple((topic, number) for number in numbers))
            reply, _ = await call.back.backend.call(topic, broker_name, request, deadline_ms=call.deadline_ms)
            locked += [(topic, broker_name, number) for topic, number in reply.queues]
        return ClassicAnswer(body=locked_body(locked))

    async def on_unlock(self, call: ClassicCall) -> ClassicAnswer:
        """UNLOCK_BATCH_MQ."""
        asked = read_lock(call.frame.body)
        for (broker_name, topic), numbers in _by_broker(asked.queues).items():
            request = UnlockQueues(asked.group, asked.client_id, tuple((topic, number) for number in numbers))
            await call.back.backend.call(topic, broker_name, request, deadline_ms=call.deadline_ms)
        return DONE

    # ---- offsets

    async def on_committed(self, call: ClassicCall) -> ClassicAnswer:
        """QUERY_CONSUMER_OFFSET. QUERY_NOT_FOUND tells a client of a group without an offset to begin where it is set to begin.
        But where nothing of the queue has expired yet such a group begins at the first message, as RocketMQ's brokers have it:
        what is sent between a consumer's start and its first look at the queue is not passed over."""
        topic, broker_name, queue_id = await _queue(call)
        request = QueryConsumerOffset(call.fields.text("consumerGroup"), topic, queue_id)
        reply, _ = await call.back.backend.call(topic, broker_name, request, deadline_ms=call.deadline_ms)
        if reply.offset == _NOTHING and call.fields.flag("setZeroIfNotFound"):
            first, _ = await call.back.backend.call(
                topic, broker_name, GetMinOffset(topic, queue_id), deadline_ms=call.deadline_ms
            )
            if first.offset == 0:
                return _offset(0)
        if reply.offset == _NOTHING:
            return ClassicAnswer(ClassicStatus.QUERY_NOT_FOUND, remark="the group has no offset in this queue yet")
        return _offset(reply.offset)

    async def on_commit(self, call: ClassicCall) -> ClassicAnswer:
        """UPDATE_CONSUMER_OFFSET."""
        topic, broker_name, queue_id = await _queue(call)
        offsets = ((topic, queue_id, call.fields.number("commitOffset")),)
        request = UpdateConsumerOffsets(call.fields.text("consumerGroup"), offsets, bounded=True)
        await call.back.backend.call(topic, broker_name, request, deadline_ms=call.deadline_ms)
        return DONE

    async def on_search(self, call: ClassicCall) -> ClassicAnswer:
        """SEARCH_OFFSET_BY_TIMESTAMP."""
        topic, broker_name, queue_id = await _queue(call)
        is_upper = call.fields.text("boundaryType").upper() == "UPPER"
        request = SearchOffset(topic, queue_id, max(0, call.fields.number("timestamp")), is_upper)
        reply, _ = await call.back.backend.call(topic, broker_name, request, deadline_ms=call.deadline_ms)
        return _offset(reply.offset)

    async def on_max(self, call: ClassicCall) -> ClassicAnswer:
        """GET_MAX_OFFSET."""
        topic, broker_name, queue_id = await _queue(call)
        request = GetMaxOffset(topic, queue_id)
        reply, _ = await call.back.backend.call(topic, broker_name, request, deadline_ms=call.deadline_ms)
        return _offset(reply.offset)

    async def on_min(self, call: ClassicCall) -> ClassicAnswer:
        """GET_MIN_OFFSET."""
        topic, broker_name, queue_id = await _queue(call)
        request = GetMinOffset(topic, queue_id)
        reply, _ = await call.back.backend.call(topic, broker_name, request, deadline_ms=call.deadline_ms)
        return _offset(reply.offset)

    async def on_earliest(self, call: ClassicCall) -> ClassicAnswer:
        """GET_EARLIEST_MSG_STORETIME; -1 where the queue is empty."""
        topic, broker_name, queue_id = await _queue(call)
        backend = call.back.backend
        first, _ = await backend.call(topic, broker_name, GetMinOffset(topic, queue_id), deadline_ms=call.deadline_ms)
        pull = PullMessages("", topic, queue_id, first.offset, 1, _ONE_BYTES)
        reply, payload = await backend.call(topic, broker_name, pull, deadline_ms=call.deadline_ms)
        stored_ms = decode_batch(payload)[0].stored_at_ms if reply.count else _NOTHING
        return ClassicAnswer(fields={"timestamp": str(stored_ms)})


async def _queue(call: ClassicCall) -> ClassicQueue:
    """The queue that a request names."""
    topic = call.fields.text("topic")
    return topic, await call.broker_of(topic), call.fields.number("queueId")


def _offset(offset: int) -> ClassicAnswer:
    return ClassicAnswer(fields={"offset": str(offset)})


def _classic(queue: MessageQueue) -> ClassicQueue:
    return queue.topic, queue.broker_name, queue.queue_id


def _by_broker(queues: tuple[ClassicQueue, ...]) -> dict[tuple[str, str], list[int]]:
    """{(broker name, topic): queue ids}."""
    found: dict[tuple[str, str], list[int]] = {}
    for topic, broker_name, queue_id in queues:
        found.setdefault((broker_name, topic), []).append(queue_id)
    return found
