"""The pins of a query with delivery=dedup at the brokers, for each topic: its queues, and its last batch. Pure.

The *pin* of a query says to which queues its rows go, so that a repeated batch goes to the same ones even if the topic got
more queues meanwhile. It says which batch was begun last, by which attempt, and where each queue ended just before. All
that an earlier attempt wrote of that batch is behind these offsets, so it can be read and compared. A pin is replaced at
each batch; of two pins the one of the higher batch counts (`version`), and within a batch the first.

The *finish* of a query says which batch was completely written last, and its number of rows. No new rows of such a batch
are accepted: another attempt has already continued behind it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...model.errors import StoreFormatError
from ...model.queue import MessageQueue
from ..reading.offsets import OFFSET_MAX, QueueKey

NO_BATCH: Final = -1


@dataclass(frozen=True, slots=True)
class Pin:
    """`batch`: begun last, by `attempt`; NO_BATCH if the pin has none.

    `begins`: per queue an offset below which there is nothing of that batch. `lives`: the topic's incarnation at each
    broker; a missing one is not known.
    """

    queues: tuple[MessageQueue, ...]
    batch: int = NO_BATCH
    attempt: str = ""
    begins: tuple[int, ...] = ()
    lives: tuple[tuple[str, int], ...] = ()


def pin_name(identity: str, topic: str) -> str:
    """The name under which the brokers store a pin (zenit query-offsets list)."""
    return f"{identity}/sink/{topic}"


def finish_name(identity: str, topic: str | None) -> str:
    """The name under which the brokers store the finish.

    `topic`: of a batch outside a stream, which may be written to several topics one after another; None: all topics of the
    query.
    """
    return f"{identity}/finished" if topic is None else f"{identity}/finished/{topic}"


@dataclass(frozen=True, slots=True)
class Finish:
    """`batch`: completely written last, with so many `rows`; NO_BATCH if none was."""

    batch: int = NO_BATCH
    rows: int = 0


def finish_text(finish: Finish) -> str:
    """Encodes a finish for the brokers."""
    return json.dumps({"version": finish.batch + 1, "rows": finish.rows}, separators=(",", ":"))


def parse_finish(name: str, text: str | None) -> Finish:
    """Decodes a finish; None: there is none. Raises StoreFormatError."""
    if text is None:
        return Finish()
    try:
        document = json.loads(text)
        return Finish(int(document["version"]) - 1, int(document["rows"]))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise StoreFormatError("finished batch", f"{name}: {text[:200]}") from error


def begun(
    queues: Sequence[MessageQueue],
    batch: int,
    attempt: str,
    ends: Mapping[QueueKey, int],
    lives: Mapping[tuple[str, str], int],
) -> Pin:
    """The pin of a batch that begins now. `ends`: of each queue; one that is not in it begins with its first row."""
    begins = tuple(ends.get(queue_key(queue), 0) for queue in queues)
    brokers = sorted({(queue.topic, queue.broker_name) for queue in queues})
    known = tuple((broker, lives[topic, broker]) for topic, broker in brokers if (topic, broker) in lives)
    return Pin(tuple(queues), batch, attempt, begins, known)


def queue_key(queue: MessageQueue) -> QueueKey:
    """A queue as a QueueKey."""
    return QueueKey(queue.topic, queue.broker_name, queue.queue_id)


def pin_text(pin: Pin) -> str:
    """Encodes a pin for the brokers."""
    document: dict[str, Any] = {"queues": [[queue.broker_name, queue.queue_id] for queue in pin.queues]}
    if pin.batch != NO_BATCH:
        document |= {
            "version": pin.batch + 1,
            "attempt": pin.attempt,
            "begins": list(pin.begins),
            "incarnations": dict(pin.lives),
        }
    return json.dumps(document, separators=(",", ":"))


def parse_pin(topic: str, text: str) -> Pin:
    """Decodes a pin; one with queues only is from an older version. Raises StoreFormatError."""
    try:
        document = json.loads(text)
        queues = tuple(
            MessageQueue(topic, str(broker_name), int(queue_id)) for broker_name, queue_id in document["queues"]
        )
        batch = int(document.get("version", 0)) - 1
        begins = tuple(int(offset) for offset in document.get("begins", ()))
        lives = tuple((str(broker), int(life)) for broker, life in document.get("incarnations", {}).items())
        pin = Pin(queues, batch, str(document.get("attempt", "")), begins, lives)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise StoreFormatError("pinned queues", f"of topic {topic}: {text[:200]}") from error
    if not queues:
        raise StoreFormatError("pinned queues", f"of topic {topic}: none")
    if batch != NO_BATCH and (len(begins) != len(queues) or not all(0 <= offset <= OFFSET_MAX for offset in begins)):
        raise StoreFormatError("pinned queues", f"of topic {topic}: no place for each of them: {text[:200]}")
    return pin
