"""The pages of docs/formats on ids, properties and flags say what the tables in the code say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zenitmq.model.ids import HostAddress, offset_message_id, unique_id, unique_id_prefix
from zenitmq.model.properties import PROPERTIES_BYTES_MAX, RESERVED, encode_properties
from zenitmq.model.queue import PhysicalOffset
from zenitmq.record import sys_flag
from zenitmq.record.compression import BODY_LIMIT_BYTES

FORMATS = Path(__file__).parents[3] / "docs" / "formats"


def page(name: str) -> str:
    return (FORMATS / name).read_text()


def marked(name: str, marker: str) -> str:
    """What stands between a marker comment and the next empty line."""
    return page(name).partition(f"<!-- {marker} -->\n")[2].partition("\n\n")[0]


def rows(name: str, marker: str) -> list[list[str]]:
    """The cells of a marked table, without its head."""
    lines = marked(name, marker).splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def code_block(name: str, marker: str) -> str:
    return marked(name, marker).strip("`\n ")


def test_bits_of_sys_flag() -> None:
    table = rows("sys-flags.md", "bits")
    assert [(int(bits, 16), meaning) for bits, _, meaning in table] == list(sys_flag.BITS)
    assert all(getattr(sys_flag, name) == int(bits, 16) for bits, name, _ in table)


def test_kinds_of_compression() -> None:
    table = {name: int(bits, 16) for bits, name, *_ in rows("sys-flags.md", "compression")}
    named = {
        name: value for name, value in vars(sys_flag).items() if name.startswith("COMPRESSION_") and "MASK" not in name
    }
    assert table == {"(older senders)": 0} | named
    assert f"past {BODY_LIMIT_BYTES} bytes" in page("sys-flags.md")


def test_reserved_properties() -> None:
    explained = set(re.findall(r"^\| `(\w+)` \|", page("properties.md"), re.MULTILINE))
    listed = code_block("properties.md", "reserved").split()
    assert len(listed) == len(set(listed))
    assert explained | set(listed) == RESERVED
    assert not explained & set(listed)


def test_the_example_and_limit_of_properties() -> None:
    encoded = encode_properties({"KEYS": "k1 k2", "TAGS": "paid"})
    assert code_block("properties.md", "example") == encoded.hex(" ")
    assert f"at most {PROPERTIES_BYTES_MAX} bytes" in page("properties.md")


@pytest.mark.parametrize("marker", ["unique id", "offset message id"])
def test_ids_have_their_fields_where_the_page_says(marker: str) -> None:
    """An id made of distinct bytes is cut at the page's places."""
    expected = {
        "ip": "0A000001",
        "pid": "1234",
        "salt": "AABBCCDD",
        "month_ms": "01020304",
        "counter": "0005",
        "port": "00002A9F",
        "offset": "0102030405060708",
    }
    if marker == "unique id":
        text = unique_id(unique_id_prefix(bytes((10, 0, 0, 1)), 0x1234, 0xAABBCCDD), 0x01020304, 5)
    else:
        text = offset_message_id(HostAddress(bytes((10, 0, 0, 1)), 0x2A9F).encode(), PhysicalOffset(0x0102030405060708))
    end = 0
    for begin, size_bytes, field in rows("message-ids.md", marker):
        assert int(begin) == end
        end += int(size_bytes)
        assert text[2 * int(begin) : 2 * end] == expected[field.partition(":")[0]]
    assert 2 * end == len(text)


def test_the_example_of_an_offset_message_id() -> None:
    host = HostAddress(bytes((127, 0, 0, 1)), 10911)
    assert code_block("message-ids.md", "example") == offset_message_id(host.encode(), PhysicalOffset(269))
