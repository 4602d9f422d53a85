"""Messages of the gRPC protocol and records: what each field becomes, both ways, and what is refused with which code."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from typing import Any

import pytest

from zenitmq.client.sending.target import LiteTarget, Priority
from zenitmq.model.properties import decode_properties, encode_properties
from zenitmq.proxy.back.ready_message import ReadyMessage, SendKind, Stored
from zenitmq.proxy.schema import enum_value, message_class
from zenitmq.proxy.v2.authorization import Caller
from zenitmq.proxy.v2.mapping import check_type, fill_message, producer_group_of, ready_message, type_of
from zenitmq.proxy.v2.status import CallRefused, Code
from zenitmq.record.kernel import StoredMessage, decode_record, encode_record
from zenitmq.record.sys_flag import TRANSACTION_COMMIT

NOW = 1_700_000_000_000
CALLER = Caller("client@1", "", "JAVA", "5.2.0", "10.1.2.3", 40_001, "", "", b"")
Message = message_class("Message")


def asked(**fields: Any) -> Any:
    message = Message()
    message.topic.name = "trades"
    message.body = b"body"
    system = message.system_properties
    system.message_id = "01AB"
    system.body_encoding = enum_value("Encoding", "IDENTITY")
    for name, value in fields.items():
        if name == "body":
            message.body = value
        elif name == "properties":
            message.user_properties.update(value)
        elif name == "topic":
            message.topic.name = value
        elif name == "keys":
            system.keys.extend(value)
        elif name == "digest":
            system.body_digest.type, system.body_digest.checksum = enum_value("DigestType", value[0]), value[1]
        elif name in ("delivery_timestamp", "born_timestamp"):
            timestamp = getattr(system, name)
            timestamp.seconds, timestamp.nanos = value // 1000, value % 1000 * 1_000_000
        elif name == "orphaned_transaction_recovery_duration":
            system.orphaned_transaction_recovery_duration.seconds = value
        elif name == "kind":
            system.message_type = enum_value("MessageType", value)
        elif name == "encoding":
            system.body_encoding = enum_value("Encoding", value)
        else:
            setattr(system, name, value)
    return message


def ready(**fields: Any) -> ReadyMessage:
    return ready_message(asked(**fields), CALLER, NOW)[0]


def stored(message: ReadyMessage, **fields: Any) -> StoredMessage:
    record = encode_record(
        topic=message.topic.encode(),
        body=fields.pop("body", message.body),
        properties=fields.pop("properties", message.properties),
        queue_id=2,
        queue_offset=7,
        born_timestamp_ms=message.born_at_ms,
        born_host=message.born_host,
        store_timestamp_ms=NOW + 5,
        store_host=bytes((10, 0, 0, 1, 0, 0, 42, 159)),
        **fields,
    )
    return decode_record(record, "broker-a")


def test_a_message_goes_and_comes_as_it_was() -> None:
    sent = asked(
        tag="blue", keys=["k1", "k2"], properties={"region": "eu"}, born_timestamp=NOW - 9, trace_context="t-1"
    )
    message, target = ready_message(sent, CALLER, NOW)
    assert (message.kind, target, message.message_id, message.born_at_ms) == (SendKind.PLAIN, None, "01AB", NOW - 9)
    assert message.born_host == bytes((10, 1, 2, 3, 0, 0, 0x9C, 0x41))
    assert decode_properties(message.properties) == {
        "region": "eu",
        "TAGS": "blue",
        "KEYS": "k1 k2",
        "TRACE_CONTEXT": "t-1",
        "UNIQ_KEY": "01AB",
    }
    got = Message()
    fill_message(got, stored(message), "", handle="a-handle", invisible_ms=30_500)
    system = got.system_properties
    assert (got.topic.name, got.body, dict(got.user_properties)) == ("trades", b"body", {"region": "eu"})
    assert (system.tag, list(system.keys), system.message_id) == ("blue", ["k1", "k2"], "01AB")
    assert system.body_digest.checksum == hashlib.md5(b"body").hexdigest().upper()
    assert (system.born_timestamp.seconds, system.born_host) == ((NOW - 9) // 1000, "10.1.2.3:40001")
    assert (system.store_host, system.queue_id, system.queue_offset) == ("10.0.0.1:10911", 2, 7)
    assert (system.receipt_handle, system.delivery_attempt, system.invisible_duration.seconds) == ("a-handle", 1, 30)
    assert (system.message_type, system.trace_context) == (enum_value("MessageType", "NORMAL"), "t-1")


def test_without_a_born_time_it_is_now_and_the_client_may_name_its_host() -> None:
    message = ready(born_host="host-7")
    assert message.born_at_ms == NOW
    got = Message()
    fill_message(got, stored(message), "")
    assert got.system_properties.born_host == "host-7"
    assert not got.system_properties.HasField("receipt_handle")


@pytest.mark.parametrize("address", ["", "no address"])
def test_a_caller_without_an_address_is_born_nowhere(address: str) -> None:
    caller = Caller("c", "", "", "", address, 0, "", "", b"")
    assert ready_message(asked(), caller, NOW)[0].born_host == bytes(8)


@pytest.mark.parametrize(
    ("fields", "kind", "target", "own", "told"),
    [
        ({"message_group": "order-7"}, SendKind.PLAIN, "order-7", {"__SHARDINGKEY": "order-7"}, "FIFO"),
        (
            {"delivery_timestamp": NOW + 2500},
            SendKind.DELAYED,
            None,
            {"TIMER_DELIVER_MS": str(NOW + 2500)},
            "DELAY",
        ),
        ({"kind": "TRANSACTION"}, SendKind.HALF, None, {"HALF_SENDER": "client@1/0"}, "TRANSACTION"),
        (
            {"kind": "TRANSACTION", "orphaned_transaction_recovery_duration": 90},
            SendKind.HALF,
            None,
            {"HALF_SENDER": "client@1/0", "CHECK_IMMUNITY_TIME_IN_SECONDS": "90"},
            "TRANSACTION",
        ),
        (
            {"kind": "TRANSACTION", "orphaned_transaction_recovery_duration": 0},
            SendKind.HALF,
            None,
            {"HALF_SENDER": "client@1/0"},
            "TRANSACTION",
        ),
        ({"priority": 12}, SendKind.PLAIN, Priority(9), {"_SYS_MSG_PRIORITY_": "9"}, "PRIORITY"),
        ({"priority": 0, "kind": "PRIORITY"}, SendKind.PLAIN, Priority(0), {"_SYS_MSG_PRIORITY_": "0"}, "PRIORITY"),
        ({"priority": 0}, SendKind.PLAIN, None, {}, "NORMAL"),
        ({"priority": -1}, SendKind.PLAIN, None, {}, "NORMAL"),
    ],
)
def test_each_kind_of_message_says_where_it_goes_and_comes_back_as_that_kind(
    fields: dict[str, Any], kind: SendKind, target: object, own: dict[str, str], told: str
) -> None:
    message, where = ready_message(asked(**fields), CALLER, NOW)
    assert (message.kind, where) == (kind, target)
    assert decode_properties(message.properties) == {**own, "UNIQ_KEY": "01AB"}
    assert type_of(message, where) == enum_value("MessageType", told)
    got = Message()
    sys_flag = TRANSACTION_COMMIT if kind is SendKind.HALF else 0
    fill_message(got, stored(message, sys_flag=sys_flag), "")
    assert got.system_properties.message_type == enum_value("MessageType", told)
    if kind is SendKind.DELAYED:
        assert got.system_properties.delivery_timestamp.nanos == 500_000_000


def test_a_lite_message_names_its_light_queue() -> None:
    message, where = ready_message(asked(lite_topic="session-42"), CALLER, NOW)
    assert where == LiteTarget(("session-42",))
    assert type_of(message, where) == enum_value("MessageType", "LITE")
    assert "INNER_MULTI_DISPATCH" in decode_properties(message.properties)
    got = Message()
    fill_message(got, stored(message), "")
    assert got.system_properties.lite_topic == "session-42"
    assert got.system_properties.message_type == enum_value("MessageType", "LITE")


def test_a_dead_letter_says_where_it_was_first() -> None:
    properties = encode_properties(
        {"DLQ_ORIGIN_TOPIC": "ns%trades", "DLQ_ORIGIN_MESSAGE_ID": "0A0B", "UNIQ_KEY": "01AB"}
    )
    for namespace, topic in (("ns", "trades"), ("", "ns%trades")):
        got = Message()
        fill_message(got, stored(ready(), properties=properties), namespace)
        letter = got.system_properties.dead_letter_queue
        assert (letter.topic, letter.message_id) == (topic, "0A0B")


def test_what_others_wrote_into_such_properties_is_no_error() -> None:
    properties = encode_properties({"TIMER_DELIVER_MS": "soon", "_SYS_MSG_PRIORITY_": "high", "UNIQ_KEY": "01AB"})
    got = Message()
    fill_message(got, stored(ready(), properties=properties), "")
    assert not got.system_properties.HasField("delivery_timestamp")
    assert not got.system_properties.HasField("priority")


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_packed_body_is_stored_plain(pack: Any) -> None:
    assert ready(body=pack(b"x" * 5000), encoding="GZIP").body == b"x" * 5000


@pytest.mark.parametrize(
    "digest",
    [
        ("CRC32", f"{zlib.crc32(b'body'):X}"),
        ("CRC32", f"{zlib.crc32(b'body'):08x}"),
        ("CRC32", str(zlib.crc32(b"body"))),
        ("MD5", hashlib.md5(b"body").hexdigest()),
        ("SHA1", hashlib.sha1(b"body").hexdigest().upper()),
        ("MD5", ""),
    ],
)
def test_digests_are_taken_in_every_spelling_of_a_client(digest: tuple[str, str]) -> None:
    assert ready(digest=digest).body == b"body"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "no topic"}, Code.ILLEGAL_TOPIC),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, Code.ILLEGAL_TOPIC),
        ({"body": b""}, Code.MESSAGE_BODY_EMPTY),
        ({"body": bytes((4 << 20) + 1)}, Code.MESSAGE_BODY_TOO_LARGE),
        ({"body": gzip.compress(bytes((4 << 20) + 1)), "encoding": "GZIP"}, Code.MESSAGE_BODY_TOO_LARGE),
        ({"body": b"no gzip", "encoding": "GZIP"}, Code.MESSAGE_CORRUPTED),
        ({"body": gzip.compress(b"x" * 100)[:-9], "encoding": "GZIP"}, Code.MESSAGE_CORRUPTED),
        ({"digest": ("CRC32", "1234")}, Code.MESSAGE_CORRUPTED),
        ({"digest": ("MD5", "1234")}, Code.MESSAGE_CORRUPTED),
        ({"digest": ("SHA1", "1234")}, Code.MESSAGE_CORRUPTED),
        ({"digest": ("DIGEST_TYPE_UNSPECIFIED", "1234")}, Code.BAD_REQUEST),
        ({"message_id": ""}, Code.ILLEGAL_MESSAGE_ID),
        ({"message_id": "a\x01b"}, Code.ILLEGAL_MESSAGE_ID),
        ({"message_id": "i" * 256}, Code.ILLEGAL_MESSAGE_ID),
        ({"tag": "a|b"}, Code.ILLEGAL_MESSAGE_TAG),
        ({"tag": "a\x02"}, Code.ILLEGAL_MESSAGE_TAG),
        ({"keys": ["a b"]}, Code.ILLEGAL_MESSAGE_KEY),
        ({"keys": [""]}, Code.ILLEGAL_MESSAGE_KEY),
        ({"properties": {"KEYS": "x"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {"PSEQ": "x"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {"": "x"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {"a": ""}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {"a": "b\x02c"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {str(number): "x" for number in range(129)}}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"properties": {"a": "x" * 16_384}}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"message_group": "g" * 65}, Code.ILLEGAL_MESSAGE_GROUP),
        ({"message_group": " "}, Code.ILLEGAL_MESSAGE_GROUP),
        ({"delivery_timestamp": NOW + 31 * 86_400_000}, Code.ILLEGAL_DELIVERY_TIME),
        ({"delivery_timestamp": -5}, Code.ILLEGAL_DELIVERY_TIME),
        ({"lite_topic": "no lite topic"}, Code.ILLEGAL_LITE_TOPIC),
        ({"message_group": "g", "priority": 3}, Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"message_group": "g", "kind": "TRANSACTION"}, Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"kind": "TRANSACTION", "orphaned_transaction_recovery_duration": 3601}, Code.BAD_REQUEST),
        ({"trace_context": "a\x01"}, Code.BAD_REQUEST),
        ({"born_host": "\x02"}, Code.BAD_REQUEST),
    ],
)
def test_what_is_refused_has_its_code(fields: dict[str, Any], code: Code) -> None:
    with pytest.raises(CallRefused) as refused:
        ready(**fields)
    assert refused.value.code is code
    assert str(refused.value)


def test_a_topic_of_one_type_takes_no_other() -> None:
    message, where = ready_message(asked(message_group="g"), CALLER, NOW)
    for kind in ("FIFO", "MIXED", "UNSPECIFIED", "a later type"):
        check_type(message, where, kind)
    with pytest.raises(CallRefused) as refused:
        check_type(message, where, "NORMAL")
    assert refused.value.code is Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


def test_the_producers_of_a_long_topic_have_a_group_nevertheless() -> None:
    assert producer_group_of("t" * 127) == "t" * 120


def test_where_a_message_is_names_how_it_goes_on() -> None:
    from zenitmq.model.handles.transaction import TransactionId
    from zenitmq.model.queue import MessageQueue

    queue = MessageQueue("trades", "broker-a", 1)
    place = Stored("01AB", queue, 7, 99, bytes((10, 0, 0, 1, 0, 0, 42, 159)))
    assert place.offset_message_id == "0A00000100002A9F0000000000000063"
    assert place.recall_handle == ""
    assert TransactionId.parse(place.transaction_id) == TransactionId("broker-a", "trades", 99, "01AB")


def test_an_ipv6_host_is_told_in_brackets() -> None:
    caller = Caller("c", "", "", "", "::1", 7, "", "", b"")
    got = Message()
    fill_message(got, stored(ready_message(asked(), caller, NOW)[0]), "")
    assert got.system_properties.born_host == "[::1]:7"


def test_what_a_broker_would_refuse_with_all_beside_it_is_refused_before() -> None:
    from dataclasses import replace

    from zenitmq.model.errors import MessageIllegal, MessageTooLarge

    message = ready()
    message.check()
    assert message.size_bytes > len(message.body)
    assert decode_record(message.record(b"own\x01x\x02", 20)).properties["own"] == "x"
    for wrong, error in (
        (replace(message, body=bytes((4 << 20) + 1)), MessageTooLarge),
        (replace(message, properties=bytes(32_000)), MessageTooLarge),
        (replace(message, properties=b"PSEQ\x01x\x02"), MessageIllegal),
        (replace(message, properties=b"a\x01b\x02PSEQ\x01x\x02"), MessageIllegal),
    ):
        with pytest.raises(error):
            wrong.check()


def test_a_delayed_message_that_is_stored_can_be_recalled() -> None:
    from zenitmq.model.handles.recall_handle import RecallHandle
    from zenitmq.model.queue import MessageQueue

    place = Stored("01AB", MessageQueue("trades", "broker-a", 1), -1, 99, bytes(8), deliver_at_ms=NOW)
    assert RecallHandle.parse(place.recall_handle) == RecallHandle("trades", "broker-a", NOW, "01AB")
