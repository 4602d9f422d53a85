"""What a handler is given, and what its answer means; what a push consumer may be asked to be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from zenitmq.client.consuming.push.handler_pool import (
    REASON_LENGTH_MAX,
    ConsumeResult,
    check_handler,
    checked_answer,
    failure_of,
    failure_of_error,
    messages_of,
)
from zenitmq.client.consuming.push.member import PushSettings
from zenitmq.client.consuming.push.process_queue import FlowLimits, ProcessQueue
from zenitmq.client.consuming.push.queues import Delivery, Failure
from zenitmq.model.errors import InvalidName, InvalidParameter, WrongAnswer
from zenitmq.model.queue import MessageQueue
from zenitmq.model.subscription import BROADCASTING, Subscription
from zenitmq.record.kernel import StoredMessage, decode_batch, encode_record


def delivery_of(topic: str, attempt: int, properties: bytes = b"", times: int = 0) -> Delivery:
    process = ProcessQueue(MessageQueue(topic, "x", 0), Subscription.parse(topic), committed=0, now_ms=0)
    record = encode_record(topic=topic.encode(), body=b"b", properties=properties, reconsume_times=times)
    return Delivery(process, decode_batch(record, "x"), attempt, 0)


def test_a_message_is_seen_under_the_topic_it_first_had() -> None:
    (plain,) = messages_of(delivery_of("t", 0))
    assert (plain.topic, plain.reconsume_times) == ("t", 0)
    (again,) = messages_of(delivery_of("t", 2))
    assert (again.topic, again.reconsume_times) == ("t", 2)
    (back,) = messages_of(delivery_of("%RETRY%g", 0, b"RETRY_TOPIC\x01t\x02", times=3))
    assert (back.topic, back.reconsume_times, back.queue) == ("t", 3, MessageQueue("%RETRY%g", "x", 0))
    (unnamed,) = messages_of(delivery_of("%RETRY%g", 1, times=3))
    assert (unnamed.topic, unnamed.reconsume_times) == ("%RETRY%g", 4)


def test_what_a_handler_may_say() -> None:
    assert failure_of(None) is None
    assert failure_of(ConsumeResult.SUCCESS) is None
    retry, aside = failure_of(ConsumeResult.RETRY), failure_of(ConsumeResult.DEAD_LETTER)
    assert retry is not None
    assert not retry.is_final
    assert aside is not None
    assert aside.is_final
    assert failure_of_error(SystemExit(3)) == Failure("SystemExit: 3")
    assert len(failure_of_error(ValueError("x" * 5000)).reason) == REASON_LENGTH_MAX


class Handles:
    """Objects that are called: their method is what is looked at."""

    async def __call__(self, messages: list[StoredMessage]) -> None: ...


async def waits(messages: list[StoredMessage]) -> None: ...


def yields(messages: list[StoredMessage]) -> Iterator[None]:
    yield


async def yields_and_waits(messages: list[StoredMessage]) -> AsyncIterator[None]:
    yield


def takes_two(key: str, messages: list[StoredMessage]) -> None: ...


@pytest.mark.parametrize("may_wait", [False, True])
@pytest.mark.parametrize(
    "wrong", [None, 5, yields, yields_and_waits, partial(yields), takes_two, lambda: None, partial(takes_two, "k", [])]
)
def test_a_handler_that_cannot_be_right_is_refused(wrong: Any, may_wait: bool) -> None:
    with pytest.raises(InvalidParameter):
        check_handler(wrong, may_wait=may_wait)


@pytest.mark.parametrize("handler", [waits, Handles(), partial(waits)])
def test_a_coroutine_function_is_for_the_asyncio_class(handler: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"zenitmq\.aio\.PushConsumer"):
        check_handler(handler, may_wait=False)
    assert check_handler(handler, may_wait=True) in ("waits", "Handles")


@pytest.mark.parametrize("handler", [print, [].append, lambda *_: None, partial(takes_two, "k"), Mock()])
def test_what_may_be_right_is_taken(handler: Any) -> None:
    assert check_handler(handler, may_wait=False)


def test_a_wrong_answer_names_handler_and_value() -> None:
    assert checked_answer("handle", None) is None
    assert checked_answer("handle", ConsumeResult.RETRY) is ConsumeResult.RETRY
    for wrong in (True, "SUCCESS", iter([])):
        with pytest.raises(WrongAnswer, match="handle") as caught:
            checked_answer("handle", wrong)
        assert repr(wrong) in str(caught.value)
        assert failure_of_error(caught.value).is_mistake
    with pytest.raises(WrongAnswer) as caught:
        checked_answer("handle", "x" * 5000)
    assert len(str(caught.value)) < 500
    with pytest.raises(WrongAnswer, match=r"zenitmq\.aio"):
        checked_answer("handle", waits([]))  # and no warning that it was not awaited


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "CLUSTERING"},
        {"ordered": True, "model": BROADCASTING},
        {"flow": 1000},
        {"concurrency": 0},
        {"concurrency": 1025},
        {"batch_size": 0},
        {"prefetch_bytes": 0},
        {"max_attempts": 0},
        {"consume_timeout": 0},
        {"suspend": -1.0},
        {"commit_interval": 1e9},
        {"timeout": float("nan")},
        {"start_from": datetime(2026, 1, 1)},  # noqa: DTZ001  # that is what is wrong with it
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        PushSettings(group="g", **wrong)  # type: ignore[arg-type]


def test_a_reason_may_travel_whatever_the_exception_says() -> None:
    """Else the message could not be sent back: it would be handled again here for ever, and its queue go no further."""
    reason = failure_of_error(FileNotFoundError(2, "No such file", "caf\udce9.txt")).reason
    assert reason.encode() == b"FileNotFoundError: [Errno 2] No such file: 'caf\\udce9.txt'"
    assert failure_of_error(ValueError("caf\udce9")).reason == "ValueError: caf\\udce9"
    assert len(failure_of_error(ValueError("\udce9" * REASON_LENGTH_MAX)).reason) == REASON_LENGTH_MAX


def test_an_exception_that_cannot_be_told_is_a_failure_like_any_other() -> None:
    class Wrong(Exception):
        def __str__(self) -> str:
            raise AttributeError("it has no text")

    assert failure_of_error(Wrong()).reason == "Wrong: its text cannot be had, AttributeError"


def test_names_and_limits_are_checked() -> None:
    with pytest.raises(InvalidName):
        PushSettings(group="a/b")
    for name in ("messages", "size_bytes", "span"):
        with pytest.raises(InvalidParameter):
            FlowLimits(**{name: 0})


def test_settings_in_milliseconds() -> None:
    settings = PushSettings(
        group="g", max_attempts=3, suspend=0.5, consume_timeout=2.0, timeout=1.5, commit_interval=0.1, batch_size=4
    )
    rules = settings.rules()
    assert (rules.max_attempts, rules.suspend_ms, rules.consume_timeout_ms, rules.batch_size) == (3, 500, 2000, 4)
    assert (settings.timeout_ms, settings.commit_ms, settings.is_broadcasting) == (1500, 100, False)
    assert PushSettings(group="g", model=BROADCASTING).rules().is_broadcasting
    assert PushSettings(group="g").rules().max_attempts == 0
