"""What a push consumer's handler is given, and what its answer means. Pure."""

from __future__ import annotations

import enum
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, cast

from ..model.names import RETRY_PREFIX
from ..model.properties import RETRY_TOPIC
from ..store.record_kernel import StoredMessage
from .push_queues import Delivery, Failure

REASON_LENGTH_MAX: Final = 1024


class ConsumeResult(enum.Enum):
    """What became of the messages. SUCCESS: done. RETRY: not now, again later. DEAD_LETTER: never again, put them aside."""

    SUCCESS = "SUCCESS"
    RETRY = "RETRY"
    DEAD_LETTER = "DEAD_LETTER"


Handler = Callable[[list[StoredMessage]], ConsumeResult | None]
"""Called in a thread of the consumer; None = SUCCESS, an exception = RETRY."""

Handle = Callable[[list[StoredMessage]], Coroutine[Any, Any, object]]
"""Runs a handler, in whichever way its consumer does; returns and raises what it does."""


def messages_of(delivery: Delivery) -> list[StoredMessage]:
    """The messages as the handler sees them: one that was sent back has its own topic again and says how often."""
    messages = list(cast(Iterable[StoredMessage], delivery.messages))
    if not delivery.attempt and not delivery.process.name.topic.startswith(RETRY_PREFIX):
        return messages
    return [message.tried_again(message.properties.get(RETRY_TOPIC), delivery.attempt) for message in messages]


def failure_of(result: object) -> Failure | None:
    """What a handler's answer means; None = success. An answer that is none of ours is a failure, and says so."""
    if result is None or result is ConsumeResult.SUCCESS:
        return None
    if result is ConsumeResult.RETRY:
        return Failure("the handler asked for another try")
    if result is ConsumeResult.DEAD_LETTER:
        return Failure("the handler put it aside", is_final=True)
    return Failure(f"the handler returned {result!r}: expected None or a ConsumeResult"[:REASON_LENGTH_MAX])


def failure_of_error(error: BaseException) -> Failure:
    """What it means that the handler raised."""
    return Failure(f"{type(error).__name__}: {error}"[:REASON_LENGTH_MAX])
