"""RocketMQ's retry rules: the ladder from the third level on, the exponential policy, and when a message is given up."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.broker.state.retry_policy import (
    DELAY_MS_MAX,
    Exponential,
    Ladder,
    backoff_of,
    parse_backoff,
    retries_max_of,
    retry_delay_ms,
)
from zenitmq.model.errors import InvalidParameter

LEVELS_MS = (1_000, 5_000, 10_000, 30_000, 60_000)


@pytest.mark.parametrize(("retries", "expected"), [(0, 10_000), (1, 30_000), (2, 60_000), (3, 60_000), (99, 60_000)])
def test_a_group_follows_the_brokers_levels_from_the_third_on(retries: int, expected: int) -> None:
    assert retry_delay_ms({}, LEVELS_MS, reconsume_times=retries, max_attempts=1000) == expected


def test_a_short_ladder_ends_on_its_last_level() -> None:
    assert Ladder((7,)).delay_ms(0) == 7


def test_a_group_may_have_levels_of_its_own() -> None:
    group = {"groupRetryPolicy": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 3, 4]}}}
    assert [retry_delay_ms(group, LEVELS_MS, reconsume_times=times) for times in range(4)] == [3, 4, 4, 4]


def test_the_exponential_policy_doubles_up_to_two_hours() -> None:
    group = {"groupRetryPolicy": {"type": "EXPONENTIAL"}}
    delays = [retry_delay_ms(group, LEVELS_MS, reconsume_times=times) for times in (0, 1, 2, 10, 15)]
    assert delays == [5_000, 10_000, 20_000, 5_120_000, 7_200_000]
    own = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 10, "max": 50, "multiplier": 3}}
    assert parse_backoff(own, LEVELS_MS) == Exponential(10, 50, 3)


@pytest.mark.parametrize(
    ("group", "times", "max_attempts", "gives_up"),
    [
        ({}, 15, -1, False),
        ({}, 16, -1, True),
        ({"retryMaxTimes": 2}, 1, -1, False),
        ({"retryMaxTimes": 2}, 2, -1, True),
        ({"retryMaxTimes": 2}, 2, 3, False),
        ({}, 0, 0, True),
        ({"retryMaxTimes": "2"}, 2, -1, False),
    ],
)
def test_after_the_last_retry_a_message_is_given_up(
    group: dict[str, Any], times: int, max_attempts: int, gives_up: bool
) -> None:
    delay_ms = retry_delay_ms(group, LEVELS_MS, reconsume_times=times, max_attempts=max_attempts)
    assert (delay_ms is None) == gives_up


def test_a_request_may_name_the_level_or_give_up_at_once() -> None:
    assert retry_delay_ms({}, LEVELS_MS, reconsume_times=4, delay_level=1) == 1_000
    assert retry_delay_ms({}, LEVELS_MS, reconsume_times=0, delay_level=-1) is None


@pytest.mark.parametrize("wrong", [{"delay_level": -2}, {"delay_level": 6}, {"max_attempts": -2}])
def test_a_request_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidParameter):
        retry_delay_ms({}, LEVELS_MS, reconsume_times=0, **wrong)


@pytest.mark.parametrize(
    "policy",
    [
        {"type": "NEVER"},
        {"type": "EXPONENTIAL", "initial": 5},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": 5},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 0}},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 10, "max": 9}},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"multiplier": True}},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"factor": 2}},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": []}},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [DELAY_MS_MAX + 1]}},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": "1s"}},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"then": [1]}},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_and_counts_as_none_where_it_is_found(policy: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        parse_backoff(policy, LEVELS_MS)
    assert backoff_of({"groupRetryPolicy": policy}, LEVELS_MS) == Ladder(LEVELS_MS)


def test_what_rocketmq_leaves_empty_counts_as_the_default() -> None:
    assert parse_backoff({"type": "CUSTOMIZED", "customizedRetryPolicy": None}, LEVELS_MS) == Ladder(LEVELS_MS)
    assert backoff_of({"groupRetryPolicy": None}, LEVELS_MS) == Ladder(LEVELS_MS)
    assert retries_max_of({"retryMaxTimes": -1}) == 16
