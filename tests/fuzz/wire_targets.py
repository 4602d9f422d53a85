"""What strangers send: header frames, replication frames and chunks, compressed bodies, and the texts that users hand on."""

from __future__ import annotations

import base64
import dataclasses
import json
import struct
import typing
import zlib
from random import Random
from typing import Any

import lz4.frame
import zstandard

from zenitmq.broker.repair.compacted_copy import parse_listed
from zenitmq.broker.replication.beginning import Beginning, beginning_document, parse_beginning
from zenitmq.broker.replication.chunk_payload import unseal
from zenitmq.broker.replication.epochs import EpochList
from zenitmq.broker.replication.frame_codec import decode as decode_frame
from zenitmq.broker.replication.frame_codec import encode as encode_frame
from zenitmq.broker.replication.frames import FRAMES, Chunk, Opening, RefusalReason, Refused, Side
from zenitmq.client.tracing.trace_format import decode_trace, encode_trace
from zenitmq.metrics.http_request import PARAMETERS_MAX, BadHttpRequest, decode_head
from zenitmq.model.errors import (
    InvalidParameter,
    LocalProtocolError,
    RemoteProtocolError,
    SqlSyntaxError,
    TraceDamaged,
    error_classes,
)
from zenitmq.model.groups.group import Incarnation
from zenitmq.model.handles.recall_handle import RecallHandle
from zenitmq.model.ids import HostAddress, offset_message_id, parse_offset_message_id
from zenitmq.model.properties import decode_properties, encode_properties
from zenitmq.model.sql92.condition import Condition
from zenitmq.model.subscription import Subscription
from zenitmq.record.compression import compress_lz4, decompress
from zenitmq.record.crc32 import crc32
from zenitmq.remoting.commands import REQUESTS
from zenitmq.remoting.delayed_places import Place, decode_places, encode_places
from zenitmq.remoting.direct.peer_reader import PeerMessage, PeerReader
from zenitmq.remoting.direct.zmtp import GREETING, HELLO, MORE, FrameReader, NotTaken, command, frame_begin
from zenitmq.remoting.header import (
    decode_reply,
    decode_request,
    encode_error,
    encode_reply,
    encode_request,
    peek_opaque,
)
from zenitmq.store.compaction.compacted_manifest import ListedFile, Manifest

from .kernel_targets import properties
from .mutation import document_bytes, mutated, mutated_document
from .target import Target

BODY_LIMIT_BYTES = 1 << 20
_REQUESTS = list(REQUESTS.values())
_REPLIES = sorted({cls.reply for cls in _REQUESTS}, key=lambda cls: cls.__name__)
_ERRORS = list(error_classes().values())
_TEXTS = ("", "a", "topic", "%RETRY%g", "x" * 300, "é\U0001f600", "a\x00", "127.0.0.1:1", "{}")
_NUMBERS = (0, 1, -1, 127, 128, 255, 256, 65_535, 65_536, 1 << 31, 1 << 32, (1 << 63) - 1, -(1 << 63))


def value_of(hint: Any, draw: Random) -> Any:
    """Any value of a type that fields have."""
    if hint is int:
        return draw.choice(_NUMBERS)
    if hint is str:
        return draw.choice(_TEXTS)
    if hint is bool:
        return draw.randrange(2) == 1
    if hint is bytes:
        return draw.randbytes(draw.randrange(9))
    arguments = typing.get_args(hint)
    if not arguments:
        return draw.choice(_TEXTS)  # an error's fact of any type
    if arguments[-1] is Ellipsis:
        return tuple(value_of(arguments[0], draw) for _ in range(draw.choice((0, 1, 2, 30))))
    return tuple(value_of(argument, draw) for argument in arguments)


def instance_of(cls: type[Any], draw: Random) -> Any:
    """A command with any values."""
    hints = typing.get_type_hints(cls)
    return cls(*(value_of(hints[field.name], draw) for field in dataclasses.fields(cls)))


def _request(draw: Random) -> bytes:
    made = instance_of(draw.choice(_REQUESTS), draw)
    opaque, oneway = draw.choice((0, 1, 127, 128, 1 << 31, (1 << 63) - 1)), draw.randrange(2) == 1
    cluster_id = draw.choice(("", "5f0c"))
    frame = encode_request(made, opaque, timeout_ms=draw.choice(_NUMBERS), oneway=oneway, cluster_id=cluster_id)
    return bytes(mutated(bytearray(frame), draw))


