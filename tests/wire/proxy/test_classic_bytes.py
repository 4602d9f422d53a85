"""The classic protocol's bytes, as RocketMQ's Java client 5.5.0 makes them."""

from __future__ import annotations

from pathlib import Path

from zenitmq.model.route import BrokerData, QueueData, TopicRoute
from zenitmq.model.security.signatures import signature_of, signed_content
from zenitmq.proxy.classic.bodies import (
    AssignmentQuestion,
    ClassicConsumer,
    ClassicHeartbeat,
    ClassicSubscription,
    ClientCheck,
    LockBody,
    assignment_body,
    cluster_body,
    consume_statistics_body,
    consumer_list_body,
    locked_body,
    read_assignment_question,
    read_client_check,
    read_group_settings,
    read_heartbeat,
    read_lock,
    reset_body,
    topic_list_body,
    topic_statistics_body,
)
from zenitmq.proxy.classic.fields import ROWS, read_fields
from zenitmq.proxy.classic.frames import ClassicFrame, decode_frame, encode_frame
from zenitmq.proxy.classic.records import BatchedMessage, read_batch
from zenitmq.proxy.classic.routes import route_body

MADE = dict(
    line.split(" ", 1)
    for line in (Path(__file__).parent / "java_client_5_5_0.txt").read_text().splitlines()
    if not line.startswith("#")
)
PULL = {
    "consumerGroup": "g",
    "topic": "trades",
    "queueId": "3",
    "queueOffset": "7",
    "maxMsgNums": "32",
    "sysFlag": "6",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subscription": "a || b",
    "subVersion": "1",
    "expressionType": "TAG",
    "bname": "broker-a",
}


def test_requests_in_both_forms_say_the_same() -> None:
    json_form, binary = (decode_frame(bytes.fromhex(MADE[name])) for name in ("PULL_JSON", "PULL_ROCKETMQ"))
    assert (json_form.is_json, binary.is_json) == (True, False)
    for frame in (json_form, binary):
        assert (frame.code, frame.opaque, frame.flag, frame.language, frame.version) == (11, 5, 0, "JAVA", 513)
        assert frame.fields == PULL


def test_binary_frames_are_written_as_java_writes_them() -> None:
    made = bytes.fromhex(MADE["PULL_ROCKETMQ"])
    assert encode_frame(decode_frame(made)) == made


def test_json_frames_are_standard_json_without_blanks() -> None:
    frame = ClassicFrame(0, 7, 1, "why", {"a": "b"}, b"body")
    written = encode_frame(frame)
    text = (
        b'{"code":0,"extFields":{"a":"b"},"flag":1,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON",'
        b'"version":513,"remark":"why"}'
    )
    assert written == (len(text) + 8).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + b"body"
    assert decode_frame(written) == frame


def test_a_code_above_16_bits_travels_as_json_whatever_was_asked_for() -> None:
    frame = decode_frame(encode_frame(ClassicFrame(200050, 1, is_json=False)))
    assert (frame.code, frame.is_json) == (200050, True)


def test_compact_fields_are_read_as_the_long_ones() -> None:
    for name in ("SEND_JSON", "SEND_ROCKETMQ"):
        frame = decode_frame(bytes.fromhex(MADE[name]))
        fields = read_fields(ROWS[310], frame.fields, is_compact=True)
        assert frame.body == b"hi"
        assert (fields.text("topic"), fields.number("queueId"), fields.text("bname")) == ("trades", 1, "broker-a")
        assert fields.text("properties") == "TAGS\x01buy\x02UNIQ_KEY\x010A0B"
        assert (fields.number("bornTimestamp"), fields.flag("batch")) == (1_700_000_000_000, False)


def test_a_batch_is_taken_apart() -> None:
    assert read_batch(bytes.fromhex(MADE["BATCH"])) == [
        BatchedMessage(0, b"one", b"KEYS\x01k1\x02WAIT\x01true\x02TAGS\x01buy\x02"),
        BatchedMessage(9, b"two", b"x\x01y\x02WAIT\x01true\x02"),
    ]


def test_bodies_of_requests() -> None:
    sql = ClassicSubscription("orders", "SQL92", "x > 1")
    assert read_heartbeat(MADE["HEARTBEAT"].encode()) == ClassicHeartbeat(
        "10.0.0.1@7",
        ("p",),
        (ClassicConsumer("g", "CLUSTERING", (sql, ClassicSubscription("trades", "TAG", "a || b"))),),
    )
    assert read_lock(MADE["LOCK"].encode()) == LockBody("g", "c", (("trades", "broker-a", 1),))
    assert read_assignment_question(MADE["ASSIGN"].encode()) == AssignmentQuestion(
        "trades", "g", "c", "AVG", "CLUSTERING"
    )
    assert read_client_check(MADE["CHECK"].encode()) == ClientCheck("c", "g", sql)
    group, settings = read_group_settings(MADE["GROUP"].encode())
    assert group == "g"
    assert ("retryMaxTimes", "16") in settings


