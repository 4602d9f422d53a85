"""Numbers and types that make no sense are refused by name where they are given, not as something else later."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq import Admin, InvalidName, InvalidParameter, Message, Producer, PullConsumer, PushConsumer, Sql
from zenitmq.client.connection.argument_checks import SECONDS_MAX, check_count, milliseconds, wait_milliseconds

NOWHERE = "127.0.0.1:1"
ODD: tuple[Any, ...] = (math.nan, math.inf, -math.inf, SECONDS_MAX + 1, "3", None, True)


@pytest.mark.parametrize("value", [-1, 11, 1.5, True, "3", None])
def test_a_count_is_a_whole_number_within_bounds(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="retries"):
        check_count("retries", value, 0, 10)
    assert [check_count("retries", good, 0, 10) for good in (0, 10)] == [0, 10]


def test_times_are_finite_and_bounded() -> None:
    for check in (milliseconds, wait_milliseconds):
        for value in ODD:
            with pytest.raises(InvalidParameter, match="timeout"):
                check("timeout", value)
        assert check("timeout", SECONDS_MAX) == SECONDS_MAX * 1000
    for value in (0, -1, 0.0):
        with pytest.raises(InvalidParameter):
            milliseconds("timeout", value)
        assert wait_milliseconds("timeout", value) == 0  # a deadline that is over already
    assert milliseconds("timeout", 0.0001) == 1


@pytest.mark.parametrize(
    ("client", "wrong"),
    [
        (Producer, {"retries": -1}),
        (Producer, {"retries": 1.5}),
        (Producer, {"compress_over_bytes": -1}),
        (Producer, {"linger_ms": -1}),
        (Producer, {"linger_ms": math.nan}),
        (Producer, {"batch_timeout": math.nan}),
        (Producer, {"timeout": "3"}),
        (PullConsumer, {"timeout": -1}),
        (PullConsumer, {"timeout": math.inf}),
        (PullConsumer, {"auto_commit_interval": math.inf}),
        (PullConsumer, {"auto_commit_interval": -1}),
        (PullConsumer, {"pull_bytes": 1.5e6}),
        (PullConsumer, {"prefetch_bytes": math.inf}),
        (PullConsumer, {"prefetch_bytes": 65_536}),  # less than pull_bytes
        (PushConsumer, {"concurrency": 1.5}),
        (PushConsumer, {"max_attempts": 0}),
        (PushConsumer, {"suspend": math.nan}),
        (Admin, {"timeout": math.nan}),
        (Admin, {"timeout": 0}),
    ],
)
def test_a_client_refuses_them_when_it_is_made(client: Any, wrong: dict[str, Any]) -> None:
    group = () if client is Admin else ("g",)
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        client(*group, namesrv=NOWHERE, **wrong).close()


def test_a_poll_and_a_seek_refuse_them() -> None:
    with PullConsumer("g", namesrv=NOWHERE) as consumer:
        for wrong in ({"max_messages": 0}, {"max_messages": 1.5}, {"timeout": math.nan}):
            with pytest.raises(InvalidParameter, match=next(iter(wrong))):
                consumer.poll(**wrong)
        for offset in (-1, 1 << 63, 0.5):
            with pytest.raises(InvalidParameter, match="offset"):
                consumer.seek(None, offset)  # type: ignore[arg-type]


WRONG_TYPES: dict[str, Callable[[Any, Any, Any], object]] = {
    "condition": lambda admin, producer, consumer: Sql(5),  # type: ignore[arg-type]
    "expression": lambda admin, producer, consumer: consumer.subscribe("t", ["buy", "sell"]),
    "messages": lambda admin, producer, consumer: producer.send_batch(Message("t", b"")),
    "receipt": lambda admin, producer, consumer: producer.recall(b"its handle"),
    "recall handle": lambda admin, producer, consumer: producer.recall("its handle"),
    "expected name and value as text, as 'retryMaxTimes': '2'": (
        lambda admin, producer, consumer: admin.create_group("g", {"retryMaxTimes": 2})
    ),
    "owner": lambda admin, producer, consumer: admin.create_topic("t", attributes={"owner": None}),
}


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_what_is_of_a_wrong_type_is_refused_by_name(name: str) -> None:
    with (
        Admin(NOWHERE) as admin,
        Producer(namesrv=NOWHERE) as producer,
        PullConsumer("g", namesrv=NOWHERE) as consumer,
        pytest.raises(InvalidParameter, match=name),
    ):
        WRONG_TYPES[name](admin, producer, consumer)


def test_a_group_is_a_text() -> None:
    with pytest.raises(InvalidName, match="group"):
        Producer(5, namesrv=NOWHERE)  # type: ignore[arg-type]
