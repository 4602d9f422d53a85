"""What a failed message says of itself on its way: to the retry topic, to the dead letters, and back."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import MessageTooLarge
from zenitmq.model.properties import PROPERTIES_BYTES_MAX, encode_properties
from zenitmq.model.redelivery import (
    OF_ONE_DELIVERY,
    REASON_BYTES_MAX,
    Origin,
    cut_text,
    dead_letter_group,
    dead_letter_origin,
    dead_letter_properties,
    dead_letter_topic,
    is_retry_topic,
    origin_of,
    redriven_properties,
    retry_properties,
)

SENT = {"UNIQ_KEY": "U", "KEYS": "o-17", "TAGS": "buy", "region": "eu", "__SHARDINGKEY": "user-7"}
ORIGIN = Origin("trades", "ID0")


def test_the_first_failure_makes_the_message_itself_the_origin() -> None:
    assert origin_of("trades", "ID0", SENT) == ORIGIN


def test_a_message_that_came_again_tells_its_origin() -> None:
    assert origin_of("%RETRY%g", "ID7", retry_properties(SENT, ORIGIN)) == ORIGIN
    assert origin_of("%RETRY%g", "ID7", {}) == Origin("%RETRY%g", "ID7")


def test_a_group_that_reads_dead_letters_has_them_again_as_such() -> None:
    letter = dead_letter_properties(SENT, ORIGIN, "why")
    origin = origin_of("%DLQ%g", "ID9", letter)
    assert origin == Origin("%DLQ%g", "ID9")
    assert retry_properties(letter, origin) == {**SENT, "RETRY_TOPIC": "%DLQ%g", "ORIGIN_MESSAGE_ID": "ID9"}


def test_a_retry_inherits_nothing_of_the_delivery_before() -> None:
    former = dict.fromkeys(OF_ONE_DELIVERY, "1")
    assert retry_properties({**former, **SENT}, ORIGIN) == {
        **SENT,
        "RETRY_TOPIC": "trades",
        "ORIGIN_MESSAGE_ID": "ID0",
    }


def test_a_dead_letter_tells_where_it_came_from_and_why() -> None:
    letter = dead_letter_properties(SENT, ORIGIN, "ValueError: \x01no\x02")
    assert letter["DLQ_REASON"] == "ValueError:  no "
    assert dead_letter_origin("ID9", letter) == ORIGIN
    assert "DLQ_REASON" not in dead_letter_properties(letter, ORIGIN, "")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"RETRY_TOPIC": "t", "ORIGIN_MESSAGE_ID": "A"}, Origin("t", "A")),
        ({"DLQ_ORIGIN_TOPIC": "d", "RETRY_TOPIC": "t"}, Origin("d", "ID9")),
        ({}, Origin("", "ID9")),
    ],
)
def test_dead_letters_of_rocketmq_say_it_in_other_words(properties: dict[str, str], expected: Origin) -> None:
    assert dead_letter_origin("ID9", properties) == expected


def test_a_reason_takes_the_room_that_is_left() -> None:
    assert len(dead_letter_properties(SENT, ORIGIN, "x" * 5000)["DLQ_REASON"]) == REASON_BYTES_MAX
    used = len(encode_properties(dead_letter_properties({"p": "v"}, ORIGIN, "")))
    crowded = {"p": "v" * (PROPERTIES_BYTES_MAX - used - 20)}
    letter = dead_letter_properties(crowded, ORIGIN, "x" * 5000)
    assert len(encode_properties(letter)) == PROPERTIES_BYTES_MAX
    full = {"p": "v" * (PROPERTIES_BYTES_MAX - used)}
    assert "DLQ_REASON" not in dead_letter_properties(full, ORIGIN, "why")
    with pytest.raises(MessageTooLarge):
        dead_letter_properties({"p": full["p"] + "vvvv"}, ORIGIN, "why")


def test_a_redriven_message_is_as_it_was_sent() -> None:
    assert redriven_properties(dead_letter_properties(SENT, ORIGIN, "why"), ORIGIN) == SENT
    assert redriven_properties({"region": "eu"}, ORIGIN) == {"region": "eu", "ORIGIN_MESSAGE_ID": "ID0"}


@pytest.mark.parametrize(
    ("text", "bytes_max", "expected"),
    [("abc", 2, "ab"), ("aé", 2, "a"), ("aé", 3, "aé"), ("abc", 0, ""), ("abc", -3, ""), ("\ud800x", 9, "?x")],
)
def test_a_text_is_cut_between_characters(text: str, bytes_max: int, expected: str) -> None:
    assert cut_text(text, bytes_max) == expected


def test_names_of_topics() -> None:
    assert dead_letter_topic("g") == "%DLQ%g"
    assert dead_letter_group("%DLQ%g") == "g"
    assert [dead_letter_group(topic) for topic in ("trades", "%DLQ%", "%RETRY%g")] == [None, None, None]
    assert [is_retry_topic(topic) for topic in ("%RETRY%g", "trades")] == [True, False]