def check_request(data: bytes, _: Random) -> None:
    """A request or its error as a value; what was decoded comes back when it is sent on."""
    assert peek_opaque(data) >= 0
    incoming = decode_request(data)
    request, opaque, oneway, timeout_ms, cluster_id, delegation = incoming
    if isinstance(request, Exception):
        encode_error(request, opaque)
        return
    again = encode_request(
        request, opaque, timeout_ms=timeout_ms, oneway=oneway, cluster_id=cluster_id, delegation=delegation
    )
    assert decode_request(again) == incoming


def _reply(draw: Random) -> bytes:
    if draw.randrange(2):
        return bytes(
            mutated(bytearray(encode_reply(instance_of(draw.choice(_REPLIES), draw), draw.choice((0, 7)))), draw)
        )
    cls = draw.choice(_ERRORS)
    hints = [hint for name, hint in typing.get_type_hints(cls.__init__).items() if name != "return"]
    error = cls(*(value_of(hint, draw) for hint in hints))
    return bytes(mutated(bytearray(encode_error(error, 7)), draw))


def check_reply(data: bytes, draw: Random) -> None:
    """A reply of the class that was asked for, or an error that can be shown."""
    opaque, reply = decode_reply(data, draw.choice(_REPLIES))
    if isinstance(reply, Exception):
        str(reply)
    else:
        assert decode_reply(encode_reply(reply, opaque), type(reply)) == (opaque, reply)


def some_epochs(draw: Random) -> EpochList:
    """Rows in order."""
    rows, number, begin = [], 0, 0
    for _ in range(draw.choice((0, 1, 3, 40))):
        number, begin = number + draw.choice((1, 1, 9)), begin + draw.choice((0, 100, 1 << 30))
        rows.append((number, begin))
    return EpochList.of(rows)


def _replication_frame(draw: Random) -> bytes:
    layout, epochs, stamp = draw.choice(FRAMES), some_epochs(draw), (1 << 40, 1000, 3)
    frame: Any
    if layout.cls is Opening:
        frame = Opening(*stamp, "broker-a-1", Incarnation("5f0c", 2), 1 << 50, 1 << 40, epochs, True)
    elif layout.cls is Refused:
        frame = Refused(*stamp, draw.choice(list(RefusalReason)), 5, 1 << 50, epochs)
    elif layout.cls is Chunk:
        frame = Chunk(*stamp, 3, 4096, 8192, 4096, 7, True)
    else:
        frame = layout.cls(*stamp, *(draw.randrange(1 << 40) for _ in layout.fields))
    data = bytearray(encode_frame(frame))
    head, fields = 28, [(0, 2), (2, 1), (3, 1), (4, 8), (12, 8), (20, 8)]
    for field in layout.fields:
        fields.append((head, field.size_bytes))
        head += field.size_bytes
    return bytes(mutated(data, draw, fields))


def check_replication_frame(data: bytes, draw: Random) -> None:
    """A frame for that side, that is sent on as the same bytes."""
    frame = decode_frame(data, draw.choice(list(Side)))
    assert encode_frame(frame) == data


def _chunk_payload(draw: Random) -> bytes:
    plain = draw.randbytes(draw.choice((0, 1, 100))) * draw.choice((1, 50, 2000))
    packed = lz4.frame.compress(plain, content_checksum=draw.randrange(2) == 1, store_size=draw.randrange(2) == 1)
    flags = struct.pack(">II", len(plain), crc32(plain))
    return flags + bytes(mutated(bytearray(packed), draw, [(4, 1), (5, 1), (6, 8), (15, 4)]))


def check_chunk_payload(data: bytes, draw: Random) -> None:
    """As many bytes as were announced at most, with the checksum that was announced."""
    size, crc = struct.unpack(">II", data[:8].ljust(8, b"\0"))
    size = max(1, min(size, draw.choice((1 << 20, 1 << 20, 100))))
    is_packed = draw.randrange(8) > 0
    found = unseal(Chunk(1, 2, 3, 2, 4096, 4096 + size, 0, crc if is_packed else crc32(data[8:]), is_packed), data[8:])
    assert len(found) <= size
    assert not is_packed or crc32(found) == crc


def _packed_body(draw: Random) -> bytes:
    plain = draw.randbytes(draw.choice((0, 1, 100))) * draw.choice((1, 50, 2000))
    pack = draw.choice((compress_lz4, zlib.compress, zstandard.ZstdCompressor().compress, lz4.frame.compress))
    return bytes(mutated(bytearray(pack(plain)), draw, [(4, 1), (5, 1), (6, 8), (15, 4)]))


def check_packed_body(data: bytes, draw: Random) -> None:
    """The plain body within its limit."""
    limit = draw.choice((BODY_LIMIT_BYTES, 100))
    assert len(decompress(data, draw.choice((0, 0x100, 0x200, 0x300, 0x500)), limit)) <= limit


