"""The properties field: bytes both ways, and what is refused or dropped."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import MessageIllegal, MessageTooLarge
from zenitmq.model.properties import PROPERTIES_BYTES_MAX, decode_properties, encode_properties

TABLE = [
    ({}, b""),
    ({"a": "b"}, b"a\x01b\x02"),
    ({"KEYS": "k1 k2", "TAGS": "t"}, b"KEYS\x01k1 k2\x02TAGS\x01t\x02"),
    ({"region": "zürich 😀"}, b"region\x01" + "zürich 😀".encode() + b"\x02"),
]


@pytest.mark.parametrize(("properties", "encoded"), TABLE)
def test_both_ways(properties: dict[str, str], encoded: bytes) -> None:
    assert encode_properties(properties) == encoded
    assert decode_properties(encoded) == properties
    assert decode_properties(encoded[:-1]) == properties, "RocketMQ before 4.9 writes no separator behind the last one"


@pytest.mark.parametrize(
    ("encoded", "properties"),
    [
        (b"a\x01\x02b\x01c\x02", {"b": "c"}),  # an empty value
        (b"\x01x\x02b\x01c\x02", {"b": "c"}),  # two characters
        (b"ab\x02b\x01c\x02", {"b": "c"}),  # no separator
        (b"\x02\x02\x02", {}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),  # the first separator counts
        (b"a\x01x\x02a\x01y\x02", {"a": "y"}),  # the last entry counts
        (b"a\x01\xff\xfe\x02", {"a": "\ufffd\ufffd"}),  # not UTF-8: a consumer must go on
    ],
)
def test_odd_bytes_decode_as_rocketmq_does(encoded: bytes, properties: dict[str, str]) -> None:
    assert decode_properties(encoded) == properties


@pytest.mark.parametrize(
    ("name", "value"), [("", "v"), ("n", ""), ("n\x01", "v"), ("n", "v\x02"), ("n\x02", "v"), ("n", "\x01")]
)
def test_names_and_values_that_would_not_come_back_are_refused(name: str, value: str) -> None:
    with pytest.raises(MessageIllegal):
        encode_properties({"good": "one", name: value})


def test_the_limit_counts_bytes() -> None:
    room = PROPERTIES_BYTES_MAX - len("n\x01\x02")
    assert len(encode_properties({"n": "v" * room})) == PROPERTIES_BYTES_MAX == 32767
    for value in ("v" * (room + 1), "ü" * (room // 2 + 1)):
        with pytest.raises(MessageTooLarge) as refused:
            encode_properties({"n": value})
        assert refused.value.limit_bytes == PROPERTIES_BYTES_MAX
