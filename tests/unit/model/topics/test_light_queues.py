"""Names of light queues and lite topics."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidName
from zenitmq.model.topics.light_queues import (
    check_light_queue,
    check_lite_topic,
    check_queue_topic,
    lite_queue,
    lite_topic_of,
    routed_topic,
)


def test_the_light_queue_of_a_lite_topic_leads_back_to_it() -> None:
    name = lite_queue("chats", "session-42")
    assert name == "%LMQ%$chats$session-42"
    assert check_light_queue(name) == name
    assert lite_topic_of(name) == ("chats", "session-42")


@pytest.mark.parametrize("name", ["%LMQ%a", "chats", "%LMQ%$chats", "%LMQ%$$a", "%LMQ%$a$", "%LMQ%$a$b$c"])
def test_other_queues_are_of_no_lite_topic(name: str) -> None:
    assert lite_topic_of(name) is None


@pytest.mark.parametrize(
    ("topic", "routed"), [("t", "t"), ("%LMQ%a", "%LMQ%"), ("%LMQ%$chats$a", "chats"), ("%RETRY%g", "%RETRY%g")]
)
def test_whose_route_leads_to_a_queue(topic: str, routed: str) -> None:
    assert check_queue_topic(topic) == topic
    assert routed_topic(topic) == routed


@pytest.mark.parametrize("name", ["", "%LMQ%", "a$b", "%LMQ%a/b"])
def test_a_wrong_name_of_a_queues_topic(name: str) -> None:
    with pytest.raises(InvalidName):
        check_queue_topic(name)


@pytest.mark.parametrize("name", ["", "%LMQ%", "a", "%LMQ%a/b", "%LMQ%..", "%LMQ%a,b", "%LMQ%" + "a" * 251])
def test_a_wrong_name_of_a_light_queue(name: str) -> None:
    with pytest.raises(InvalidName):
        check_light_queue(name)


@pytest.mark.parametrize("name", ["", "a$b", "a/b", "a b", "ä", "a" * 65])
def test_a_wrong_name_of_a_lite_topic(name: str) -> None:
    with pytest.raises(InvalidName):
        check_lite_topic(name)
