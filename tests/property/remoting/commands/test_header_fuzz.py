"""The header codec against whatever comes: nothing but RemoteProtocolError escapes, and what is sent comes back."""

from __future__ import annotations

import contextlib
import dataclasses
import typing
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.model.errors import RemoteProtocolError
from zenitmq.remoting.commands import REQUESTS, Reply, Request, SendMessages, SendReply
from zenitmq.remoting.header import decode_reply, decode_request, encode_reply, encode_request, peek_opaque

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: INT64,
    str: st.text(max_size=40),
    bool: st.booleans(),
    bytes: st.binary(max_size=40),
}
OPAQUE = st.integers(0, (1 << 31) - 1)


def of_hint(hint: Any) -> st.SearchStrategy[Any]:
    if hint in PLAIN:
        return PLAIN[hint]
    arguments = typing.get_args(hint)
    if arguments[-1] is Ellipsis:
        return st.lists(of_hint(arguments[0]), max_size=4).map(tuple)
    return st.tuples(*map(of_hint, arguments))


def instances(cls: type[Any]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls)
    return st.builds(cls, *(of_hint(hints[field.name]) for field in dataclasses.fields(cls)))


requests = st.one_of([instances(cls) for cls in REQUESTS.values()])
replies = st.one_of([instances(cls) for cls in {cls.reply for cls in REQUESTS.values()}])


@given(requests, OPAQUE, st.integers(0, 1 << 31), st.booleans(), st.text(max_size=64), st.text(max_size=128))
def test_a_request_comes_back(
    request: Request, opaque: int, timeout_ms: int, oneway: bool, cluster_id: str, delegation: str
) -> None:
    encoded = encode_request(
        request, opaque, timeout_ms=timeout_ms, oneway=oneway, cluster_id=cluster_id, delegation=delegation
    )
    assert decode_request(encoded) == (request, opaque, oneway, timeout_ms, cluster_id, delegation)
    assert peek_opaque(encoded) == opaque


@given(
    instances(SendMessages),
    st.lists(st.tuples(OPAQUE, st.sampled_from(["", "c1", "c2"])), min_size=2, max_size=4),
    st.integers(0, 1 << 31),
    st.booleans(),
)
def test_sends_that_differ_in_opaque_and_cluster_alone_come_back(
    request: SendMessages, sent: list[tuple[int, str]], timeout_ms: int, oneway: bool
) -> None:
    for opaque, cluster_id in sent:
        encoded = encode_request(request, opaque, timeout_ms=timeout_ms, oneway=oneway, cluster_id=cluster_id)
        assert decode_request(encoded) == (request, opaque, oneway, timeout_ms, cluster_id, "")


@given(replies, OPAQUE)
def test_a_reply_comes_back(reply: Reply, opaque: int) -> None:
    assert decode_reply(encode_reply(reply, opaque), type(reply)) == (opaque, reply)


def survives(frame: bytes) -> None:
    peek_opaque(frame)
    with contextlib.suppress(RemoteProtocolError):
        decode_request(frame)
    with contextlib.suppress(RemoteProtocolError):
        decode_reply(frame, SendReply)


@given(st.binary(max_size=2000))
def test_random_bytes_do_no_harm(frame: bytes) -> None:
    survives(frame)


@given(requests, st.data())
def test_flipped_bits_and_cuts_do_no_harm(request: Request, data: st.DataObject) -> None:
    frame = bytearray(encode_request(request, 1, timeout_ms=1000))
    for position in data.draw(st.lists(st.integers(0, 8 * len(frame) - 1), max_size=4)):
        frame[position // 8] ^= 1 << position % 8
    survives(bytes(frame))
    survives(bytes(frame[: data.draw(st.integers(0, len(frame)))]))
