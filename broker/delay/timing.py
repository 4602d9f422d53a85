"""When a message is to be delivered, from what its sender set or from what a waiting record says. Pure.

    sender      DELAY level | TIMER_DELAY_MS | TIMER_DELAY_SEC | TIMER_DELIVER_MS      (the first that is set counts)
    waits       the same record in topic rmq_sys_wheel_timer, with REAL_TOPIC, REAL_QID, TIMER_OUT_MS = TIMER_DELIVER_MS
    delivered   the record in its real topic, without these; TIMER_OUT_MS stays: when it was to be delivered

RocketMQ's TIMER_OUT_MS is always before TIMER_DELIVER_MS (it rounds down to whole seconds, and a whole second to the one
before). So equal values mean a record of ours. Whatever ends its wait names it, if we wrote that. No record names one that
RocketMQ wrote, or one of ours that RocketMQ delivered while it had the store; for those the copy must be searched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...model.errors import InvalidParameter
from ...model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from ...model.properties import (
    DELAY_LEVEL,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SEQUENCE,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELETES,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQUE_KEY,
)

RECALL_TAG: Final = "_RECALL_TAG_"
RECALL_BODY: Final = b"0"

SAID_BY_SENDER: Final = (DELAY_LEVEL, TIMER_DELAY_MS, TIMER_DELAY_SECONDS, TIMER_DELIVER_MS)
WAITING_NAMES: Final = frozenset(name.encode() for name in (*SAID_BY_SENDER, REAL_TOPIC, REAL_QUEUE_ID, TIMER_OUT_MS))
"""The properties that a record must not have before it begins to wait."""
NOT_DELIVERED: Final = (WAITING_NAMES - {TIMER_OUT_MS.encode()}) | {SEQUENCE.encode()}
"""The properties that its copy in the real topic does not get."""

NOT_HANDED_OVER: Final = frozenset(name.encode() for name in (DELAY_LEVEL, SEQUENCE, TIMER_OUT_MS))
"""The properties of a waiting record that its copy for RocketMQ does not get: RocketMQ would delay by the level again, and
the copy would count in the producer's sequence.
"""

_NUMBER_LENGTH_MAX: Final = 18
_ROCKETMQ_STEP_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class DelayRules:
    """`levels_ms`: the delays of levels 1, 2, ... `delay_ms_max`: the longest delay."""

    levels_ms: tuple[int, ...]
    delay_ms_max: int

    def check(self, deliver_at_ms: int, now_ms: int) -> int:
        """Returns `deliver_at_ms`. Raises InvalidParameter if it is beyond the limit."""
        if deliver_at_ms - now_ms > self.delay_ms_max:
            raise InvalidParameter("deliver_at_ms", deliver_at_ms, f"at most {self.delay_ms_max} ms from now")
        return deliver_at_ms

    def deliver_at(self, properties: Mapping[str, str], now_ms: int) -> int:
        """The delivery time of a message with these properties, ms since the epoch; if it is not after `now_ms`, at once.

        Raises InvalidParameter: beyond the limit, no such level, not a number.
        """
        for name in SAID_BY_SENDER:
            if name in properties:
                value = _number(name, properties[name])
                return self.check(self._deliver_at(name, value, now_ms), now_ms)
        return now_ms

    def _deliver_at(self, name: str, value: int, now_ms: int) -> int:
        if name == DELAY_LEVEL:
            if value > len(self.levels_ms):
                raise InvalidParameter("delay_level", value, f"1 to {len(self.levels_ms)}, or 0 for none")
            return now_ms + (self.levels_ms[value - 1] if value else 0)
        if name == TIMER_DELIVER_MS:
            return value
        return now_ms + (value if name == TIMER_DELAY_MS else value * 1000)

    def level_delay_ms(self, queue_id: int) -> int:
        """How long a message in a queue of RocketMQ's schedule topic waits after it was stored."""
        return self.levels_ms[min(queue_id, len(self.levels_ms) - 1)]


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_LENGTH_MAX):
        raise InvalidParameter(name, text[:64], "a number, not negative")
    return int(text)


def waiting_properties(topic: str, queue_id: int, deliver_at_ms: int) -> dict[str, str]:
    """The properties that a waiting record of ours has in addition to its message's own."""
    return {
        REAL_TOPIC: topic,
        REAL_QUEUE_ID: str(queue_id),
        TIMER_DELIVER_MS: str(deliver_at_ms),
        TIMER_OUT_MS: str(deliver_at_ms),
    }


def rocketmq_out_ms(deliver_at_ms: int) -> int:
    """The whole second before a delivery time: RocketMQ's TIMER_OUT_MS for it."""
    return (deliver_at_ms - 1) // _ROCKETMQ_STEP_MS * _ROCKETMQ_STEP_MS


def handed_out_ms(topic: str, properties: Mapping[str, str], due_ms: int, read_ms: int) -> int:
    """The TIMER_OUT_MS with which RocketMQ delivers a record of `topic` that waits until `due_ms`, if it continues reading
    its wheel at `read_ms` (a whole second). The value in a record of RocketMQ's is a whole second already and stays.
    """
    is_rounded = topic == TIMER_TOPIC and not is_ours(properties) and due_ms % _ROCKETMQ_STEP_MS == 0
    return max(due_ms if is_rounded else rocketmq_out_ms(due_ms), read_ms)


def rocketmq_read_ms(now_ms: int) -> int:
    """The current whole second."""
    return now_ms // _ROCKETMQ_STEP_MS * _ROCKETMQ_STEP_MS


def recall_properties(topic: str, message_id: str, deliver_at_ms: int) -> dict[str, str]:
    """The properties of the record that recalls a message, as RocketMQ has them.

    A RocketMQ broker may read our store: it looks for TIMER_OUT_MS in every record of this topic, and for the message in
    the second of that time.
    """
    return {
        TIMER_DELETES: f"{topic}+{message_id}",
        TIMER_DELIVER_MS: str(deliver_at_ms + 1),
        TIMER_OUT_MS: str(rocketmq_out_ms(deliver_at_ms + 1)),
        UNIQUE_KEY: message_id,
        "TAGS": RECALL_TAG,
    }


def due_of(topic: str, properties: Mapping[str, str], schedule_due_ms: int) -> int | None:
    """When a record of one of the two topics is due; None if it does not wait. `schedule_due_ms`: in the schedule topic."""
    if topic == SCHEDULE_TOPIC:
        return schedule_due_ms
    text = properties.get(TIMER_OUT_MS, "")
    if topic != TIMER_TOPIC or TIMER_DELETES in properties or not (text.isascii() and text.isdigit()):
        return None
    return int(text) if len(text) <= _NUMBER_LENGTH_MAX else None


def is_ours(properties: Mapping[str, str]) -> bool:
    """Whether we wrote this waiting record, not RocketMQ."""
    return properties.get(TIMER_OUT_MS) == properties.get(TIMER_DELIVER_MS)
