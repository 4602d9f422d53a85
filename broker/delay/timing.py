"""When a message is to be delivered: from what its sender said, and from what a record that waits says. Pure.

    sender      DELAY level | TIMER_DELAY_MS | TIMER_DELAY_SEC | TIMER_DELIVER_MS      (the first that is there counts)
    waits       the same record in topic rmq_sys_wheel_timer, with REAL_TOPIC, REAL_QID, TIMER_OUT_MS = TIMER_DELIVER_MS
    delivered   the record in its real topic, without these; TIMER_OUT_MS stays: when it was to be delivered

RocketMQ writes a TIMER_OUT_MS that is always before TIMER_DELIVER_MS (it rounds down to whole seconds, and whole ones to
the second before), so equal ones tell a record of ours: whatever ends its wait names it, if we wrote that. Of one that
RocketMQ wrote nothing does, nor of one of ours that RocketMQ delivered while it had the store, and its copy has to be
looked for.
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
"""What a record that begins to wait must not have had before."""
NOT_DELIVERED: Final = (WAITING_NAMES - {TIMER_OUT_MS.encode()}) | {SEQUENCE.encode()}
"""What its copy in the real topic does not have."""

NOT_HANDED_OVER: Final = frozenset(name.encode() for name in (DELAY_LEVEL, SEQUENCE, TIMER_OUT_MS))
"""What a record that RocketMQ is to deliver does not have of the one that waited here: it would delay by the level once more,
and its copy would count in the producer's sequence."""

_NUMBER_LENGTH_MAX: Final = 18
_ROCKETMQ_STEP_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class DelayRules:
    """`levels_ms`: what levels 1, 2, ... mean. `delay_ms_max`: how far ahead a delivery may lie."""

    levels_ms: tuple[int, ...]
    delay_ms_max: int

    def check(self, deliver_at_ms: int, now_ms: int) -> int:
        """The time itself. Raises InvalidParameter beyond the limit."""
        if deliver_at_ms - now_ms > self.delay_ms_max:
            raise InvalidParameter("deliver_at_ms", deliver_at_ms, f"at most {self.delay_ms_max} ms from now")
        return deliver_at_ms

    def deliver_at(self, properties: Mapping[str, str], now_ms: int) -> int:
        """When a message with these properties is to be delivered, ms since the epoch; what is not after `now_ms`: at once.

        Raises InvalidParameter: beyond the limit, no such level, no number.
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
        """How long what lies in a queue of RocketMQ's schedule topic waits, from when it was stored."""
        return self.levels_ms[min(queue_id, len(self.levels_ms) - 1)]


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_LENGTH_MAX):
        raise InvalidParameter(name, text[:64], "a number, not negative")
    return int(text)


def waiting_properties(topic: str, queue_id: int, deliver_at_ms: int) -> dict[str, str]:
    """What a record of ours that waits has beside its message's own."""
    return {
        REAL_TOPIC: topic,
        REAL_QUEUE_ID: str(queue_id),
        TIMER_DELIVER_MS: str(deliver_at_ms),
        TIMER_OUT_MS: str(deliver_at_ms),
    }


def rocketmq_out_ms(deliver_at_ms: int) -> int:
    """The whole second before a time to deliver: what RocketMQ makes of it."""
    return (deliver_at_ms - 1) // _ROCKETMQ_STEP_MS * _ROCKETMQ_STEP_MS


def handed_out_ms(topic: str, properties: Mapping[str, str], due_ms: int, read_ms: int) -> int:
    """The TIMER_OUT_MS by which RocketMQ delivers a record of `topic` that waits until `due_ms`, when it goes on reading its
    wheel at `read_ms` (a whole second). What it wrote itself is a whole second already and stays."""
    is_rounded = topic == TIMER_TOPIC and not is_ours(properties) and due_ms % _ROCKETMQ_STEP_MS == 0
    return max(due_ms if is_rounded else rocketmq_out_ms(due_ms), read_ms)


def rocketmq_read_ms(now_ms: int) -> int:
    """The whole second that it is now."""
    return now_ms // _ROCKETMQ_STEP_MS * _ROCKETMQ_STEP_MS


def recall_properties(topic: str, message_id: str, deliver_at_ms: int) -> dict[str, str]:
    """Of the record that takes a message back, as RocketMQ has it: its own broker, which may read our store, looks for
    TIMER_OUT_MS in whatever it finds in this topic, and for the message in the second that this falls into."""
    return {
        TIMER_DELETES: f"{topic}+{message_id}",
        TIMER_DELIVER_MS: str(deliver_at_ms + 1),
        TIMER_OUT_MS: str(rocketmq_out_ms(deliver_at_ms + 1)),
        UNIQUE_KEY: message_id,
        "TAGS": RECALL_TAG,
    }


def due_of(topic: str, properties: Mapping[str, str], schedule_due_ms: int) -> int | None:
    """When a record of one of the two topics is due; None: it waits for nothing. `schedule_due_ms`: in the schedule topic."""
    if topic == SCHEDULE_TOPIC:
        return schedule_due_ms
    text = properties.get(TIMER_OUT_MS, "")
    if topic != TIMER_TOPIC or TIMER_DELETES in properties or not (text.isascii() and text.isdigit()):
        return None
    return int(text) if len(text) <= _NUMBER_LENGTH_MAX else None


def is_ours(properties: Mapping[str, str]) -> bool:
    """Whether we wrote this record that waits, or RocketMQ did."""
    return properties.get(TIMER_OUT_MS) == properties.get(TIMER_DELIVER_MS)
