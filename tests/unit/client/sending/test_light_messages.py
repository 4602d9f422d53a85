"""What a message that goes into light queues has in its properties."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq import InvalidName, InvalidParameter, Message
from zenitmq.client.sending.delayed_send import DelayedParts
from zenitmq.client.sending.outgoing import message_parts
from zenitmq.model.properties import decode_properties

ROOM = "0" * 19


def properties(message: Message) -> dict[str, str]:
    return decode_properties(message_parts(message, 4096)[3])


def test_a_lite_topic_is_a_light_queue_of_its_parent() -> None:
    sent = properties(Message("chats", b"x", lite_topic="session-42", properties={"a": "b"}))
    assert sent == {
        "a": "b",
        "__LITE_TOPIC": "session-42",
        "INNER_MULTI_DISPATCH": "%LMQ%$chats$session-42",
        "INNER_MULTI_QUEUE_OFFSET": ROOM,
    }


def test_light_queues_alone_and_beside_a_lite_topic() -> None:
    names = ["%LMQ%a", "%LMQ%b"]
    alone = properties(Message("t", b"x", light_queues=names))
    assert alone == {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": f"{ROOM},{ROOM}"}
    both = properties(Message("t", b"x", lite_topic="l", light_queues=tuple(names)))
    assert both["INNER_MULTI_DISPATCH"] == "%LMQ%$t$l,%LMQ%a,%LMQ%b"
    assert both["INNER_MULTI_QUEUE_OFFSET"].split(",") == [ROOM] * 3


def test_a_delayed_one_keeps_them_while_it_waits() -> None:
    parts = message_parts(Message("t", b"x", delay_level=3, light_queues=("%LMQ%a",)), 4096)
    assert isinstance(parts, DelayedParts)
    assert decode_properties(parts[3])["INNER_MULTI_DISPATCH"] == "%LMQ%a"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"lite_topic": ""}, InvalidName),
        ({"lite_topic": "a b"}, InvalidName),
        ({"lite_topic": "a$b"}, InvalidName),
        ({"lite_topic": "x" * 65}, InvalidName),
        ({"lite_topic": 7}, InvalidName),
        ({"light_queues": "%LMQ%a"}, InvalidParameter),
        ({"light_queues": ("a",)}, InvalidName),
        ({"light_queues": ("%LMQ%",)}, InvalidName),
        ({"light_queues": ("%LMQ%a,%LMQ%b",)}, InvalidName),
        ({"light_queues": ("%LMQ%a", "%LMQ%a")}, InvalidParameter),
        ({"light_queues": (1,)}, InvalidParameter),
        ({"light_queues": [f"%LMQ%{number}" for number in range(65)]}, InvalidParameter),
        ({"lite_topic": "a", "light_queues": ("%LMQ%$t$a",)}, InvalidParameter),
    ],
)
def test_wrong_ones_are_refused_in_a_line(more: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error) as refused:
        message_parts(Message("t", b"x", **more), 4096)
    assert "\n" not in str(refused.value)
