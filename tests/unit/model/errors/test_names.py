"""Topic and group names are checked before they touch a path, a route or a record."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.model.errors import InvalidName
from zenitmq.model.names import (
    AUDIT_TOPIC,
    STATE_TOPICS,
    SYSTEM_TOPICS,
    TRACE_TOPIC,
    check_group,
    check_topic,
    is_routed_topic,
    is_system_topic,
    reply_topic,
    retry_topic,
)

BAD_IN_ANY_NAME = [
    *("", "../etc/passwd", "..", ".", "a/b", "a\\b", "/abs", "nul\x00", "\x00", "new\nline", "trailing\n", "tab\t"),
    *("blank here", " lead", "dot.ted", "üml", "topic\u200b", "aé", "\u0661", "a*", "a:b", "a@b", "a\x01b"),
]


@pytest.mark.parametrize("name", BAD_IN_ANY_NAME)
def test_characters_outside_the_set_are_refused(name: str) -> None:
    for check, kind in ((check_topic, "topic"), (check_group, "group")):
        with pytest.raises(InvalidName) as refused:
            check(name)
        assert (refused.value.kind, refused.value.name) == (kind, name)


@pytest.mark.parametrize("name", ["a", "A-Z_0|9%", "%RETRY%desk", "x" * 120, *sorted(SYSTEM_TOPICS)])
def test_good_names_pass_unchanged(name: str) -> None:
    assert check_topic(name) == name
    assert check_group(name) == name


@pytest.mark.parametrize(
    ("prefix", "limit"), [("", 127), ("%RETRY%", 255), ("%DLQ%", 255)], ids=["topic", "retry topic", "dead letters"]
)
def test_topic_length_limits(prefix: str, limit: int) -> None:
    longest = prefix + "x" * (limit - len(prefix))
    assert check_topic(longest) == longest
    with pytest.raises(InvalidName) as refused:
        check_topic(longest + "x")
    assert f"1 to {limit} characters" in str(refused.value)


def test_group_length_limit_leaves_room_for_a_retry_topic() -> None:
    longest = "g" * 120
    assert check_topic(retry_topic(check_group(longest)) + "_" + "t" * 127)
    with pytest.raises(InvalidName):
        check_group(longest + "g")


def test_a_megabyte_of_name_makes_a_short_message() -> None:
    with pytest.raises(InvalidName) as refused:
        check_topic("x" * 1_000_000)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("topic", "system"),
    [
        *((topic, True) for topic in STATE_TOPICS),
        *(("TBW102", True), ("SCHEDULE_TOPIC_XXXX", True), ("rmq_sys_anything", True), ("RMQ_SYS_ANYTHING", True)),
        *(("orders", False), ("%RETRY%desk", False), ("%DLQ%desk", False), ("tbw102", False), ("my_rmq_sys_", False)),
    ],
)
def test_system_topics(topic: str, system: bool) -> None:
    assert is_system_topic(topic) is system


def test_of_the_system_topics_clients_find_traces_and_the_audit_only() -> None:
    assert [topic for topic in sorted(SYSTEM_TOPICS) if is_routed_topic(topic)] == [TRACE_TOPIC, AUDIT_TOPIC]
    assert is_routed_topic("trades")
    assert is_routed_topic(reply_topic("zenit"))


def test_the_reply_topic_has_its_clusters_name() -> None:
    assert check_topic(reply_topic("zenit")) == "zenit_REPLY_TOPIC"


@pytest.mark.parametrize("name", [None, 5, b"t"])
def test_what_is_no_text_is_no_name(name: Any) -> None:
    for check in (check_topic, check_group):
        with pytest.raises(InvalidName, match=r": a text$"):
            check(name)
