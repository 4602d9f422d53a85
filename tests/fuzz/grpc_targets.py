"""What clients of the gRPC protocol send: messages, settings, metadata."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any

from zenitmq.model.errors import HandleRefused, MessageIllegal, MessageTooLarge, RemoteProtocolError
from zenitmq.proxy.back.group_rules import GroupRules, group_rules
from zenitmq.proxy.back.lite_receipt import LiteReceipt
from zenitmq.proxy.http2.connection import Http2Connection, Http2Stream
from zenitmq.proxy.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    HEADERS,
    INITIAL_WINDOW,
    NUMBER_MAX,
    PREFACE,
    ConnectionFault,
    Http2Code,
    frame,
    reset,
    window_update,
)
from zenitmq.proxy.http2.frames import settings as settings_frame
from zenitmq.proxy.http2.grpc_messages import GrpcRefused, GrpcStatus, MessageReader, encode_message, trailers
from zenitmq.proxy.http2.headers import encode_headers
from zenitmq.proxy.schema import decoder, message_class
from zenitmq.proxy.v2.authorization import Caller, caller_of, check_moment
from zenitmq.proxy.v2.mapping import check_type, fill_message, ready_message
from zenitmq.proxy.v2.settings import answered_settings, told_settings
from zenitmq.proxy.v2.status import CallRefused
from zenitmq.record.kernel import decode_record

from .mutation import document_bytes, mutated, mutated_document
from .target import Target

_SendMessageRequest, _Message, _Settings = map(message_class, ("SendMessageRequest", "Message", "Settings"))
_CALLER = Caller("c", "ns", "JAVA", "5", "10.1.2.3", 7, "", "", b"")
_NOW_MS = 1_700_000_000_000
_TEXTS = ("", "a", "b c", "x" * 300, "\u00e9\U0001f600", "a\x01b", "KEYS", "%DLQ%g", "trades", "g")
_NUMBERS = (0, 1, -1, 3, 1 << 31, _NOW_MS // 1000 + 60, (1 << 63) - 1, -(1 << 63))


def _message(draw: Random) -> bytes:
    request = _SendMessageRequest()
    one = request.messages.add()
    one.topic.name, one.body = draw.choice(("trades", *_TEXTS)), draw.randbytes(draw.randrange(1, 40))
    system = one.system_properties
    system.message_id = draw.choice(("01AB", *_TEXTS))
    if draw.randrange(3) == 0:
        one.user_properties[draw.choice(_TEXTS)] = draw.choice(_TEXTS)
    for name in ("tag", "message_group", "trace_context", "lite_topic"):
        if draw.randrange(6) == 0:
            setattr(system, name, draw.choice(_TEXTS))
    for name in ("born_timestamp", "delivery_timestamp", "orphaned_transaction_recovery_duration"):
        if draw.randrange(4) == 0:
            getattr(system, name).seconds = draw.choice(_NUMBERS)
    if draw.randrange(6) == 0:
        system.priority = draw.randrange(-3, 20)
    system.message_type, system.body_encoding = draw.randrange(8), draw.choice((0, 1, 1, 1, 2, 9))
    if draw.randrange(6) == 0:
        system.body_digest.type, system.body_digest.checksum = draw.randrange(5), draw.choice(_TEXTS)
    return bytes(mutated(bytearray(request.SerializeToString()), draw, ((0, 1), (1, 1), (3, 1))))


def check_message(data: bytes, draw: Random) -> None:
    """What is taken is a record, and comes back as a message."""
    for one in decoder(_SendMessageRequest)(data).messages:
        ready, target = ready_message(one, _CALLER, _NOW_MS)
        ready.check()
        check_type(ready, target, "UNSPECIFIED")
        stored = decode_record(ready.record(b"", draw.choice((8, 20))))
        told = _Message()
        fill_message(told, stored, "ns", handle="h", invisible_ms=5)
        assert (told.body, told.system_properties.message_id) == (ready.body, ready.message_id)


def _settings(draw: Random) -> bytes:
    settings = _Settings(client_type=draw.randrange(9))
    if draw.randrange(2):
        for _ in range(draw.randrange(3)):
            settings.publishing.topics.add(name=draw.choice(("trades", *_TEXTS)))
    else:
        settings.subscription.group.name = draw.choice(("g", *_TEXTS))
        for _ in range(draw.randrange(3)):
            entry = settings.subscription.subscriptions.add()
            entry.topic.name = "trades"
            entry.expression.type, entry.expression.expression = (
                draw.randrange(4),
                draw.choice(("a > 1", "a || b", "||")),
            )
    return bytes(mutated(bytearray(settings.SerializeToString()), draw, ((0, 1), (1, 1))))


def check_settings(data: bytes, draw: Random) -> None:
    """What is taken can be told to brokers, and is answered."""
    settings = decoder(_Settings)(data)
    told = told_settings(settings)
    told.client(_CALLER)
    answered_settings(settings, told, GroupRules(draw.randrange(99), (1, 1 << 40))).SerializeToString()


def _metadata(draw: Random) -> bytes:
    said = "MQv2-HMAC-SHA1 Credential=ak/x, SignedHeaders=x-mq-date-time, Signature=AB"
    document: dict[str, Any] = {
        "x-mq-client-id": draw.choice(_TEXTS),
        "x-mq-language": draw.choice(("JAVA", *_TEXTS)),
        "x-mq-date-time": draw.choice(_TEXTS),
        "authorization": draw.choice((said, said[: draw.randrange(len(said))], *_TEXTS)),
        "peer": draw.choice(("ipv4:1.2.3.4:5", "ipv6:%5B::1%5D:7", *_TEXTS)),
        "group": {
            "retryMaxTimes": 3,
            "groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"max": 9}},
        },
    }
    return document_bytes(mutated_document(document, draw), draw)


def check_metadata(data: bytes, _: Random) -> None:
    """Who calls, whatever it says; and a group's settings, whoever wrote them."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(document, dict):
        return
    group = document.get("group")
    group_rules(group if isinstance(group, dict) else {})
    pairs = {name: value for name, value in document.items() if isinstance(value, str)}
    caller = caller_of(pairs, str(document.get("peer")))
    assert caller.access_key or not caller.signature
    with suppress(CallRefused):
        check_moment(caller, 1 << 40, 1 << 35)


