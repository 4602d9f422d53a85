"""Failed messages of a group: delivered again later, or stored as dead letters. Loop thread.

A worker finds the message in the log; then it is stored again: delayed, in the group's retry topic, or at once
among its dead letters. The answer comes when that is as durable as an acknowledged send. A consumer that asks again
because it got no answer may have its message twice, as a producer may.

The copy gets a checksum of its own append, so the record is checked first: the checksum of its append, and of its body. A
damaged one is quarantined. While a replica may repair it the consumer has to come again; after that the consumer's own copy
is used, if it was pulled before the damage. A body that arrived with a wrong CRC is not damaged, since the checksum of its
append confirms it: it is stored as undecodable, and its copies keep that CRC, so that it never looks undamaged.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ...model.errors import (
    BrokerBusy,
    CorruptRecordError,
    GroupNotFound,
    InvalidParameter,
    MessageIllegal,
    MessageNotFound,
    NoPermission,
)
from ...model.names import check_group, check_topic, is_system_topic, retry_topic
from ...model.queue import PhysicalOffset
from ...model.redelivery import (
    Origin,
    dead_letter_properties,
    dead_letter_topic,
    origin_of,
    retry_properties,
)
from ...model.route import TopicConfig
from ...record.kernel import StoredMessage, decode_batch, decode_record
from ...record.new_record import NewRecord
from ...record.sys_flag import INNER_BATCH, NOT_COPIED
from ...remoting.commands import Done, Request, SendBack
from ...remoting.server import Call
from ...store.integrity.quarantine import Range, overlaps
from ...store.message_store import Placed
from ..state.redelivery_topics import retry_queues_of, wanted_dead_letter_topic, wanted_retry_topic
from ..state.retry_policy import RETRIES_MAX_MAX, retry_delay_ms
from ..state.state_log import GROUPS, TOPICS
from .parts import Parts

DAMAGED_RETRY_MS: Final = 1000  # while a replica may repair the record


class SendBackHandler:
    """SendBack. `retried` and `given_up` count the outcomes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._levels_ms = parts.delays.rules.levels_ms
        self._delay_ms_max = parts.delays.rules.delay_ms_max
        self.retried = 0
        self.given_up = 0

    def on_send_back(self, call: Call[SendBack]) -> None:
        """Raises what is wrong with the request; MessageNotFound if the message is gone."""
        request = call.request
        if is_system_topic(check_topic(request.topic)):
            raise NoPermission(f"system topic {request.topic}", "sending back")
        self._check_group(request.group)
        if request.handled < 1:
            raise InvalidParameter("handled", request.handled, "at least 1")
        if request.physical_offset < 0:
            raise MessageNotFound(f"physical offset {request.physical_offset}")
        work = partial(self._find, PhysicalOffset(request.physical_offset), request.queue_offset, call.payload)
        self._parts.workers.run(call, work, partial(self._on_found, call))

    def _find(self, physical_offset: PhysicalOffset, queue_offset: int, pulled: bytes) -> StoredMessage | list[Range]:
        """Worker thread. The record, or the consumer's copy of it if the log no longer holds it; if the
        log's bytes are damaged, the damaged ranges."""
        store = self._parts.store
        try:
            message = decode_record(store.record_at(physical_offset))
        except CorruptRecordError:
            return store.damaged_at(physical_offset)
        except MessageNotFound:
            if not pulled:
                raise
            return _pulled_record(physical_offset, pulled)
        damaged = store.damaged_at(physical_offset)
        end = physical_offset + message.size_bytes
        is_hit = overlaps(damaged, physical_offset, end)
        is_as_sent = not is_hit and (message.body_crc_matches or store.vouches_for(physical_offset, end))
        return _message_of(message, queue_offset) if is_as_sent else damaged

    def _on_found(self, call: Call[SendBack], found: StoredMessage | list[Range]) -> None:
        """Raises BrokerBusy, MessageNotFound, CorruptRecordError if the log's bytes are damaged."""
        request = call.request
        if isinstance(found, list):
            self._parts.store.damage.add_all(found, "met as it was sent back")
            found = self._instead(PhysicalOffset(request.physical_offset), call.payload)
        self._send_back(call, request, found)

    def _instead(self, physical_offset: PhysicalOffset, pulled: bytes) -> StoredMessage:
        """Uses the consumer's copy, if the log's bytes are damaged for good. Raises like `_on_found`."""
        store, place = self._parts.store, (physical_offset, physical_offset + 1)
        quarantine = store.damage.quarantine
        if quarantine.is_awaited(*place) or not quarantine.ranges_in(*place):  # not covered: a scrub will check
            raise BrokerBusy(
                DAMAGED_RETRY_MS, f"the record at {physical_offset} is damaged; waiting for a replica that may have it"
            )
        if not pulled:
            raise MessageNotFound(f"physical offset {physical_offset}")
        message = _pulled_record(physical_offset, pulled)
        if store.holds(physical_offset, message.record):  # pulled after it was damaged
            raise CorruptRecordError(physical_offset, message.size_bytes, "quarantined")
        return message

    def _send_back(self, call: Call[Request], request: SendBack, message: StoredMessage) -> None:
        state = self._parts.state
        properties = message.properties
        origin = origin_of(message.topic, message.offset_message_id, properties)
        if request.topic not in (message.topic, origin.topic):
            raise InvalidParameter("topic", request.topic, "that of the message there")  # which the sender may not know
        group = state.group_table.documents.get(request.group, {})
        delay_ms = retry_delay_ms(
            group,
            self._levels_ms,
            reconsume_times=message.reconsume_times,
            delay_level=request.delay_level,
            max_attempts=request.max_attempts,
        )
        topics = state.topic_table.configs
        if delay_ms is None:
            self._stage_state(request.group, wanted_dead_letter_topic(topics, request.group))
            end = self._give_up(message, properties, origin, request)
        else:
            self._stage_state(request.group, wanted_retry_topic(topics, request.group, group))
            end = self._stage_retry(message, properties, origin, request.group, retry_queues_of(group), delay_ms)
        self._parts.acknowledgements.staged.append((call, Done(), end, ()))

    def _stage_retry(
        self,
        message: StoredMessage,
        properties: dict[str, str],
        origin: Origin,
        group: str,
        queues: int,
        delay_ms: int,
    ) -> int:
        placed = self._parts.delays.stage_delayed(
            NewRecord(
                topic=retry_topic(group),
                queue_id=message.queue_id % queues,
                body=message.body_as_stored,
                properties=retry_properties(properties, origin),
                flag=message.flag,
                sys_flag=message.sys_flag & ~NOT_COPIED,
                born_timestamp_ms=message.born_at_ms,
                born_host=message.born_host,
                reconsume_times=message.reconsume_times + 1,
                body_crc=message.body_crc,
            ),
            self._parts.clock.now_ms() + min(delay_ms, self._delay_ms_max),
        )
        self.retried += 1
        return placed.end

    def _give_up(self, message: StoredMessage, properties: dict[str, str], origin: Origin, request: SendBack) -> int:
        placed: Placed = self._parts.store.stage_record(
            NewRecord(
                topic=dead_letter_topic(request.group),
                queue_id=0,
                body=message.body_as_stored,
                properties=dead_letter_properties(properties, origin, request.reason),
                flag=message.flag,
                sys_flag=message.sys_flag & ~NOT_COPIED,
                born_timestamp_ms=message.born_at_ms,
                born_host=message.born_host,
                reconsume_times=min(message.reconsume_times + request.handled, RETRIES_MAX_MAX),
                body_crc=message.body_crc,
            )
        )
        self.given_up += 1
        return placed.end

    def _check_group(self, group: str) -> None:
        if group not in self._parts.state.group_table.documents:
            check_group(group)
            if not self._parts.config.auto_create_groups:
                raise GroupNotFound(group)

    def _stage_state(self, group: str, topic: TopicConfig | None) -> None:
        """Creates the group and the target topic if they are missing. Before the message: a delayed message older than its
        topic is not delivered."""
        state, store = self._parts.state, self._parts.store
        if group not in state.group_table.documents:
            state.stage(store, GROUPS, state.group_table.event_set(group))
        if topic is not None:
            state.stage(store, TOPICS, state.topic_table.event_set(topic))


def _pulled_record(physical_offset: PhysicalOffset, pulled: bytes) -> StoredMessage:
    """Raises MessageIllegal (not the message of that place), CorruptRecordError (its body was damaged when it was pulled)."""
    try:
        message = decode_record(pulled)
    except CorruptRecordError as error:
        raise MessageIllegal(f"the payload is not a valid record: {error}") from error
    if message.physical_offset != physical_offset:
        raise MessageIllegal(f"the payload is not the record that was at physical offset {physical_offset}")
    if not message.body_crc_matches:
        raise CorruptRecordError(physical_offset, message.size_bytes, "body checksum")
    return message


def _message_of(record: StoredMessage, queue_offset: int) -> StoredMessage:
    """The message at this queue offset, if the record holds a batch. Raises MessageNotFound."""
    if not record.sys_flag & INNER_BATCH:
        return record
    for message in decode_batch(record.record):
        if message.queue_offset == queue_offset:
            return message
    raise MessageNotFound(f"queue offset {queue_offset} in the batch at physical offset {record.physical_offset}")
