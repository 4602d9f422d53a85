"""Model codecs: whatever goes in comes out, and no text makes them fail another way than by their own error."""

from __future__ import annotations

import pickle
import zlib

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.model.errors import InvalidName, InvalidParameter, RemoteProtocolError
from zenitmq.model.ids import HostAddress, offset_message_id, parse_offset_message_id, unique_id, unique_id_prefix
from zenitmq.model.message import Message
from zenitmq.model.names import check_group, check_topic
from zenitmq.model.properties import decode_properties, encode_properties
from zenitmq.model.queue import PhysicalOffset
from zenitmq.model.subscription import Subscription
from zenitmq.model.tag_hash import java_hash
from zenitmq.record.compression import compress_lz4, decompress

TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=("Cs",)), min_size=1, max_size=40)
HOSTS = st.builds(
    HostAddress, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), st.integers(0, 65535)
)


@given(st.dictionaries(TEXT, TEXT, max_size=8))
def test_properties_round_trip(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


@given(st.binary(max_size=200))
def test_any_properties_bytes_decode(encoded: bytes) -> None:
    decoded = decode_properties(encoded)
    assert all(name + value for name, value in decoded.items())


@given(HOSTS, st.integers(0, (1 << 63) - 1))
def test_offset_message_ids_round_trip(host: HostAddress, offset: int) -> None:
    assert parse_offset_message_id(offset_message_id(host.encode(), PhysicalOffset(offset))) == (host, offset)


@given(st.text(alphabet="0123456789abcdefABCDEF \n", min_size=30, max_size=58) | st.text(max_size=60))
def test_any_text_is_an_offset_message_id_or_refused(text: str) -> None:
    try:
        host, offset = parse_offset_message_id(text)
    except InvalidParameter:
        return
    assert offset_message_id(host.encode(), offset) == text.upper()


@given(st.binary(min_size=4, max_size=4), st.integers(0), st.integers(0), st.integers(0), st.integers(0, 65534))
def test_unique_ids_of_one_millisecond_differ(ip: bytes, pid: int, salt: int, month_ms: int, counter: int) -> None:
    prefix = unique_id_prefix(ip, pid, salt)
    first, second = unique_id(prefix, month_ms, counter), unique_id(prefix, month_ms, counter + 1)
    assert first < second
    assert len(first) == 32
    assert first == first.upper()


@given(st.text(max_size=30), st.text(max_size=30))
def test_java_hash_is_the_polynomial(left: str, right: str) -> None:
    """hash(a + b) = hash(a) * 31^len(b) + hash(b), lengths in UTF-16 units, modulo 2^32."""
    units = len(right.encode("utf-16-be", "surrogatepass")) // 2
    expected = (java_hash(left) * pow(31, units) + java_hash(right)) & 0xFFFFFFFF
    assert java_hash(left + right) & 0xFFFFFFFF == expected
    assert -(1 << 31) <= java_hash(left) < 1 << 31


@given(st.text(max_size=300))
def test_any_name_is_good_or_refused_and_a_good_one_cannot_leave_its_directory(name: str) -> None:
    for check in (check_topic, check_group):
        try:
            check(name)
        except InvalidName:
            continue
        assert name.isascii()
        assert not set(name) & set("/\\.\x00\n")


@given(st.lists(TEXT.filter(lambda text: not set("|*\x00") & set(text) and text == text.strip()), max_size=5))
def test_joined_tags_parse_back(tags: list[str]) -> None:
    assert Subscription.parse("orders", " || ".join(tags)).tags == frozenset(tags)


@given(st.binary(max_size=2000), st.integers(0, 7))
def test_any_bytes_unpack_or_are_refused(body: bytes, kind: int) -> None:
    try:
        decompress(body, kind << 8, 100_000)
    except RemoteProtocolError:
        return


@given(st.binary(max_size=2000))
def test_bodies_survive_compression(body: bytes) -> None:
    assert decompress(compress_lz4(body), 0x100) == body
    assert decompress(zlib.compress(body), 0x300) == body


@given(st.binary(max_size=50), st.none() | TEXT, st.lists(TEXT, max_size=3), st.dictionaries(TEXT, TEXT, max_size=3))
def test_messages_pickle(body: bytes, tags: str | None, keys: list[str], properties: dict[str, str]) -> None:
    message = Message("orders", body, tags=tags, keys=keys, properties=properties)
    assert pickle.loads(pickle.dumps(message)) == message