def _places(draw: Random) -> bytes:
    places = [Place(draw.choice((-1, 5)), draw.choice((-1, 7)), 9) for _ in range(draw.randrange(5))]
    return bytes(mutated(bytearray(encode_places(places)), draw))


def check_places(data: bytes, draw: Random) -> None:
    """As many as were sent, or refused."""
    assert encode_places(decode_places(data, draw.choice((len(data) // 24, 3)))) == data


def _text(draw: Random) -> bytes:
    handle = RecallHandle("orders", "broker-a", draw.choice((0, 5, 1 << 61)), "A" * 32).encode()
    plain = base64.urlsafe_b64decode(handle)
    host = HostAddress(draw.choice((bytes(4), bytes(16))), draw.choice((0, 10911, 65535)))
    seeds = (
        handle.encode(),
        base64.urlsafe_b64encode(bytes(mutated(bytearray(plain), draw))),
        offset_message_id(host.encode(), 1 << 40).encode(),
        b"a || b||c",
        b"a > 5 AND (b IS NULL OR c IN ('x', 'y')) AND NOT d BETWEEN -1 AND 2.5e3 AND e CONTAINS 'z'",
        b"(" * draw.choice((3, 33, 5000)) + b"a=1" + b")" * 33,
        b"NOT " * draw.choice((3, 33, 5000)) + b"TRUE",
        b"a = " + b"9" * draw.choice((19, 400, 5000)) + b" OR a = 'it''s'",
    )
    return bytes(mutated(bytearray(draw.choice(seeds)), draw))


def check_texts(data: bytes, draw: Random) -> None:
    """Recall handles, message ids, tags and conditions: what is understood can be written again."""
    text = data.decode("utf-8", draw.choice(("replace", "surrogateescape")))
    kind = draw.randrange(4)
    if kind == 0:
        handle = RecallHandle.parse(text)
        assert RecallHandle.parse(handle.encode()) == handle
    elif kind == 1:
        host, offset = parse_offset_message_id(text)
        assert parse_offset_message_id(offset_message_id(host.encode(), offset)) == (host, offset)
    elif kind == 2:
        Subscription.parse("topic", text).codes()
    else:
        condition = Condition(text)
        condition.test([draw.choice((None, b"", b"5", b"x", b"\xff")) for _ in condition.names])


def check_properties(data: bytes, _: Random) -> None:
    """Never an error; what is found is found again when it is written."""
    found = decode_properties(data)
    written = {name: value for name, value in found.items() if name and "\x01" not in value}
    assert decode_properties(encode_properties(written)) == written


def _trace(draw: Random) -> bytes:
    values = ("null", "", "true", "false", "1700000000000", "-5", "9" * 25, "topic", "3", "x" * 99)
    records = []
    for _ in range(draw.choice((1, 1, 3))):
        parts = [draw.choice(("Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall", "X"))]
        parts += [draw.choice(values) for _ in range(draw.choice((5, 6, 7, 8, 12, 13, 14, 20)))]
        records.append("\x01".join(parts) + "\x02")
    known = "Pub\x011700000000000\x01r\x01g\x01t\x01id\x01tag\x01key\x01h:1\x015\x012\x010\x01oid\x01true\x02"
    return bytes(mutated(bytearray("".join(draw.choice((records, [known, known]))).encode()), draw))


def check_trace(data: bytes, _: Random) -> None:
    """Records that are the same when written and read again."""
    records = decode_trace(data)
    assert decode_trace(encode_trace(records)) == records


def _beginning(draw: Random) -> bytes:
    made = Beginning(
        1 << 40,
        1 << draw.randint(12, 30),
        some_epochs(draw),
        {} if draw.randrange(4) else {"topics.json": b"{}", "x": draw.randbytes(9)},
        {("t", 0): 5, ("u", 3): 0},
    )
    return document_bytes(mutated_document(json.loads(json.dumps(beginning_document(made))), draw), draw)


def check_beginning(data: bytes, _: Random) -> None:
    """The same when it is sent on."""
    found = parse_beginning(data)
    assert parse_beginning(json.dumps(beginning_document(found)).encode()) == found


def _compacted_list(draw: Random) -> bytes:
    files = (
        ListedFile(draw.randrange(3), 1 + draw.randrange(500), 1 + draw.randrange(9), 7, 3, 3 + draw.randrange(9), 0),
    )
    manifest = Manifest(files, 12 + draw.randrange(9), (4096, 80), 4, 1, 0).encode().decode()
    queues = [["t", draw.randrange(4), manifest] for _ in range(draw.randrange(3))]
    return document_bytes(mutated_document({"queues": queues}, draw), draw)


def check_compacted_list(data: bytes, _: Random) -> None:
    """The same when it is sent on."""
    found = [[topic, queue_id, manifest.encode().decode()] for topic, queue_id, manifest in parse_listed(data)]
    assert parse_listed(json.dumps({"queues": found}).encode()) == parse_listed(data)


def _http_head(draw: Random) -> bytes:
    head = draw.choice((b"GET", b"HEAD", b"POST")) + b" /metrics/detail?topic=%25RETRY%25g&a=b HTTP/1."
    head += draw.choice((b"0", b"1", b"2")) + b"\r\nHost: a:1\r\nAccept: text/plain;q=0.5\r\nContent-Length: 0"
    return bytes(mutated(bytearray(head), draw)) if draw.random() < 0.8 else head


def check_http_head(data: bytes, _: Random) -> None:
    """What is taken is a path with few parameters."""
    request = decode_head(data)
    assert request.path.startswith("/")
    assert len(request.query) <= PARAMETERS_MAX


_SERVER_HELLO = GREETING + command(b"READY", b"\x0bSocket-Type\0\0\0\6ROUTER")


def _zmtp(draw: Random, hello: bytes = _SERVER_HELLO) -> bytes:
    data = bytearray(hello)
    for _ in range(draw.randrange(6)):
        kind, body = draw.randrange(4), draw.randbytes(draw.choice((0, 1, 9, 255, 256, 3000)))
        if kind == 0:
            data += command(draw.choice((b"PING", b"ERROR", b"READY", b"x")), body[:20])
        else:
            data += frame_begin(len(body), MORE if kind == 1 else 0) + body
    return bytes(mutated(data, draw))


def check_zmtp(data: bytes, draw: Random) -> None:
    """In any pieces it says the same as whole."""
    whole = _said(FrameReader(2048), [data])
    assert _said(FrameReader(2048), _pieces(data, draw)) == whole


def _pieces(data: bytes, draw: Random) -> list[bytes]:
    pieces, at = [], 0
    while at < len(data):
        size = draw.choice((1, 2, 7, 64, 500))
        pieces.append(data[at : at + size])
        at += size
    return pieces


def _said(reader: FrameReader, pieces: list[bytes]) -> tuple[list[tuple[bytes, bytes]], str]:
    """The messages, and how it ended."""
    messages = []
    try:
        for piece in pieces:
            reader.feed(piece)
            while (message := reader.next_message()) is not None:
                messages.append(message)
    except (RemoteProtocolError, NotTaken) as error:
        return messages, type(error).__name__
    return messages, "open" if reader.is_open else "begins"


def check_zmtp_peer(data: bytes, draw: Random) -> None:
    """In any pieces, each in the place of the one before, a client says the same as whole."""
    assert _said_by_peer(_pieces(data, draw)) == _said_by_peer([data])


def _said_by_peer(pieces: list[bytes]) -> tuple[list[tuple[bytes, bytes, bool, bool, int]], str]:
    """The messages, and how it ended."""
    reader, messages = PeerReader(b"i", 2048), []

    def take(one: PeerMessage) -> None:
        _, header, has_payload, chunks, size_bytes, is_whole = one
        payload = b"".join(chunks)
        assert len(payload) == (size_bytes if is_whole else 0)
        messages.append((header, payload, has_payload, is_whole, size_bytes))

    place = bytearray(max(map(len, pieces), default=0))
    try:
        for piece in pieces:
            place[: len(piece)] = piece
            reader.take(memoryview(place)[: len(piece)], take)
    except RemoteProtocolError:
        return messages, "ended"
    return messages, "open" if reader.is_open else "begins"


WIRE_TARGETS = (
    Target("zmtp", _zmtp, check_zmtp),
    Target("zmtp-peer", lambda draw: _zmtp(draw, HELLO), check_zmtp_peer),
    Target("request", _request, check_request, (RemoteProtocolError, LocalProtocolError)),
    Target("reply", _reply, check_reply, (RemoteProtocolError,)),
    Target("replication-frame", _replication_frame, check_replication_frame, (RemoteProtocolError,)),
    Target("chunk-payload", _chunk_payload, check_chunk_payload, (RemoteProtocolError,)),
    Target("packed-body", _packed_body, check_packed_body, (RemoteProtocolError,)),
    Target("places", _places, check_places, (RemoteProtocolError,)),
    Target("texts", _text, check_texts, (InvalidParameter, SqlSyntaxError)),
    Target("properties", lambda draw: bytes(mutated(bytearray(properties(draw)), draw)), check_properties),
    Target("trace", _trace, check_trace, (TraceDamaged,)),
    Target("http-head", _http_head, check_http_head, (BadHttpRequest,)),
    Target("beginning", _beginning, check_beginning, (RemoteProtocolError,)),
    Target("compacted-list", _compacted_list, check_compacted_list, (RemoteProtocolError,)),
)
