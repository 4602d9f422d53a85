"""What a push consumer's handler is given, and what its answer means. Pure."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final, cast

from ....model.errors import InvalidParameter, WrongAnswer
from ....model.names import RETRY_PREFIX
from ....model.properties import RETRY_TOPIC
from ....record.kernel import StoredMessage
from .push_queues import Delivery, Failure

REASON_LENGTH_MAX: Final = 1024
ANSWER_LENGTH_MAX: Final = 200


class ConsumeResult(enum.Enum):
    """What became of the messages. SUCCESS: done. RETRY: not now, again later. DEAD_LETTER: never again, put them aside."""

    SUCCESS = "SUCCESS"
    RETRY = "RETRY"
    DEAD_LETTER = "DEAD_LETTER"


Handler = Callable[[list[StoredMessage]], ConsumeResult | None]
"""Called in a thread of the consumer; None = SUCCESS, an exception = RETRY."""

Handle = Callable[[list[StoredMessage]], Coroutine[Any, Any, ConsumeResult | None]]
"""Runs a handler, in whichever way its consumer does; returns and raises what it does, and WrongAnswer."""


def messages_of(delivery: Delivery) -> list[StoredMessage]:
    """The messages as the handler sees them: one that was sent back has its own topic again and says how often."""
    messages = list(cast(Iterable[StoredMessage], delivery.messages))
    if not delivery.attempt and not delivery.process.name.topic.startswith(RETRY_PREFIX):
        return messages
    return [message.tried_again(message.properties.get(RETRY_TOPIC), delivery.attempt) for message in messages]


def check_handler(handler: Callable[..., object], *, may_wait: bool) -> str:
    """The name of a handler that may be called with a list of messages. `may_wait`: it may be a coroutine function.

    Raises InvalidParameter.
    """
    name = _name_of(handler)
    if not callable(handler):
        raise InvalidParameter("handler", name, "a callable that takes a list of messages")
    forms = (handler, getattr(handler, "__call__", None))  # noqa: B004  # an object's method, to be looked at
    if any(map(inspect.isgeneratorfunction, forms)) or any(map(inspect.isasyncgenfunction, forms)):
        raise InvalidParameter(
            "handler", name, "a function that returns its answer: this one yields, so it would not run"
        )
    if not may_wait and any(map(inspect.iscoroutinefunction, forms)):
        raise InvalidParameter("handler", name, "a plain function; an `async def` is for zenitmq.aio.PushConsumer")
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        return name  # written in C: nobody can tell what it takes
    try:
        signature.bind([])
    except TypeError as error:
        raise InvalidParameter("handler", name, f"a callable that takes one list of messages: {error}") from None
    return name


def _name_of(handler: object) -> str:
    inner = handler.func if isinstance(handler, partial) else handler
    return str(getattr(inner, "__qualname__", None) or type(inner).__qualname__)[:REASON_LENGTH_MAX]


def checked_answer(handler: str, answer: object) -> ConsumeResult | None:
    """What a handler returned. Raises WrongAnswer for what is no answer."""
    if answer is None or isinstance(answer, ConsumeResult):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()  # it would complain that nobody has awaited it
        raise WrongAnswer(handler, "a coroutine, which is for zenitmq.aio.PushConsumer")
    raise WrongAnswer(handler, repr(answer)[:ANSWER_LENGTH_MAX])


def failure_of(answer: ConsumeResult | None) -> Failure | None:
    """What a handler's answer means; None = success."""
    if answer is ConsumeResult.RETRY:
        return Failure("the handler asked for another try")
    if answer is ConsumeResult.DEAD_LETTER:
        return Failure("the handler put it aside", is_final=True)
    return None


def failure_of_error(error: BaseException) -> Failure:
    """What it means that the handler raised."""
    if isinstance(error, WrongAnswer):
        return Failure(str(error), is_mistake=True)
    try:
        text = str(error)
    except Exception as wrong:  # noqa: BLE001  # it is the user's class
        text = f"its text cannot be had, {type(wrong).__name__}"
    # It travels as UTF-8, which a name of a file that is none, say, cannot.
    told = f"{type(error).__name__}: {text}"[:REASON_LENGTH_MAX].encode(errors="backslashreplace").decode()
    return Failure(told[:REASON_LENGTH_MAX])
