"""What clients of the classic protocol send: frames in both forms, fields, JSON bodies, batches; and records for them."""

from __future__ import annotations

import json
import struct
from random import Random

from kernels import interpreted_kernel
from zenitmq.model.errors import (
    CorruptRecordError,
    InvalidParameter,
    MessageIllegal,
    MessageTooLarge,
    RemoteProtocolError,
)
from zenitmq.model.ids import HostAddress
from zenitmq.model.properties import UNIQUE_KEY, decode_properties
from zenitmq.proxy.classic import bodies
from zenitmq.proxy.classic.fields import ROWS, FieldKind, read_fields
from zenitmq.proxy.classic.frames import ClassicFrame, decode_frame, encode_frame, frame_bytes
from zenitmq.proxy.classic.records import (
    TELLING_NAMES,
    ReadableRecords,
    read_batch,
    readable_records,
    sent_properties,
    telling_properties,
)
from zenitmq.record import kernel
from zenitmq.record.compression import compress_lz4
from zenitmq.record.kernel import decode_batch, encode_record

from .kernel_targets import properties
from .mutation import document_bytes, mutated, mutated_document
from .target import Target

_TEXTS = ("", "a", "0", "-1", "true", "%RETRY%g", "x" * 300, "é\U0001f600", "TAGS\x01a\x02", str(1 << 62))
_SUBSCRIPTION = {"topic": "trades", "subString": "a || b", "expressionType": "TAG", "tagsSet": ["a"], "codeSet": [97]}
_DOCUMENTS = (
    {
        "clientID": "c",
        "producerDataSet": [{"groupName": "p"}],
        "consumerDataSet": [
            {"groupName": "g", "messageModel": "CLUSTERING", "subscriptionDataSet": [_SUBSCRIPTION], "unitMode": None}
        ],
        "heartbeatFingerprint": 5,
    },
    {"consumerGroup": "g", "clientId": "c", "mqSet": [{"topic": "t", "brokerName": "b", "queueId": 1}]},
    {"topic": "t", "consumerGroup": "g", "clientId": "c", "strategyName": "AVG", "messageModel": "CLUSTERING"},
    {"clientId": "c", "group": "g", "subscriptionData": _SUBSCRIPTION},
    {"groupName": "g", "retryMaxTimes": 3, "groupRetryPolicy": {"type": "CUSTOMIZED"}},
)
_READERS = (
    bodies.read_heartbeat,
    bodies.read_lock,
    bodies.read_assignment_question,
    bodies.read_client_check,
    bodies.read_group_settings,
)


def _frame(draw: Random) -> bytes:
    fields = {draw.choice(("a", "b", "topic", "queueId", "é")): draw.choice(_TEXTS) for _ in range(draw.randrange(5))}
    frame = ClassicFrame(
        draw.choice((10, 11, 34, 200050)), draw.randrange(99), draw.randrange(4), draw.choice(_TEXTS), fields, b"body"
    )
    frame.is_json = draw.randrange(2) == 0
    data = bytearray(encode_frame(frame))
    return bytes(mutated(data, draw, ((0, 4), (4, 4), (8, 2), (21, 4), (25, 4))))


def check_frame(data: bytes, _: Random) -> None:
    """A frame that is taken is one that can be sent on, and means the same then."""
    frame = decode_frame(data)
    assert frame_bytes(data) == len(data)
    assert decode_frame(encode_frame(frame)) == frame


def _fields(draw: Random) -> bytes:
    row = ROWS[draw.choice(list(ROWS))]
    given = {field.name: draw.choice(("5", "true", *_TEXTS)) for field in row.fields}
    given |= {field.short: draw.choice(("5", "false", "t")) for field in row.fields if field.short}
    return document_bytes(given, draw)


def check_fields(data: bytes, draw: Random) -> None:
    """Each field has its kind."""
    try:
        given = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        return
    row = ROWS[draw.choice(list(ROWS))]
    fields = read_fields(row, given, is_compact=draw.randrange(2) == 0)
    for field in row.fields:
        {FieldKind.TEXT: fields.text, FieldKind.NUMBER: fields.number, FieldKind.FLAG: fields.flag}[field.kind](
            field.name
        )


def _body(draw: Random) -> bytes:
    document = json.loads(json.dumps(draw.choice(_DOCUMENTS)))
    return document_bytes(mutated_document(document, draw), draw)


def check_body(data: bytes, draw: Random) -> None:
    """Whatever is read can be written."""
    repr(draw.choice(_READERS)(data)).encode()


def _batch(draw: Random) -> bytes:
    parts = []
    for _ in range(draw.randrange(1, 4)):
        body, text = draw.randbytes(draw.randrange(20)), draw.choice(_TEXTS).encode()
        size = 22 + len(body) + len(text)
        parts.append(struct.pack(">iiiii", size, 0, 0, 1, len(body)) + body + struct.pack(">H", len(text)) + text)
    return bytes(mutated(bytearray(b"".join(parts)), draw, ((0, 4), (16, 4))))