def test_a_heartbeat_of_the_cpp_client() -> None:
    """0.4.4 of its Python package: the model is a number, and versions are texts."""
    body = (
        b'{"clientID":"10967-127.0.0.1@DEFAULT","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"cg",'
        b'"messageModel":1,"subscriptionDataSet":[{"subString":"*","subVersion":"1795768608246","topic":"%RETRY%cg"},'
        b'{"subString":"*","subVersion":"1795768608246","topic":"trades"}]}]}\n'
    )
    subscriptions = tuple(ClassicSubscription(topic, "TAG", "*") for topic in ("%RETRY%cg", "trades"))
    consumer = ClassicConsumer("cg", "CLUSTERING", subscriptions)
    assert read_heartbeat(body) == ClassicHeartbeat("10967-127.0.0.1@DEFAULT", (), (consumer,))


def test_bodies_of_answers() -> None:
    route = TopicRoute(
        "trades",
        (QueueData("broker-a", 8, 8, 6 | 16), QueueData("broker-b", 8, 8, 6)),
        (BrokerData("c", "broker-a", {0: "10.0.0.1:1"}), BrokerData("c", "broker-b", {})),
    )
    assert route_body(route, {"broker-a": "10.0.0.9:10911"}) == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.9:10911"},"brokerName":"broker-a","cluster":"c",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
        b'"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}'
    )
    queue = b'{"brokerName":"broker-a","queueId":1,"topic":"trades"}'
    assert locked_body([("trades", "broker-a", 1)]) == b'{"lockOKMQSet":[' + queue + b"]}"
    assert consumer_list_body(("a", "b")) == b'{"consumerIdList":["a","b"]}'
    assert topic_list_body(("t",)) == b'{"topicList":["t"]}'
    rows = [{"broker_name": "broker-a", "broker_id": 0, "cluster": "c"}, {"broker_name": "broker-a", "broker_id": 1}]
    assert cluster_body({"brokers": rows, "clusters": {"c": ["broker-a", "gone"]}}, {"broker-a": "h:1"}) == (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{"0":"h:1"},"brokerName":"broker-a","cluster":"c",'
        b'"enableActingMaster":false}},"clusterAddrTable":{"c":["broker-a"]}}'
    )
    assert reset_body("trades", "broker-a", [(1, 5)], as_list=False) == MADE_RESET
    assert reset_body("trades", "broker-a", [(1, 5)], as_list=True) == (
        b'{"offsetTable":[{"brokerName":"broker-a","queueId":1,"topic":"trades","offset":5}]}'
    )
    assert assignment_body([("trades", "broker-a", 1)]) == (
        b'{"messageQueueAssignments":[{"messageQueue":' + queue + b',"mode":"PULL","attachments":null}]}'
    )
    statistics = {"queue_id": 1, "last_stored_at_ms": None, "max_offset": 9, "min_offset": 2}
    assert topic_statistics_body("trades", "broker-a", [statistics]) == (
        b'{"offsetTable":{' + queue + b':{"lastUpdateTimestamp":0,"maxOffset":9,"minOffset":2}}}'
    )
    offsets = {"topic": "trades", "queue_id": 1, "broker_queue_offset": 9, "consumer_queue_offset": None, "lag": 4}
    assert consume_statistics_body("broker-a", [offsets, {**offsets, "topic": "other"}], "trades") == (
        b'{"consumeTps":0.0,"offsetTable":{'
        + queue
        + b':{"brokerOffset":9,"consumerOffset":5,"lastTimestamp":0,"pullOffset":5}}}'
    )
    for more, expected in (({"consumer_queue_offset": 7}, 7), ({"lag": None}, 0)):
        body = consume_statistics_body("broker-a", [{**offsets, **more}], "")
        assert b'"consumerOffset":%d,' % expected in body


MADE_RESET = b'{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"trades"}:5}}'


def test_what_a_client_signs_is_all_its_fields_in_order_and_the_body() -> None:
    content = signed_content({"b": "2", "AccessKey": "me", "a": "1", "Signature": "x"}, b"body")
    assert content == b"me12body"
    assert len(signature_of("secret-1", content)) == 20