def _lite_receipt(draw: Random) -> bytes:
    words = [
        "lite",
        draw.choice(("a", *_TEXTS)),
        str(draw.choice(_NUMBERS)),
        str(draw.randrange(40)),
        "1",
        "2",
        "b",
        "g",
        "t",
    ]
    if draw.randrange(2):
        words[draw.randrange(len(words))] = draw.choice(_TEXTS)
    return " ".join(words).encode(errors="replace")


def check_lite_receipt(data: bytes, _: Random) -> None:
    """What is taken names the same message again."""
    receipt = LiteReceipt.parse(data.decode(errors="replace"))
    assert receipt is None or LiteReceipt.parse(receipt.text()) == receipt


_BLOCK = encode_headers(
    [(":method", "POST"), (":scheme", "http"), (":path", "/p"), ("te", "trailers"), ("x-mq-client-id", "c")]
)
_FRAMES = (
    lambda draw: frame(HEADERS, END_HEADERS | draw.randrange(2), draw.choice((1, 3, 5)), _BLOCK),
    lambda draw: frame(HEADERS, draw.randrange(256), draw.choice((1, 3, 5)), _BLOCK[: draw.randrange(20)]),
    lambda draw: frame(CONTINUATION, draw.choice((0, 4)), draw.choice((1, 3)), _BLOCK[draw.randrange(20) :]),
    lambda draw: frame(DATA, draw.choice((0, 0, 1, 8)), draw.choice((1, 3)), encode_message(draw.randbytes(9))),
    lambda draw: window_update(draw.choice((0, 1, 3)), draw.choice((0, 1, 10, 70_000, 70_000, NUMBER_MAX))),
    lambda draw: settings_frame({draw.randrange(8): draw.choice((0, 1, 20_000, 20_000, NUMBER_MAX))}),
    lambda draw: reset(draw.choice((1, 3)), Http2Code.CANCEL),
    lambda draw: frame(draw.randrange(12), draw.randrange(256), draw.randrange(4), draw.randbytes(draw.choice((4, 8)))),
)


def _http2(draw: Random) -> bytes:
    data = bytearray(PREFACE + settings_frame({INITIAL_WINDOW: draw.choice((0, 10, 65_535))}))
    for number in range(draw.randrange(12)):
        data += draw.choice(_FRAMES if draw.randrange(3) else _FRAMES[:1])(draw) if number else _FRAMES[0](draw)
    return bytes(mutated(data, draw, ((0, 1), (3, 1)))) if draw.randrange(2) else bytes(data)


class _Answering:
    """Answers each request with what came of it."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self.readers: dict[int, MessageReader] = {}
        self.connection = Http2Connection(self)

    def on_request(self, stream: Http2Stream, fields: dict[str, str]) -> None:
        assert fields[":path"]
        self.readers[stream.number] = MessageReader(self._draw.choice(("", "gzip")))

    def on_data(self, stream: Http2Stream, data: bytes) -> None:
        reader = self.readers[stream.number]
        with suppress(GrpcRefused):
            reader.add(data)
            while (message := reader.take()) is not None:
                self.connection.give_room(stream, len(message))
        if stream.is_ended:
            self.connection.send_data(stream, bytes(self._draw.choice((0, 5, 90_000))))
            self.connection.end(stream, trailers(GrpcStatus.OK))

    def on_reset(self, stream: Http2Stream) -> None:
        del self.readers[stream.number]


def check_http2(data: bytes, draw: Random) -> None:
    """Whatever the pieces. What is kept is little, and belongs to streams that go on."""
    answering = _Answering(draw)
    connection = answering.connection
    piece = draw.choice((1, 10, 1 << 20))
    for at in range(0, len(data), piece):
        connection.receive(data[at : at + piece])
        assert connection.held_bytes < len(data) + 100
        assert connection.unsent_bytes == sum(len(one) for each in connection.streams.values() for one in each.unsent)


GRPC_TARGETS = (
    Target(
        "grpc-message", _message, check_message, (RemoteProtocolError, CallRefused, MessageIllegal, MessageTooLarge)
    ),
    Target("grpc-settings", _settings, check_settings, (RemoteProtocolError, CallRefused)),
    Target("grpc-http2", _http2, check_http2, (ConnectionFault,)),
    Target("grpc-metadata", _metadata, check_metadata, (CallRefused,)),
    Target("grpc-lite-receipt", _lite_receipt, check_lite_receipt, (HandleRefused,)),
)