def check_batch(data: bytes, _: Random) -> None:
    """All its bytes are of one message or another."""
    messages = read_batch(data)
    sizes = sum(len(one.body) + len(one.properties) for one in messages)
    assert sizes <= len(data)
    for one in messages:
        decode_properties(one.properties)


def _sent_batch(draw: Random) -> bytes:
    parts = []
    for index in range(draw.choice((1, 1, 2, 3, 9))):
        body = bytes(draw.choice((0, 1, 20, 300)))
        text = b"UNIQ_KEY\x01%032d" % index + draw.choice((b"", b"\x02", b"\x02", b"\x02"))
        if not draw.randrange(3):
            text += b"TAGS\x01a\x02KEYS\x01k\x02WAIT\x01true" + draw.choice((b"", b"\x02"))
        if not draw.randrange(6):
            text = properties(draw) + text
        if not draw.randrange(9):
            text += draw.choice(TELLING_NAMES)[: draw.choice((-1, 99))] + draw.choice((b"", b"1", b"true\x02"))
        size = 22 + len(body) + len(text)
        head = struct.pack(">iiiii", size, 0, 0, draw.choice((0, 7, -1)), len(body))
        parts.append(head + body + struct.pack(">H", len(text)) + text)
    data = bytearray(b"".join(parts))
    return bytes(data if draw.randrange(3) else mutated(data, draw, ((0, 4), (16, 4))))


def check_sent_batch(data: bytes, draw: Random) -> None:
    """Both kernels say the same of it. What they make records of at once is what each message by itself would become."""
    forms = (kernel, interpreted_kernel())
    counts = {form.plain_batch_count(data, TELLING_NAMES) for form in forms}
    assert len(counts) == 1, counts
    (count,) = counts
    if not count:
        return
    fields = {
        "topic": draw.choice((b"t", b"y" * 128)),
        "sys_flag": draw.choice((0, 1, 0x301)),
        "born_timestamp_ms": draw.choice((1, 1 << 62)),
        "born_host": bytes(draw.choice((8, 20))),
        "reconsume_times": draw.choice((0, 3)),
    }
    host_bytes, own = draw.choice((8, 20)), draw.choice((b"", b"PSEQ\x01" + b"?" * 18 + b"\x02"))
    expected = []
    for one in read_batch(data):
        encoded = sent_properties(one.properties)
        assert list(telling_properties(encoded)) == [UNIQUE_KEY]
        expected.append(
            encode_record(
                **fields, flag=one.flag, body=one.body, properties=own + encoded, store_host=bytes(host_bytes)
            )
        )
    assert count == len(expected)
    for form in forms:
        records = form.batch_records(data, count, own_properties=own, store_host_bytes=host_bytes, **fields)
        assert records == b"".join(expected)


def _records(draw: Random) -> bytes:
    parts = []
    for _ in range(draw.randrange(1, 4)):
        is_packed = draw.randrange(2) == 0
        body = draw.randbytes(draw.randrange(40))
        parts.append(
            encode_record(
                topic=draw.choice(("t", "%RETRY%" + "g" * 200)).encode(),
                body=compress_lz4(body) if is_packed else body,
                properties=draw.choice((b"", b"RETRY_TOPIC\x01t\x02")),
                sys_flag=0x101 if is_packed else 0,
                born_host=bytes(draw.choice((8, 20))),
                store_host=bytes(draw.choice((8, 20))),
            )
        )
    return bytes(mutated(bytearray(b"".join(parts)), draw, ((0, 4), (36, 4), (84, 4))))


def check_records(data: bytes, draw: Random) -> None:
    """What comes out is records, as many as came in: an answer holds all of so few."""
    can = ReadableRecords(is_lz4=draw.randrange(2) == 0, is_long=draw.randrange(2) == 0)
    host = HostAddress(bytes(draw.choice((4, 16))), 1)
    written, left_out = readable_records(data, host, can)
    found = decode_batch(written)
    assert left_out == -1
    assert len(found) == len(decode_batch(data))
    assert all(one.store_host == host.encode() for one in found)


PROXY_TARGETS = (
    Target("classic-frame", _frame, check_frame, (RemoteProtocolError,)),
    Target("classic-fields", _fields, check_fields, (InvalidParameter,)),
    Target("classic-bodies", _body, check_body, (RemoteProtocolError,)),
    Target("classic-batch", _batch, check_batch, (MessageIllegal,)),
    Target("classic-sent-batch", _sent_batch, check_sent_batch),
    Target(
        "classic-records",
        _records,
        check_records,
        (RemoteProtocolError, CorruptRecordError, MessageTooLarge, MessageIllegal),
    ),
)
