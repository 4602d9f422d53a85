"""The header codec: what is accepted, what is refused, and that refusing costs no memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgpack
import pytest

from zenitmq.model.errors import (
    BrokerBusy,
    LocalProtocolError,
    MessageTooLarge,
    RemoteProtocolError,
    UnknownRequest,
    VersionNotSupported,
    ZenitError,
    error_classes,
)
from zenitmq.remoting import header
from zenitmq.remoting.commands import REQUESTS, Done, GetRoute, PullMessages, RouteReply, SendMessages, SendReply
from zenitmq.remoting.header import (
    decode_reply,
    decode_request,
    encode_error,
    encode_reply,
    encode_request,
    is_request,
    open_header,
    peek_opaque,
)
from zenitmq.remoting.options import HEADER_BYTES_MAX

SEND = 320
PULL = 11


def frame(code: Any, fields: Any, *, opaque: Any = 5, version: Any = 1, flag: Any = 0, timeout_ms: Any = 1000) -> bytes:
    packed: bytes = msgpack.packb([code, 3, version, opaque, flag, None, fields, timeout_ms])
    return packed


def test_an_older_peers_shorter_list_takes_the_defaults() -> None:
    assert decode_request(frame(SEND, ["t", 1, 2]))[0] == SendMessages("t", 1, 2)
    assert decode_request(frame(PULL, ["g", "t", 1, 2, 3, 4]))[0] == PullMessages("g", "t", 1, 2, 3, 4)


def test_a_newer_peers_longer_list_is_cut() -> None:
    assert decode_request(frame(SEND, ["t", 1, 2, "g", "new", 9]))[0] == SendMessages("t", 1, 2, "g")


@pytest.mark.parametrize(
    "fields",
    [
        [],
        ["t"],
        ["t", 1],
        [1, 1, 1],
        ["t", "1", 1],
        ["t", True, 1],
        ["t", 1.0, 1],
        ["t", None, 1],
        ["t", 1, [1]],
        ["t", 1, 1, b"g"],
        ["t", 1 << 63, 1],
        {"t": 1},
        "t11",
        None,
        7,
    ],
)
def test_wrong_fields_are_an_error_that_keeps_the_opaque(fields: Any) -> None:
    error, opaque, oneway, *_ = decode_request(frame(SEND, fields))
    assert isinstance(error, RemoteProtocolError)
    assert (opaque, oneway) == (5, False)


@pytest.mark.parametrize("codes", [["a"], [1, "a"], [[1]], 5, [1 << 63], [None]])
def test_elements_of_a_nested_field_are_checked(codes: Any) -> None:
    fields = ["g", "t", 1, 2, 3, 4, 0]
    assert isinstance(decode_request(frame(PULL, [*fields, codes]))[0], RemoteProtocolError)
    assert decode_request(frame(PULL, [*fields, [-1, 2]]))[0] == PullMessages("g", "t", 1, 2, 3, 4, 0, (-1, 2))


@pytest.mark.parametrize(
    "brokers", [[["c", "n", [[0]]]], [["c", "n", [[0, "a", 1]]]], [["c", "n", [["0", "a"]]]], [["c", "n"]]]
)
def test_elements_two_levels_down_are_checked(brokers: Any) -> None:
    good = msgpack.packb([0, 3, 1, 5, 1, None, [[], [["c", "n", [[0, "a"]]]]], 0])
    assert decode_reply(good, RouteReply)[1] == RouteReply((), (("c", "n", ((0, "a"),)),))
    with pytest.raises(RemoteProtocolError):
        decode_reply(msgpack.packb([0, 3, 1, 5, 1, None, [[], brokers], 0]), RouteReply)


@pytest.mark.parametrize(
    "opaque",
    "c0 c2 cf8000000000000000 cfffffffffffffffff e0 d0ff d3ffffffffffffffff a161 ca00000000".split(),
)
def test_a_send_that_was_heard_before_is_refused_all_the_same_where_its_opaque_is_none(opaque: str) -> None:
    heard = encode_request(SendMessages("t", 1, 1, "g"), 5, timeout_ms=1000, cluster_id="c1")
    assert decode_request(heard)[1] == 5
    assert heard[6:7] == b"\x05"
    with pytest.raises(RemoteProtocolError):
        decode_request(heard[:6] + bytes.fromhex(opaque) + heard[7:])


@pytest.mark.parametrize("opaque", ["05", "cc05", "cd0005", "ce00000005", "cf0000000000000005"])
def test_an_opaque_may_be_written_longer_than_it_need_be(opaque: str) -> None:
    heard = encode_request(SendMessages("t", 1, 1, "g"), 5, timeout_ms=1000, cluster_id="c1")
    assert decode_request(heard[:6] + bytes.fromhex(opaque) + heard[7:]) == decode_request(heard)


def test_a_send_that_was_heard_before_tells_its_own_cluster() -> None:
    send = SendMessages("t", 1, 1, "g")
    for cluster_id in ("c1", "c2", "", "c1", "c2", ""):
        heard = decode_request(encode_request(send, 5, timeout_ms=1000, cluster_id=cluster_id))
        assert heard == (send, 5, False, 1000, cluster_id, "")


@pytest.mark.parametrize("ninth", [None, 7, b"c1", ["c1"], "c" * 65])
def test_a_ninth_part_that_is_no_cluster_is_refused(ninth: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_request(msgpack.packb([SEND, 3, 1, 5, 0, None, ["t", 1, 2], 1000, ninth]))


@pytest.mark.parametrize("cluster_id", ["", "c1"])
def test_a_gateway_tells_for_whom_it_asks(cluster_id: str) -> None:
    send = SendMessages("t", 1, 1, "g")
    sent = encode_request(send, 5, timeout_ms=1000, cluster_id=cluster_id, delegation="a:1:ff")
    assert decode_request(sent) == (send, 5, False, 1000, cluster_id, "a:1:ff")


@pytest.mark.parametrize("tenth", [None, 0, b"a", ["a"], "a" * 129])
def test_a_tenth_part_that_is_no_delegation_is_refused(tenth: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_request(msgpack.packb([SEND, 3, 1, 5, 0, None, ["t", 1, 2], 1000, "c1", tenth]))


def test_a_header_of_eleven_parts_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        decode_request(msgpack.packb([SEND, 3, 1, 5, 0, None, ["t", 1, 2], 1000, "c1", "", 0]))


def test_what_is_remembered_of_sends_is_bounded() -> None:
    for number in range(header._SENDS_MAX + 10):
        decode_request(encode_request(SendMessages("t", number, 1, "g"), 5, timeout_ms=1000, cluster_id="c1"))
        decode_request(encode_request(SendMessages("t" * 600, number, 1, "g"), 5, timeout_ms=1000, cluster_id="c1"))
    assert header._sends
    assert len(header._sends) <= header._SENDS_MAX
    assert max(map(len, header._sends)) <= header.SMALL_BYTES


def test_an_unknown_code_is_told_with_its_opaque() -> None:
    error, opaque, oneway, timeout_ms, *_ = decode_request(frame(4711, ["x"], flag=2))
    assert isinstance(error, UnknownRequest)
    assert (error.request_code, opaque, oneway, timeout_ms) == (4711, 5, True, 1000)


def test_another_version_is_told_with_its_opaque() -> None:
    error, opaque, *_ = decode_request(frame(SEND, ["t", 1, 2], version=2))
    assert isinstance(error, VersionNotSupported)
    assert (error.version, error.supported, opaque) == (2, 1, 5)
    assert isinstance(decode_reply(frame(0, [], version=2, flag=1), Done)[1], VersionNotSupported)


def test_a_reply_is_no_request_nor_the_other_way() -> None:
    assert isinstance(decode_request(frame(SEND, ["t", 1, 2], flag=1))[0], RemoteProtocolError)
    with pytest.raises(RemoteProtocolError):
        decode_reply(frame(0, []), Done)
    assert is_request(open_header(frame(40, ["g"], flag=2)))
    assert not is_request(open_header(encode_reply(Done(), 1)))


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\xc1",
        b"\x00",
        b"junk",
        msgpack.packb([]),
        msgpack.packb([1] * 7),
        msgpack.packb([1] * 9),
        msgpack.packb({"code": 1}),
        frame("320", []),
        frame(SEND, [], opaque="x"),
        frame(SEND, [], opaque=-1),
        frame(SEND, [], opaque=1 << 63),
        frame(SEND, [], flag=None),
        frame(SEND, [], version=b""),
        frame(SEND, [], timeout_ms=1.5),
        frame(SEND, ["t", 1, 2]) + b"\x00",
        frame(SEND, ["t", 1, 2])[:-1],
        b"\x98\xcd\x01\x40\x03\x01\x05\x00\xc0\x94\xa6\xff\xff\xff\xff\xff\xff\x03\x02\xa0\x00",  # not UTF-8
        b"\xd6\xff\x00\x00\x00\x00",  # a timestamp
        b"\x81\x91\x01\x02",  # a list as a map's key
    ],
)
def test_what_is_no_header_is_refused(bad: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_request(bad)
    with pytest.raises(RemoteProtocolError):
        decode_reply(bad, Done)


def lying(kind: bytes, depth: int, size_bytes: int) -> bytes:
    """Nested arrays or maps, each of which claims `size_bytes` elements, filled up with nils."""
    return (kind + size_bytes.to_bytes(4, "big")) * depth + b"\xc0" * (size_bytes - 5 * depth)


@pytest.mark.parametrize(
    "bomb",
    [
        b"\x91" * 100_000,
        b"\x91" * 500,
        b"\x81\xc0" * 5000,
        lying(b"\xdd", 900, 1_000_000),
        lying(b"\xdf", 900, 1_000_000),
        lying(b"\xdd", 90, 512),
        b"\xdd\xff\xff\xff\xff" * 100,
        b"\xdb\xff\xff\xff\xff" + b"a" * 1000,
        b"\xc6\xff\xff\xff\xff" + b"a" * 100,
        b"\xc9\xff\xff\xff\xff\x05" + b"a" * 1000,
        b"\xc0" * (HEADER_BYTES_MAX + 1),
    ],
    ids=range(11),
)
def test_a_bomb_is_refused_without_the_memory_it_claims(bomb: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            decode_request(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(bomb) + (1 << 20)


def test_the_opaque_is_found_in_what_cannot_be_decoded() -> None:
    assert peek_opaque(frame(SEND, ["t"], opaque=77)[:-3]) == 77
    assert peek_opaque(frame(SEND, ["t" * 1000], opaque=77)) == 77
    for nothing in (
        b"",
        b"\xc1",
        b"\x91",
        frame(SEND, [], opaque="x"),
        frame(SEND, [], opaque=-4),
        b"\xdb\xff\xff\xff\xffaa",
    ):
        assert peek_opaque(nothing) == 0


def test_every_request_has_a_shape() -> None:
    """A class whose fields cannot travel would be found at import; one that is not in the table could not be sent."""
    for cls in REQUESTS.values():
        assert decode_request(frame(cls.code, []))[1] == 5


@pytest.mark.parametrize("code", sorted(error_classes()))
def test_every_error_survives_the_wire(code: int) -> None:
    cls = error_classes()[code]
    samples = {"int": 41, "str": "fact", "object": "value"}
    notes = getattr(cls.__init__, "__annotations__", {})
    kinds = [note for name, note in notes.items() if name != "return"]
    error = cls(*(samples[kind] for kind in kinds)) if notes else cls("plain")
    opaque, decoded = decode_reply(encode_error(error, 8), Done)
    assert opaque == 8
    assert type(decoded) is cls
    assert str(decoded) == str(error)
    assert decoded.args == error.args if kinds else True


@pytest.mark.parametrize("facts", [[], ["100", "x"], [None], {"a": 1}, [1, 2, 3, 4], 5])
def test_an_error_with_odd_facts_is_a_plain_one(facts: Any) -> None:
    opaque, error = decode_reply(msgpack.packb([2, 3, 1, 5, 1, "busy!", facts, 0]), Done)
    assert (opaque, type(error), str(error)) == (5, ZenitError, "busy!")
    unknown = decode_reply(msgpack.packb([31337, 3, 1, 5, 1, None, [], 0]), Done)[1]
    assert (type(unknown), str(unknown)) == (ZenitError, "error 31337")


def test_an_errors_text_is_bounded_and_always_travels() -> None:
    long = encode_error(RemoteProtocolError("x" * 100_000), 1)
    assert len(long) < 5000
    odd = decode_reply(encode_error(RemoteProtocolError("\udcff"), 1), Done)[1]
    assert isinstance(odd, ZenitError)
    assert "udcff" in str(odd)
    assert isinstance(decode_reply(encode_error(BrokerBusy(1 << 70), 1), Done)[1], ZenitError)


def test_what_cannot_travel_is_our_mistake() -> None:
    with pytest.raises(LocalProtocolError):
        encode_request(GetRoute("\udcff"), 1, timeout_ms=1)
    with pytest.raises(LocalProtocolError):
        encode_reply(SendReply(1 << 70, 0, 0, 0, b""), 1)
    with pytest.raises(MessageTooLarge):
        encode_request(GetRoute("x" * HEADER_BYTES_MAX), 1, timeout_ms=1)


def test_each_field_of_each_request_and_reply_can_travel() -> None:
    """What a field's type allows is looked at when the first one is encoded or decoded: a wrong type is found here."""
    for cls in REQUESTS.values():
        for command in (cls, cls.reply):
            assert header._SHAPES[command].cls is command
