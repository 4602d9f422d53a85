"""The two identifiers of a message, against ids that RocketMQ 5.5.0 made."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidParameter
from zenitmq.model.ids import (
    HostAddress,
    offset_message_id,
    parse_offset_message_id,
    unique_id,
    unique_id_prefix,
)
from zenitmq.model.queue import PhysicalOffset

LOCAL = HostAddress(bytes((127, 0, 0, 1)), 10911)
SIX = HostAddress(bytes.fromhex("fd000000000000000000000000000002"), 10911)

OFFSET_IDS = [
    (LOCAL, 0, "7F00000100002A9F0000000000000000"),  # RocketMQ's own
    (LOCAL, 0x10D, "7F00000100002A9F000000000000010D"),  # RocketMQ's own
    (SIX, 1 << 40, "FD00000000000000000000000000000200002A9F0000010000000000"),
    (HostAddress(bytes(4), 0), (1 << 63) - 1, "0000000000000000" + "7FFFFFFFFFFFFFFF"),
]


@pytest.mark.parametrize(("host", "offset", "text"), OFFSET_IDS)
def test_offset_message_id_both_ways(host: HostAddress, offset: int, text: str) -> None:
    assert offset_message_id(host.encode(), PhysicalOffset(offset)) == text
    assert parse_offset_message_id(text) == (host, offset)
    assert parse_offset_message_id(text.lower()) == (host, offset)


@pytest.mark.parametrize(
    "text",
    [
        *("", "7F", "G" * 32, "7F00000100002A9F000000000000010", "7F00000100002A9F000000000000010D0"),
        *("7F 000001 002A9F 00000000000010D", " " * 32, "é" * 32, "A" * 10_000),
        "7F00000100002A9F8000000000000000",  # a negative offset
        "7F000001FFFFFFFF0000000000000000",  # a negative port
        "7F000001000100000000000000000000",  # port 65536
    ],
)
def test_what_is_no_offset_message_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        parse_offset_message_id(text)
    assert len(str(refused.value)) < 200


def test_unique_id_has_the_fields_at_their_places() -> None:
    prefix = unique_id_prefix(bytes((10, 0, 0, 1)), 0x1234, 0xAABBCCDD)
    assert unique_id(prefix, 0x01020304, 5) == "0A000001" + "1234" + "AABBCCDD" + "01020304" + "0005"


def test_unique_id_keeps_32_digits_whatever_the_numbers() -> None:
    """A process id, salt, time and counter that outgrow their fields are cut, not spread."""
    prefix = unique_id_prefix(SIX.ip, (1 << 22) + 7, (1 << 32) + 9)
    assert unique_id(prefix, (1 << 32) + 3, (1 << 16) + 4) == "00000002" + "0007" + "00000009" + "00000003" + "0004"


@pytest.mark.parametrize(
    ("text", "shown", "size_bytes"),
    [("10.0.0.1", "10.0.0.1:80", 8), ("::1", "[::1]:80", 20), ("fd00::2", "[fd00::2]:80", 20)],
)
def test_host_addresses_parse_encode_and_show(text: str, shown: str, size_bytes: int) -> None:
    host = HostAddress.parse(text, 80)
    assert str(host) == shown
    assert host.encode() == host.ip + b"\x00\x00\x00\x50"
    assert len(host.encode()) == size_bytes


@pytest.mark.parametrize("text", ["", "localhost", "1.2.3", "1.2.3.256", "1.2.3.4:80", "[::1]", "::g"])
def test_a_host_that_is_no_ip_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        HostAddress.parse(text, 80)
