"""The workers that run a push consumer's handler (threads, or tasks of an event loop), its arguments and its answers."""

from __future__ import annotations

import enum
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final, cast

from ....model.errors import InvalidParameter, WrongAnswer
from ....model.names import RETRY_PREFIX
from ....model.properties import RETRY_TOPIC
from ....record.kernel import StoredMessage
from ...connection.waiting import Waits
from .queues import Delivery, Failure

log = logging.getLogger(__name__)

GIVEN_UP_MAX: Final = 64
REASON_LENGTH_MAX: Final = 1024
ANSWER_LENGTH_MAX: Final = 200


class ConsumeResult(enum.Enum):
    """The outcome of handling messages.

    SUCCESS: done. RETRY: not now, later again. DEAD_LETTER: never again, set them aside.
    """

    SUCCESS = "SUCCESS"
    RETRY = "RETRY"
    DEAD_LETTER = "DEAD_LETTER"


Handler = Callable[[list[StoredMessage]], ConsumeResult | None]
"""Called in a thread of the consumer; None = SUCCESS, an exception = RETRY."""

Handle = Callable[[list[StoredMessage]], Coroutine[Any, Any, ConsumeResult | None]]
"""Runs a handler in the way of its consumer; returns and raises what it does, and WrongAnswer."""


class Worker:
    """One worker.

    `delivery`: what its handler has now, set by the worker itself. `is_given_up`: it ends after that delivery.
    """

    __slots__ = ("delivery", "is_given_up")

    def __init__(self) -> None:
        self.delivery: Delivery | None = None
        self.is_given_up = False


class HandlerPool:
    """As many workers as handlers may run at a time. The owner's lock guards everything except `start`."""

    def __init__(self, waits: Waits, name: str, size: int, work: Callable[[Worker], Coroutine[Any, Any, None]]) -> None:
        """`work` is a worker's whole life: it takes deliveries until the owner ends or the worker is given up."""
        self._waits = waits
        self._name = name
        self._size = size
        self._work = work
        self._workers: set[Worker] = set()
        self._given_up = 0
        self._serial = 0

    def start(self) -> None:
        """Starts the workers."""
        for _ in range(self._size):
            self._start_one()

    def give_up(self, delivery: Delivery) -> None:
        """The handler of this delivery took too long: another worker replaces its own, however long it still runs.

        Only a limited number of workers that hang for good are replaced; then the pool shrinks.
        """
        for worker in self._workers:
            if worker.delivery is delivery and not worker.is_given_up:
                worker.is_given_up = True
                self._given_up += 1
                if self._given_up <= GIVEN_UP_MAX:
                    self._start_one()
                else:
                    log.error(
                        "a handler hangs and is not replaced any more pool=%s hanging=%d", self._name, self._given_up
                    )
                return

    def on_end(self, worker: Worker) -> None:
        """The worker has ended."""
        self._workers.discard(worker)
        self._given_up -= worker.is_given_up

    def _start_one(self) -> None:
        worker = Worker()
        self._workers.add(worker)
        self._serial += 1
        self._waits.start(lambda: self._work(worker), f"{self._name}-{self._serial}")


# ---- handlers and their answers


def messages_of(delivery: Delivery) -> list[StoredMessage]:
    """The messages as the handler sees them: one that was sent back has its own topic again, and its number of tries."""
    messages = list(cast(Iterable[StoredMessage], delivery.messages))
    if not delivery.attempt and not delivery.process.name.topic.startswith(RETRY_PREFIX):
        return messages
    return [message.tried_again(message.properties.get(RETRY_TOPIC), delivery.attempt) for message in messages]


def check_handler(handler: Callable[..., object], *, may_wait: bool) -> str:
    """The name of a handler that can be called with a list of messages. `may_wait`: it may be a coroutine function.

    Raises InvalidParameter.
    """
    name = _name_of(handler)
    if not callable(handler):
        raise InvalidParameter("handler", name, "a callable that takes a list of messages")
    forms = (handler, getattr(handler, "__call__", None))  # noqa: B004  # for an object, its method
    if any(map(inspect.isgeneratorfunction, forms)) or any(map(inspect.isasyncgenfunction, forms)):
        raise InvalidParameter(
            "handler", name, "a function that returns its answer: this one yields, so it would not run"
        )
    if not may_wait and any(map(inspect.iscoroutinefunction, forms)):
        raise InvalidParameter("handler", name, "a plain function; an `async def` is for zenitmq.aio.PushConsumer")
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        return name  # written in C: its arguments are unknown
    try:
        signature.bind([])
    except TypeError as error:
        raise InvalidParameter("handler", name, f"a callable that takes one list of messages: {error}") from None
    return name


def _name_of(handler: object) -> str:
    inner = handler.func if isinstance(handler, partial) else handler
    return str(getattr(inner, "__qualname__", None) or type(inner).__qualname__)[:REASON_LENGTH_MAX]


def checked_answer(handler: str, answer: object) -> ConsumeResult | None:
    """What a handler returned. Raises WrongAnswer if it is not an answer."""
    if answer is None or isinstance(answer, ConsumeResult):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()  # avoids the warning that it was never awaited
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
    """What an exception of the handler means."""
    if isinstance(error, WrongAnswer):
        return Failure(str(error), is_mistake=True)
    try:
        text = str(error)
    except Exception as wrong:  # noqa: BLE001  # the class is the user's
        text = f"its text cannot be had, {type(wrong).__name__}"
    # The text travels as UTF-8, which cannot hold everything, for instance a file name that is not UTF-8.
    told = f"{type(error).__name__}: {text}"[:REASON_LENGTH_MAX].encode(errors="backslashreplace").decode()
    return Failure(told[:REASON_LENGTH_MAX])
