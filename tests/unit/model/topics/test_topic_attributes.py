"""Which attributes a topic may have."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidParameter
from zenitmq.model.topics.topic_attributes import check_attribute


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "COMPACTION"),
        ("queue.type", "BatchCQ"),
        ("message.type", "FIFO"),
        ("reserve.time", "-1"),
        ("lite.topic.expiration", "30"),
        ("owner", "shop"),
        ("note", "x"),
        ("created_by", "a script"),
        ("größe", "klein"),
    ],
)
def test_known_settings_and_texts_of_the_users_own_are_taken(name: str, value: str) -> None:
    check_attribute(name, value)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("cleanup.polcy", "cleanup.policy"),
        ("cleanup_policy", "cleanup.policy"),
        ("Cleanup.Policy", "cleanup.policy"),
        ("queueType", "queue.type"),
        ("queue.typ", "queue.type"),
        ("message-type", "message.type"),
        ("reserve.tme", "reserve.time"),
        ("lite.expiration", "lite.topic.expiration"),
    ],
)
def test_a_slip_is_refused_with_the_nearest_name(name: str, nearest: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        check_attribute(name, "COMPACTION")
    assert f"attribute = '{name}': expected {nearest}, which it resembles" in str(refused.value)


@pytest.mark.parametrize("name", ["retention.ms", "a.b", "." * 1000])
def test_a_setting_that_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(InvalidParameter, match=r"expected one of cleanup\.policy, .* without a dot"):
        check_attribute(name, "1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact"),
        ("queue.type", "batch"),
        ("message.type", "x" * 1000),
        ("", "x"),
        ("n", "x" * 1024),
    ],
)
def test_a_wrong_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        check_attribute(name, value)
    assert len(str(refused.value)) < 300
