"""The pins of a query with delivery=dedup at the brokers, for each topic: its queues, and its last batch. Pure.

The *pin* of a query says which queues its rows go to, so that a batch that comes again goes the same ways although the topic
got more queues meanwhile. It says which batch was begun last, by which attempt, and where each queue ended just before: what
an earlier attempt wrote of that batch lies behind these places and nowhere else, so it can be read and compared. A pin is
replaced at each batch; of two the one of the higher batch counts (`version`), and the first one of a batch.

The *finish* of a query says which batch was written whole last, and of how many rows. Of such a batch nothing new may come: it
would be written again by who went on behind it.
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
    """`batch`: begun last, by `attempt`; NO_BATCH where the pin tells of none. `begins`: for each queue an offset below which
    nothing of that batch lies. `lives`: the topic's incarnation at each broker; who is not in it is not known."""

    queues: tuple[MessageQueue, ...]
    batch: int = NO_BATCH
    attempt: str = ""
    begins: tuple[int, ...] = ()
    lives: tuple[tuple[str, int], ...] = ()


def pin_name(identity: str, topic: str) -> str:
    """The name under which a pin is kept (zenit query-offsets list)."""
    return f"{identity}/sink/{topic}"


def finish_name(identity: str, topic: str | None) -> str:
    """The name under which it is kept which batch is written whole. `topic`: of a batch that is not a stream's, which may be
    written to several topics one after another; None: all that the query writes."""
    return f"{identity}/finished" if topic is None else f"{identity}/finished/{topic}"


@dataclass(frozen=True, slots=True)
class Finish:
    """`batch`: written whole last, of so many `rows`; NO_BATCH where none was."""

    batch: int = NO_BATCH
    rows: int = 0


def finish_text(finish: Finish) -> str:
    """As the brokers keep it."""
    return json.dumps({"version": finish.batch + 1, "rows": finish.rows}, separators=(",", ":"))


def parse_finish(name: str, text: str | None) -> Finish:
    """The reverse; None: there is none. Raises StoreFormatError."""
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
    """The pin of a batch that begins now. `ends`: where each queue ends; one that is not in it begins with its first row."""
    begins = tuple(ends.get(queue_key(queue), 0) for queue in queues)
    brokers = sorted({(queue.topic, queue.broker_name) for queue in queues})
    known = tuple((broker, lives[topic, broker]) for topic, broker in brokers if (topic, broker) in lives)
    return Pin(tuple(queues), batch, attempt, begins, known)


def queue_key(queue: MessageQueue) -> QueueKey:
    """A queue, as readers call it."""
    return QueueKey(queue.topic, queue.broker_name, queue.queue_id)


def pin_text(pin: Pin) -> str:
    """A pin as the brokers keep it."""
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
    """The reverse; a pin that tells of queues alone is one that an older version wrote. Raises StoreFormatError."""
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
