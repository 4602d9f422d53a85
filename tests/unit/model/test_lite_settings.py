"""What is set of lite topics: at the parent, and at the groups that receive from it."""

from __future__ import annotations

import pytest

from zenitmq.broker.state.group_table import group_document
from zenitmq.model.errors import InvalidParameter
from zenitmq.model.topics.lite_settings import (
    EXPIRATION,
    LiteGroup,
    check_group_attribute,
    check_topic_attribute,
    expiration_ms,
    is_lite_parent,
    lite_group,
)


@pytest.mark.parametrize(("minutes", "expected"), [("15", 900_000), ("43200", 43_200 * 60_000), ("-1", None)])
def test_an_expiration_is_minutes_or_never(minutes: str, expected: int | None) -> None:
    check_topic_attribute(EXPIRATION, minutes)
    assert expiration_ms({EXPIRATION: minutes}) == expected


@pytest.mark.parametrize("minutes", ["", "0", "-2", "43201", "1.5", "1 day", "٣", "99999999999"])
def test_a_wrong_expiration_is_refused_by_name(minutes: str) -> None:
    with pytest.raises(InvalidParameter, match=EXPIRATION):
        check_topic_attribute(EXPIRATION, minutes)


def test_nothing_said_means_never() -> None:
    assert expiration_ms({}) is None


@pytest.mark.parametrize(("kind", "expected"), [("LITE", True), ("NORMAL", False), ("lite", False)])
def test_the_type_says_whether_a_topic_has_lite_topics(kind: str, expected: bool) -> None:
    assert is_lite_parent({"message.type": kind}) is expected
    assert not is_lite_parent({})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lite.sub.model", "shared"),
        ("lite.sub.client.quota", "0"),
        ("lite.sub.client.quota", "many"),
        ("lite.bind.topic", "no topic"),
    ],
)
def test_a_wrong_setting_of_a_group_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        check_group_attribute(name, value)
    with pytest.raises(InvalidParameter, match=name):
        group_document("g", ((name, value),))


def test_a_groups_settings_are_kept_among_its_attributes() -> None:
    document = group_document("g", (("lite.sub.model", "Exclusive"), ("lite.bind.topic", "chats")))
    document = group_document("g", (("lite.sub.client.quota", "100000"),), document)
    assert lite_group(document["attributes"]) == LiteGroup("chats", True, 100_000)
    assert lite_group({}) == LiteGroup("", False, 2000)
    assert lite_group({"lite.sub.client.quota": "x"}) == LiteGroup()
