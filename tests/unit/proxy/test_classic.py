"""The pure parts of the classic front: bounds of what comes in, and what a client gets that cannot read all."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.model.errors import (
    BrokerBusy,
    CorruptRecordError,
    FlushTimeout,
    HandleRefused,
    InvalidParameter,
    MessageIllegal,
    RemoteProtocolError,
    TopicNotFound,
    ZenitError,
    error_classes,
)
from zenitmq.model.get_status import GetStatus
from zenitmq.model.ids import HostAddress
from zenitmq.model.properties import decode_properties
from zenitmq.proxy.back.pops import PoppedMessage
from zenitmq.proxy.classic import read_handlers, records
from zenitmq.proxy.classic.bodies import NODES_MAX, read_heartbeat, read_json, read_lock
from zenitmq.proxy.classic.calls import BrokerPorts
from zenitmq.proxy.classic.cluster_handlers import cluster_route, group_route, topic_attributes
from zenitmq.proxy.classic.codes import STATUSES, ClassicStatus, status_of
from zenitmq.proxy.classic.fields import ROWS, read_fields
from zenitmq.proxy.classic.frames import (
    FIELDS_MAX,
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    ClassicFrame,
    decode_frame,
    encode_frame,
    frame_bytes,
)
from zenitmq.proxy.classic.read_handlers import handle_of, popped_record, popped_records, pull_status
from zenitmq.proxy.classic.records import (
    ReadableRecords,
    is_delayed,
    is_half,
    priority_of,
    read_batch,
    readable,
    readable_records,
    sent_properties,
    telling_properties,
    whole_properties,
)
from zenitmq.proxy.classic.requests import share_bytes
from zenitmq.proxy.classic.told_subscriptions import subscriptions_told
from zenitmq.record.compression import compress_lz4
from zenitmq.record.kernel import decode_batch, encode_record
from zenitmq.record.sys_flag import COMPRESSED, COMPRESSION_LZ4

HERE = HostAddress(bytes((10, 0, 0, 9)), 10911)


def framed(header: bytes, kind: int = 0, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


@pytest.mark.parametrize("is_json", [True, False])
def test_frames_come_back_as_they_were(is_json: bool) -> None:
    frame = ClassicFrame(10, -5, 2, "é", {"a": "x\x01y\U0001f600", "": ""}, b"\0body", "GO", 317, is_json)
    assert decode_frame(encode_frame(frame)) == frame


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0\4",
        framed(b"{}")[:-1],
        framed(b"{}") + b"x",
        framed(b"[]"),
        framed(b"{"),
        framed(b"[" * 20_000),
        framed(b'{"code":"x"}'),
        framed(b'{"code":%d}' % (1 << 31)),
        framed(b'{"extFields":[]}'),
        framed(b'{"extFields":{"a":{}}}'),
        framed(json.dumps({"extFields": {str(n): "" for n in range(FIELDS_MAX + 1)}}).encode()),
        framed(b" " * (HEADER_BYTES_MAX + 1)),
        framed(b'{"extFields":{"a":"\\ud800"}}'),
        framed(b"{}", kind=2),
        framed(b'{"extFields":{"a":"\xed\xa0\x80"}}'),
        framed("{}".encode("utf-16")),
        framed(bytes(17), kind=1),
        framed(bytes(17) + struct.pack(">i", 1), kind=1),
        framed(struct.pack(">hBhiiii", 1, 0, 0, 1, 0, -1, 0), kind=1),
        framed(bytes(17) + b"\0\0\0\0" + struct.pack(">ih", 4, -3), kind=1),
        struct.pack(">II", 4, 5),
    ],
)
def test_frames_that_are_none(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_frame(data)


def test_a_frame_has_a_largest_size() -> None:
    with pytest.raises(RemoteProtocolError):
        frame_bytes((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    with pytest.raises(RemoteProtocolError):
        frame_bytes(b"\x16\x03\x01\x00")  # TLS
    with pytest.raises(RemoteProtocolError):
        encode_frame(ClassicFrame(0, 1, body=bytes(FRAME_BYTES_MAX)))


def test_unknown_languages_and_plain_numbers_are_taken() -> None:
    header = b'{"code":34,"language":"KOTLIN","opaque":1,"extFields":{"a":5,"b":true,"c":null,"d":1.5}}'
    frame = decode_frame(framed(header))
    assert (frame.language, frame.fields) == ("OTHER", {"a": "5", "b": "true", "d": "1.5"})
    assert decode_frame(framed(b'{"language":9}')).language == "GO"


@pytest.mark.parametrize(
    ("given", "wrong"),
    [({}, "topic"), ({"topic": "t"}, "queueId"), ({"topic": "t", "queueId": "1x"}, "queueId")]
    + [({"topic": "t", "queueId": text}, "queueId") for text in ("", "٣", "9" * 21, str(1 << 63))]
    + [({"topic": "t", "queueId": "1", "committed": "maybe"}, "committed"), ({"topic": "x" * 40_000}, "topic")],
)
def test_wrong_fields_are_named(given: dict[str, str], wrong: str) -> None:
    with pytest.raises(InvalidParameter) as failed:
        read_fields(ROWS[30], given)
    assert failed.value.args[0] == wrong


def test_fields_of_clients_that_write_them_otherwise() -> None:
    fields = read_fields(ROWS[30], {"topic": "t", "queueId": "-1", "committed": "0", "more": "x"})
    assert (fields.number("queueId"), fields.flag("committed"), fields.text("bname")) == (-1, False, "")
    compact = {"b": "t", "e": "1", "bname": "broker-a"}
    assert read_fields(ROWS[310], compact, is_compact=True).text("bname") == "broker-a"


def test_json_bodies_are_bounded() -> None:
    bombs = (
        b"[" * 90_000,
        b'{"a":' * 90_000,
        b"[{}]" * NODES_MAX,
        bytes(2 << 20),
        b"[]",
        b'{"a":1e',
        b'{"a":"\xed\xa0\x80"}',
        b"\xff",
        b'{"a":"\\uD800"}',
    )
    for body in bombs:
        with pytest.raises(RemoteProtocolError):
            read_json(body)
    for document in (
        {},
        {"clientID": 5},
        {"clientID": "c", "producerDataSet": {}},
        {"clientID": "c", "consumerDataSet": [1]},
    ):
        with pytest.raises(RemoteProtocolError):
            read_heartbeat(json.dumps(document).encode())
    with pytest.raises(RemoteProtocolError):
        read_lock(b'{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"t","brokerName":"b","queueId":true}]}')


@pytest.mark.parametrize(
    "body",
    [
        b"",
        bytes(21),
        struct.pack(">iiiii", 22, 0, 0, 0, 1) + bytes(2),
        struct.pack(">iiiii", 22, 0, 0, 0, -1) + bytes(2),
        struct.pack(">iiiii", 23, 0, 0, 0, 0) + bytes(3),
        struct.pack(">iiiii", 22, 0, 0, 0, 0) + b"\0\1",
        (struct.pack(">iiiii", 22, 0, 0, 0, 0) + bytes(2)) * 4097,
    ],
)
def test_batches_that_are_none(body: bytes) -> None:
    with pytest.raises(MessageIllegal):
        read_batch(body)


def test_properties_get_their_last_separator() -> None:
    assert whole_properties(b"") == b""
    assert whole_properties(b"a\x01b") == whole_properties(b"a\x01b\x02") == b"a\x01b\x02"


def test_the_priority_of_a_message() -> None:
    assert priority_of(b"TAGS\x01a\x02") is None
    assert priority_of(b"_SYS_MSG_PRIORITY_\x013\x02") == 3
    assert priority_of(b"_SYS_MSG_PRIORITY_\x01300\x02") == 9
    for other in (b"-1", b"x", b"1\x02__SHARDINGKEY\x01k", b"1\x02DELAY\x013", b"1\x02TRAN_MSG\x01true"):
        assert priority_of(b"_SYS_MSG_PRIORITY_\x01" + other + b"\x02") is None


def test_what_brokers_noted_in_a_message_is_not_sent_with_it_again() -> None:
    assert sent_properties(b"") == b""
    assert sent_properties(b"a\x01b") == b"a\x01b\x02"
    assert (
        sent_properties(b"PSEQ\x01x\x02a\x01PSEQ\x02HALF_OFFSET\x017\x02APSEQ\x01b") == b"a\x01PSEQ\x02APSEQ\x01b\x02"
    )
    assert sent_properties(b"PSEQ\x01x") == b""


def test_which_messages_wait() -> None:
    assert [is_delayed(one) for one in ({}, {"DELAY": "0"}, {"DELAY": "00"}, {"DELAY": "x"})] == [False] * 4
    waiting = ({"DELAY": "3"}, {"TIMER_DELAY_SEC": "5"}, {"DELAY": "9" * 5_000})
    assert [is_delayed(one) for one in waiting] == [True] * 3
    assert [is_half(one) for one in ({}, {"TRAN_MSG": "false"}, {"TRAN_MSG": "true"})] == [False, False, True]


# ---- records


def record(body: bytes, topic: str = "trades", **more: object) -> bytes:
    made = {"queue_offset": 4, "physical_offset": 900, "born_host": bytes((10, 1, 1, 1, 0, 0, 0, 1)), **more}
    return encode_record(topic=topic.encode(), body=body, properties=b"TAGS\x01a\x02", **made)  # type: ignore[arg-type]


ALL = ReadableRecords(is_lz4=True, is_long=True)
OLD = ReadableRecords(is_lz4=False, is_long=False)


def rewritten_all(payload: bytes, can: ReadableRecords) -> bytes:
    written, left_out = readable_records(payload, HERE, can)
    assert left_out == -1
    return written


def packed(body: bytes, queue_offset: int = 4, **more: object) -> bytes:
    return record(compress_lz4(body), sys_flag=COMPRESSED | COMPRESSION_LZ4, queue_offset=queue_offset, **more)


def test_what_clients_read() -> None:
    assert readable("JAVA", 513) == ALL
    assert readable("JAVA", 409) == ReadableRecords(is_lz4=True, is_long=False)
    assert readable("JAVA", 300) == readable("GO", 513) == readable("CPP", 513) == OLD


def test_only_the_store_host_changes() -> None:
    plain = record(b"one") + record(b"two", born_host=bytes(20))
    changed = rewritten_all(plain, OLD)
    assert [index for index in range(len(plain)) if plain[index] != changed[index]] == [
        at + index for at in (64, len(record(b"one")) + 76) for index in (0, 3, 6, 7)
    ]
    messages = list(decode_batch(changed))
    assert [(one.store_host, one.body) for one in messages] == [(HERE.encode(), b"one"), (HERE.encode(), b"two")]
    assert readable_records(b"", HERE, OLD) == (b"", -1)


def test_bodies_are_unpacked_for_those_who_cannot() -> None:
    mixed = record(b"one") + packed(b"x" * 9000, queue_id=3, flag=7) + record(b"two")
    assert len(rewritten_all(mixed, ALL)) == len(mixed)
    messages = list(decode_batch(rewritten_all(mixed, OLD)))
    assert [one.body for one in messages] == [b"one", b"x" * 9000, b"two"]
    assert [one.sys_flag for one in messages] == [0, 0, 0]
    one = messages[1]
    assert (one.queue_id, one.flag, one.queue_offset, one.physical_offset) == (3, 7, 4, 900)
    assert (one.store_host, one.tags) == (HERE.encode(), "a")


def test_an_answer_holds_what_fits_and_the_rest_comes_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacked bodies may be much larger than what was asked for. One record comes at least, or nothing would go on."""
    monkeypatch.setattr(records, "ANSWER_BYTES_MAX", 20_000)
    payload = b"".join(packed(b"x" * 9000, offset) for offset in range(4)) + record(b"one", queue_offset=4)
    for begin, offsets, left_out in ((0, [0, 1], 2), (2, [2, 3, 4], -1)):
        rest = b"".join(one.record for one in list(decode_batch(payload))[begin:])
        written, found = readable_records(rest, HERE, OLD)
        assert ([one.queue_offset for one in decode_batch(written)], found) == (offsets, left_out)
    plain = b"".join(record(bytes(9000), queue_offset=offset) for offset in range(4))
    written, found = readable_records(plain, HERE, ALL)
    assert ([one.queue_offset for one in decode_batch(written)], found) == ([0, 1], 2)
    (alone,) = decode_batch(rewritten_all(packed(b"x" * 90_000), OLD))
    assert alone.body == b"x" * 90_000


