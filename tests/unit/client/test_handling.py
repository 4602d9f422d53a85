"""What a handler is given, and what its answer means; what a push consumer may be asked to be."""

from __future__ import annotations

from datetime import datetime

import pytest

from zenitmq.client.handling import REASON_LENGTH_MAX, ConsumeResult, failure_of, failure_of_error, messages_of
from zenitmq.client.process_queue import FlowLimits, ProcessQueue
from zenitmq.client.push_queues import Delivery, Failure
from zenitmq.client.push_settings import PushSettings
from zenitmq.model.errors import InvalidName, InvalidParameter
from zenitmq.model.queue import MessageQueue
from zenitmq.model.subscription import BROADCASTING, Subscription
from zenitmq.store.record_kernel import decode_batch, encode_record


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
    retry, aside, other = failure_of(ConsumeResult.RETRY), failure_of(ConsumeResult.DEAD_LETTER), failure_of("x" * 5000)
    assert retry is not None
    assert not retry.is_final
    assert aside is not None
    assert aside.is_final
    assert other is not None
    assert len(other.reason) == REASON_LENGTH_MAX
    assert failure_of_error(SystemExit(3)) == Failure("SystemExit: 3")
    assert len(failure_of_error(ValueError("x" * 5000)).reason) == REASON_LENGTH_MAX


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
