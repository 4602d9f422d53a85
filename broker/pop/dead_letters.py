"""The dead letter of a pop group: a copy of the message that also says, in the log, which lease it ends. Pure.

Its prepared transaction offset is -1 - LEASE (broker/waiting/ends), so that whoever reads the log looks at it; its property
POP_LEASE is "topic queue-id queue-offset", with " begin pop-ms" behind it, the name of its check point, where it was leased.
So no crash lies between the copy and the end of the message in its own queue.
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
from ..state.pop_queue import Name
from ..state.retry_policy import RETRIES_MAX_MAX
from ..waiting.ends import LEASE


def dead_letter(
    message: StoredMessage, key: tuple[str, str, int], offset: int, attempts: int, reason: str, name: Name | None = None
) -> NewRecord:
    """The record to be stored among the group's dead letters. `key`, `offset`: the queue that it was popped from, and its
    offset there; `attempts`: how often it was handed out; `name`: of its check point, if it is leased. Raises
    MessageTooLarge."""
    group, topic, queue_id = key
    origin = Origin(message.topic, message.offset_message_id)
    properties = dead_letter_properties(message.properties, origin, reason)
    lease = " ".join(map(str, (topic, queue_id, offset, *(name or ()))))
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


def leases_ended_by(run: Run) -> Iterator[tuple[tuple[str, str, int], int, Name | None]]:
    """((group, topic, queue id), queue offset, name of the check point or None) of what dead letters among these records
    end."""
    group = run.topic.removeprefix(DEAD_LETTER_PREFIX)
    for message in decode_batch(bytes(run.records)):
        topic, *words = message.properties.get(POP_LEASE, "").split(" ")
        is_ours = message.prepared_transaction_offset == -1 - LEASE
        if is_ours and len(words) in (2, 4) and all(word.isascii() and word.isdecimal() for word in words):
            queue_id, offset, *name = map(int, words)
            yield (group, topic, queue_id), offset, (name[0], name[1]) if name else None
