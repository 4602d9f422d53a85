"""The dead letter of a pop group: a copy of the message that also says, in the log, which lease it ends. Pure.

Its prepared transaction offset is -1 - LEASE (broker/waiting/ends), so that whoever reads the log looks at it; its property
POP_LEASE is "topic queue-id queue-offset". So no crash lies between the copy and the end of the message in its own queue.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.names import DEAD_LETTER_PREFIX
from ...model.properties import POP_LEASE
from ...model.redelivery import Origin, dead_letter_properties, dead_letter_topic
from ...record.kernel import StoredMessage, decode_batch
from ...record.new_record import NewRecord
from ...record.sys_flag import NOT_COPIED
from ...store.queues.dispatch import Run
from ..state.retry_policy import RETRIES_MAX_MAX
from ..waiting.ends import LEASE


def dead_letter(message: StoredMessage, group: str, attempts: int, reason: str) -> NewRecord:
    """The record to be stored among the group's dead letters. `attempts`: how often it was handed out. Raises
    MessageTooLarge."""
    origin = Origin(message.topic, message.offset_message_id)
    properties = dead_letter_properties(message.properties, origin, reason)
    lease = f"{message.topic} {message.queue_id} {message.queue_offset}"
    return NewRecord(
        topic=dead_letter_topic(group),
        queue_id=0,
        body=message.body_as_stored,
        properties={**properties, POP_LEASE: lease},
        flag=message.flag,
        sys_flag=message.sys_flag & ~NOT_COPIED,
        born_timestamp_ms=message.born_at_ms,
        born_host=message.born_host,
        reconsume_times=min(message.reconsume_times + attempts, RETRIES_MAX_MAX),
        prepared_transaction_offset=-1 - LEASE,
        body_crc=message.body_crc,
    )


def leases_ended_by(run: Run) -> Iterator[tuple[tuple[str, str, int], int]]:
    """((group, topic, queue id), queue offset) of what dead letters among these records end."""
    group = run.topic.removeprefix(DEAD_LETTER_PREFIX)
    for message in decode_batch(bytes(run.records)):
        words = message.properties.get(POP_LEASE, "").split(" ")
        if message.prepared_transaction_offset == -1 - LEASE and len(words) == 3:
            topic, queue_id, offset = words
            if queue_id.isdecimal() and offset.isdecimal():
                yield (group, topic, int(queue_id)), int(offset)