def test_a_body_that_cannot_be_unpacked_for_a_client_goes_out_as_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep all that follows it back for ever."""
    monkeypatch.setattr(records, "BODY_BYTES_MAX", 20_000)
    flags = COMPRESSED | COMPRESSION_LZ4
    for stored in (compress_lz4(bytes(30_000)), b"no LZ4"):
        (one,) = decode_batch(rewritten_all(record(stored, sys_flag=flags), OLD))
        assert (one.body_as_stored, one.sys_flag, one.store_host) == (stored, flags, HERE.encode())
    torn = bytearray(packed(b"x"))
    torn[torn.index(compress_lz4(b"x"))] ^= 1
    with pytest.raises(CorruptRecordError):
        readable_records(bytes(torn), HERE, OLD)


def test_a_long_topic_becomes_the_one_it_was_sent_to() -> None:
    """Only topics of retries are so long."""
    long = "%RETRY%" + "g" * 130
    data = encode_record(topic=long.encode(), body=b"x", properties=b"RETRY_TOPIC\x01trades\x02")
    (one,) = decode_batch(rewritten_all(data, OLD))
    assert one.topic == "trades"
    assert decode_batch(rewritten_all(data, ALL))[0].topic == long
    with pytest.raises(RemoteProtocolError):
        readable_records(encode_record(topic=long.encode(), body=b"x"), HERE, OLD)


def test_damage_stays_to_be_seen_in_a_record_that_is_written_anew() -> None:
    torn = bytearray(record(b"sixteen bytes ..", store_host=bytes(20)))
    torn[torn.index(b"sixteen")] ^= 1
    (one,) = decode_batch(rewritten_all(bytes(torn), ALL))
    assert not one.body_crc_matches
    with pytest.raises(CorruptRecordError):
        _ = one.body


def test_records_of_a_broker_with_another_kind_of_address() -> None:
    (one,) = decode_batch(rewritten_all(record(b"x", store_host=bytes(20)), ALL))
    assert (one.store_host, one.body) == (HERE.encode(), b"x")


# ---- what handlers reckon


def test_how_pulls_end() -> None:
    assert pull_status(GetStatus.NO_MESSAGE_IN_QUEUE, 0) is ClassicStatus.PULL_NOT_FOUND
    assert pull_status(GetStatus.NO_MESSAGE_IN_QUEUE, 1) is ClassicStatus.PULL_OFFSET_MOVED
    assert {pull_status(status, 5) for status in GetStatus} == {
        ClassicStatus.SUCCESS,
        ClassicStatus.PULL_NOT_FOUND,
        ClassicStatus.PULL_RETRY_IMMEDIATELY,
        ClassicStatus.PULL_OFFSET_MOVED,
    }


def test_a_popped_records_handle_comes_back() -> None:
    (message,) = decode_batch(record(b"x"))
    popped = PoppedMessage(message.leased(2, None), "signed.part.3")
    (told,) = decode_batch(popped_record(popped, HERE, ALL, "broker-a", 5, 6))
    check = told.properties["POP_CK"]
    assert check == "4 5 6 999 0 broker-a 0 4 signed.part.3"
    assert (told.reconsume_times, told.tags, told.body) == (2, "a", b"x")
    assert handle_of(check) == handle_of("signed.part.3") == "signed.part.3"
    for wrong in ("", "4 5 6", "1 2 3 4 5 6 7 8 x"):
        with pytest.raises(HandleRefused):
            handle_of(wrong)


def test_popped_records_are_as_many_as_an_answer_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_handlers, "ANSWER_BYTES_MAX", 20_000)
    popped = [PoppedMessage(message, "h") for message in decode_batch(packed(b"x" * 9000) * 4)]
    assert len(popped_records(popped, HERE, OLD, "broker-a", 5, 6)) == 2
    assert len(popped_records(popped, HERE, ALL, "broker-a", 5, 6)) == 4


def test_attributes_of_a_topic() -> None:
    assert topic_attributes("") == {}
    assert topic_attributes("+message.type=FIFO,+a=b=c") == {"message.type": "FIFO", "a": "b=c"}
    for wrong in ("a=b", "-a", "+a"):
        with pytest.raises(InvalidParameter):
            topic_attributes(wrong)


def test_the_route_of_replies_is_each_broker_of_the_cluster() -> None:
    rows = [{"cluster": "c", "broker_name": name} for name in ("b", "a", "a")] + [{"cluster": "d", "broker_name": "x"}]
    route = cluster_route("c_REPLY_TOPIC", "c", {"brokers": rows})
    assert [data.broker_name for data in route.queues] == ["a", "b"]
    assert [(data.broker_name, data.cluster) for data in cluster_route("x", "x", {"brokers": rows}).brokers] == [
        ("x", "d")
    ]
    with pytest.raises(TopicNotFound):
        cluster_route("e_REPLY_TOPIC", "e", {"brokers": rows})


def test_the_route_of_a_retry_topic_to_be_is_each_broker_of_the_group() -> None:
    document = {"brokers": [{"cluster": "c", "broker_name": name} for name in ("b", "a", "a", "x")]}
    route = group_route("%RETRY%g", ["x", "a", "gone"], document)
    assert [(data.broker_name, data.read_queues) for data in route.queues] == [("a", 1), ("x", 1)]
    assert [(data.broker_name, data.cluster) for data in route.brokers] == [("a", "c"), ("x", "c")]
    with pytest.raises(TopicNotFound):
        group_route("%RETRY%g", [], document)


def test_subscriptions_as_brokers_tell_them() -> None:
    document = {"clients": [{"subscriptions": [["t", "TAG", "a || b"], ["u", "SQL92", "n > 1"]]}]}
    found = subscriptions_told(json.dumps(document).encode())
    assert found["t"].tags == frozenset("ab")
    assert found["u"].sql == "n > 1"
    for wrong in (b"{", b"[]", b'{"clients":[{"subscriptions":[["t"]]}]}'):
        with pytest.raises(RemoteProtocolError):
            subscriptions_told(wrong)


def test_ports_stand_for_brokers_and_one_that_is_taken_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """Another port would be that of another broker."""
    numbers, taken = {"a": 20_001, "b": 20_002, "c": 20_003}, {"b"}

    def open_port(name: str) -> int:
        if name in taken:
            raise OSError("taken")
        return numbers[name]

    ports = BrokerPorts("::1", bytes(16), open_port)
    ports.learn({"b", "a"})
    ports.learn({"b", "c"})
    assert ports.addresses == {"a": "[::1]:20001", "c": "[::1]:20003"}
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    taken.clear()
    ports.learn({"b"})
    assert ports.addresses["b"] == "[::1]:20002"
    assert ports.name_of(ports.host_of("b")) == "b"
    assert ports.host_of("nobody").port == 0
    with pytest.raises(InvalidParameter):
        ports.name_of(HERE)


def test_polls_share_what_answers_may_take() -> None:
    one, all_of_them = 64 << 20, 256 << 20
    assert share_bytes(1, 1, all_of_them) == one
    assert share_bytes(8, 100, all_of_them) == 256 * (1 << 20) // 100
    assert share_bytes(64, 64, all_of_them) == 1 << 20
    assert share_bytes(2_000, 20_000, all_of_them) == 64 << 10


# ---- how errors are told


def test_errors_have_rocketmqs_codes() -> None:
    assert status_of(BrokerBusy(5, "x")) is ClassicStatus.SYSTEM_BUSY
    assert status_of(TopicNotFound("t")) is ClassicStatus.TOPIC_NOT_EXIST
    assert status_of(ZenitError("x")) is ClassicStatus.SYSTEM_ERROR


def test_nothing_in_doubt_is_told_as_stored() -> None:
    """Clients take 10, 11 and 12 for a kind of success."""
    assert not {10, 11, 12} & {int(status) for _, status in STATUSES}
    assert status_of(FlushTimeout(5)) is ClassicStatus.SYSTEM_ERROR
    assert {kind for kind, _ in STATUSES} <= set(error_classes().values())


def test_the_producer_inside_a_java_client_is_no_group() -> None:
    """In a secured cluster a consumer would need a right to it."""
    producers = [{"groupName": name} for name in ("shop", "CLIENT_INNER_PRODUCER")]
    heartbeat = read_heartbeat(json.dumps({"clientID": "one", "producerDataSet": producers}).encode())
    assert heartbeat.producer_groups == ("shop",)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["UNIQ_KEY", "DELAY", "PGROUP", "TRAN_MSG", "TIMER_DELAY_MS", "xDELAY", "DELAYx", "TAGS", ""]
            ),
            st.sampled_from(["\x01", "\x01", "", "\x01\x01"]),
            st.sampled_from(["", "1", "true", "ü", "a\x01b"]),
            st.sampled_from(["\x02", "\x02", "", "\x02\x02"]),
        )
    ),
    st.binary(max_size=3),
)
def test_what_tells_of_a_message_is_found_as_all_its_properties_are(
    entries: list[tuple[str, str, str, str]], rubbish: bytes
) -> None:
    encoded = "".join(map("".join, entries)).encode() + rubbish
    whole = decode_properties(encoded)
    names = {"UNIQ_KEY", "DELAY", "PGROUP", "TRAN_MSG", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS"}
    assert telling_properties(encoded) == {name: value for name, value in whole.items() if name in names}
