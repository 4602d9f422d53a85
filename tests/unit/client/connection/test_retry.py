"""When a failed request is tried again."""

import pytest

from zenitmq.client.connection.retry import RetryPolicy
from zenitmq.model.errors import (
    BrokerBusy,
    ConnectionLost,
    MessageIllegal,
    NotMaster,
    RequestTimeout,
    TopicNotFound,
    ZenitError,
)

LOST = ConnectionLost("a:1")


@pytest.mark.parametrize(
    ("error", "tries", "left_ms", "elsewhere", "delay_ms"),
    [
        (MessageIllegal("x"), 1, 3000, True, None),  # cannot pass
        (LOST, 1, 3000, True, 0),  # another broker: at once
        (LOST, 1, 3000, False, 10),
        (LOST, 2, 3000, False, 20),
        (LOST, 30, 3000, False, 500),  # doubles up to its maximum
        (LOST, 1, 0, True, None),  # no time left
        (LOST, 1, 5, False, None),  # nor any behind the pause
        (NotMaster("a", 3), 1, 3000, False, 10),
        (RequestTimeout("x", 5), 1, 3000, True, 0),
        (TopicNotFound("t"), 1, 3000, True, 0),  # the route may have changed: once more
        (TopicNotFound("t"), 2, 3000, True, None),
        (BrokerBusy(200), 1, 3000, False, 200),  # as long as the broker asks for
        (BrokerBusy(60_000), 1, 3000, False, 500),
        (BrokerBusy(200), 1, 3000, True, 0),
    ],
)
def test_delay(error: ZenitError, tries: int, left_ms: int, elsewhere: bool, delay_ms: int | None) -> None:
    assert RetryPolicy().delay_ms(error, tries=tries, left_ms=left_ms, elsewhere=elsewhere) == delay_ms


def test_tries_are_counted_where_they_are_limited() -> None:
    policy = RetryPolicy(tries_max=3)
    assert policy.delay_ms(LOST, tries=2, left_ms=3000, elsewhere=True) == 0
    assert policy.delay_ms(LOST, tries=3, left_ms=3000, elsewhere=True) is None


@pytest.mark.parametrize(
    ("total_ms", "left_ms", "try_ms"),
    [(3000, 3000, 1500), (3000, 400, 400), (1000, 1000, 1000), (30_000, 9000, 3000), (30_000, 0, 1)],
)
def test_one_try_leaves_time_for_another(total_ms: int, left_ms: int, try_ms: int) -> None:
    assert RetryPolicy().try_timeout_ms(total_ms, left_ms) == try_ms


def test_pauses_begin_anew_with_a_route_and_the_limit_of_tries_does_not() -> None:
    policy = RetryPolicy(tries_max=6)
    stale = NotMaster("a", 1)
    pauses = [policy.delay_ms(stale, tries=tries, left_ms=9_000, elsewhere=False) for tries in (1, 2, 5)]
    assert pauses == [10, 20, 160]
    again = [
        policy.delay_ms(stale, tries=tries, left_ms=9_000, elsewhere=False, before_route=3) for tries in (3, 4, 5, 6)
    ]
    assert again == [10, 10, 20, None]
