"""The classic front by bare frames: what no client of RocketMQ does, and what few do."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from classic_kit import BareClient, RunningFront, heartbeat, new_certificate, running_front
from port_kit import free_row

from zenitmq import Message, Producer
from zenitmq.model.ids import parse_offset_message_id
from zenitmq.proxy import client_links, tcp_server
from zenitmq.proxy.back import cluster_settings
from zenitmq.proxy.classic import requests
from zenitmq.proxy.classic.frames import FRAME_BYTES_MAX, IS_ONE_WAY, IS_REPLY, ClassicFrame, encode_frame
from zenitmq.proxy.config import ProxyLimits
from zenitmq.record.kernel import decode_batch
from zenitmq.testing import LocalCluster

BROKER = "broker-a"
INVALID_PARAMETER = 29
MAY_WAIT = 2
BY_TAGS = 4


@pytest.fixture(scope="module")
def front(cluster: LocalCluster) -> Iterator[RunningFront]:
    with running_front(cluster.namesrv) as running:
        yield running


@pytest.fixture
def client(front: RunningFront) -> Iterator[BareClient]:
    with BareClient(front.server.port) as connected:
        yield connected


def broker_port(front: RunningFront) -> int:
    with BareClient(front.server.port) as client:
        document = json.loads(client.ask(106).body)
    return int(document["brokerAddrTable"][BROKER]["brokerAddrs"]["0"].rpartition(":")[2])


def send(client: BareClient, topic: str, body: bytes, **more: object) -> dict[str, str]:
    fields = {"b": topic, "e": 0, "f": 0, "i": "TAGS\x01a", "n": BROKER, **more}
    answer = client.ask(310, body, **fields)
    assert answer.code == 0, answer.remark
    return answer.fields


def test_an_unknown_code_is_answered_at_once(client: BareClient) -> None:
    for is_json in (True, False):
        answer = client.ask(22, is_json=is_json)
        assert (answer.code, answer.is_json) == (3, is_json)


def test_answers_come_as_they_are_done_and_none_for_one_way(cluster: LocalCluster, front: RunningFront) -> None:
    """A pull that waits holds up nothing behind it on its connection; the message that comes ends it."""
    topic = cluster.create_topic("bare-order")
    with BareClient(broker_port(front)) as client:
        pull = {"consumerGroup": "bare-order", "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32}
        waits = client.send(
            11, **pull, sysFlag=MAY_WAIT | BY_TAGS, suspendTimeoutMillis=15_000, subscription="a", expressionType="TAG"
        )
        client.send(310, b"", flag=IS_ONE_WAY, b=topic, e=99)  # refused, and nobody told
        behind = client.send(30, topic=topic, queueId=0)
        first = client.read()
        assert (first.opaque, first.fields) == (behind, {"offset": "0"})
        stored = client.send(310, b"hello", b=topic, e=0, i="TAGS\x01a")
        frames = {frame.opaque: frame for frame in (client.read(), client.read())}
        assert frames.keys() == {waits, stored}
        pulled = frames[waits]
        assert (pulled.code, pulled.fields["nextBeginOffset"]) == (0, "1")
        (one,) = decode_batch(pulled.body)
        assert one.body == b"hello"
        host, _ = parse_offset_message_id(frames[stored].fields["msgId"])
        assert one.store_host == host.encode()
        assert host.port == broker_port(front)


def test_pulls_say_where_to_go_on(cluster: LocalCluster, client: BareClient) -> None:
    topic = cluster.create_topic("bare-pulls")
    pull = {"consumerGroup": "bare-pulls", "topic": topic, "queueId": 0, "maxMsgNums": 32, "bname": BROKER}
    assert client.ask(11, **pull, queueOffset=0).code == 24  # nobody told a subscription
    pull |= {"sysFlag": BY_TAGS, "subscription": "*"}
    assert client.ask(11, **pull, queueOffset=0).code == 19
    assert client.ask(11, **pull, queueOffset=5).code == 21
    send(client, topic, b"x")
    assert client.ask(11, **{**pull, "subscription": "b"}, queueOffset=0).code == 20
    assert client.ask(11, **{**pull, "expressionType": "XML"}, queueOffset=0).code == 29
    sql = {**pull, "subscription": "a >", "expressionType": "SQL92"}
    assert client.ask(11, **sql, queueOffset=0).code == 23
    assert client.ask(11, **{**pull, "topic": "nowhere"}, queueOffset=0).code == 17
    assert client.ask(11, topic=topic).code == 29


def test_offsets_locks_and_members(cluster: LocalCluster, front: RunningFront) -> None:
    topic, group = cluster.create_topic("bare-members"), "bare-members"
    with BareClient(broker_port(front)) as one, BareClient(broker_port(front)) as other:
        assert one.ask(34, heartbeat("c1", group, topic)).code == 0
        assert other.ask(34, heartbeat("c2", group, topic)).code == 0
        changed = one.read()
        assert (changed.code, changed.fields, changed.flag) == (40, {"consumerGroup": group}, IS_ONE_WAY)
        assert json.loads(one.ask(38, consumerGroup=group).body) == {"consumerIdList": ["c1", "c2"]}
        queue = {"topic": topic, "queueId": 1}
        assert one.ask(14, consumerGroup=group, **queue).fields == {"offset": "0"}  # nothing has expired
        assert one.ask(14, consumerGroup=group, **queue, setZeroIfNotFound="false").code == 22
        assert one.ask(15, consumerGroup=group, **queue, commitOffset=0).code == 0
        assert one.ask(14, consumerGroup=group, **queue).fields == {"offset": "0"}
        assert one.ask(15, consumerGroup=group, **queue, commitOffset=1).code == INVALID_PARAMETER  # beyond its end
        lock = {"consumerGroup": group, "mqSet": [{**queue, "brokerName": BROKER}]}
        mine, theirs = (json.dumps({**lock, "clientId": name}).encode() for name in ("c1", "c2"))
        assert len(json.loads(one.ask(41, mine).body)["lockOKMQSet"]) == 1
        assert json.loads(other.ask(41, theirs).body)["lockOKMQSet"] == []
        assert one.ask(42, mine).code == 0
        assert len(json.loads(other.ask(41, theirs).body)["lockOKMQSet"]) == 1
        asked = {"topic": topic, "consumerGroup": group, "clientId": "c1", "strategyName": "AVG"}
        rows = json.loads(one.ask(400, json.dumps(asked).encode()).body)["messageQueueAssignments"]
        assert [row["messageQueue"]["queueId"] for row in rows] == [0, 1]
        assert other.ask(35, clientID="c2", consumerGroup=group, producerGroup=group).code == 0
        assert one.read().code == 40
        assert one.ask(35, clientID="c1", consumerGroup=group, producerGroup=group).code == 0
        assert json.loads(one.ask(38, consumerGroup=group).body) == {"consumerIdList": []}


def test_a_heartbeat_that_cannot_be_served_is_refused(cluster: LocalCluster, client: BareClient) -> None:
    topic = cluster.create_topic("bare-heartbeats")
    assert client.ask(34, b"{").code == 29
    assert client.ask(34, heartbeat("", "g", topic)).code == 29
    assert client.ask(34, heartbeat("c", "g", topic, "a >", expressionType="SQL92")).code == 23
    check = {"clientId": "c", "group": "g", "subscriptionData": {"topic": topic, "subString": "a = 1"}}
    check["subscriptionData"] |= {"expressionType": "SQL92"}  # type: ignore[operator]
    assert client.ask(46, json.dumps(check).encode()).code == 0


def test_popped_messages_are_settled_by_what_came_with_them(cluster: LocalCluster, client: BareClient) -> None:
    topic, group = cluster.create_topic("bare-pops"), "bare-pops"
    for number in range(3):
        send(client, topic, b"%d" % number, e=number)
    pop = {"consumerGroup": group, "topic": topic, "maxMsgNums": 32, "invisibleTime": 20_000, "bname": BROKER}
    messages = []
    while len(messages) < 3:
        answer = client.ask(200050, **pop, pollTime=5_000)
        assert answer.code == 0, answer.remark
        messages += list(decode_batch(answer.body))
    assert {one.body for one in messages} == {b"0", b"1", b"2"}
    receipt = {"consumerGroup": group, "topic": topic, "bname": BROKER}
    handles = [one.properties["POP_CK"] for one in messages]
    assert [words.split(" ")[5] for words in handles] == [BROKER] * 3
    assert client.ask(200051, **receipt, extraInfo=handles[0]).code == 0
    assert client.ask(200051, **receipt, extraInfo=handles[0]).code == 0
    assert client.ask(200053, **receipt, extraInfo=handles[1], invisibleTime=0).code == 0
    (again,) = decode_batch(client.ask(200050, **pop, pollTime=5_000).body)
    assert (again.body, again.reconsume_times) == (messages[1].body, 1)
    assert client.ask(200051, **receipt, extraInfo=handles[1]).code == 208
    assert client.ask(200051, **receipt, extraInfo="forged").code == 29
    assert client.ask(200050, **pop).code == 19


def test_administration(cluster: LocalCluster, front: RunningFront) -> None:
    with BareClient(broker_port(front)) as client:
        made = client.ask(17, topic="bare-made", readQueueNums=2, writeQueueNums=2, attributes="+message.type=NORMAL")
        assert made.code == 0, made.remark
        assert client.ask(17, topic="bare-made", attributes="-message.type").code == 29
        send(client, "bare-made", b"x")
        assert b'"maxOffset":1,' in client.ask(202, topic="bare-made").body
        settings = {"groupName": "bare-made", "retryMaxTimes": 2, "consumeEnable": True}
        assert client.ask(200, json.dumps(settings).encode()).code == 0
        assert client.ask(15, consumerGroup="bare-made", topic="bare-made", queueId=0, commitOffset=1).code == 0
        assert b'"consumerOffset":1,' in client.ask(208, consumerGroup="bare-made").body
        assert b"bare-made" in client.ask(206).body
        reset = client.ask(222, topic="bare-made", group="bare-made", timestamp=0)
        assert (reset.code, reset.body.count(b":0")) == (0, 3)  # of queue id 0, and two offsets
        assert client.ask(29, topic="bare-made", queueId=0, timestamp=0).fields == {"offset": "0"}
        assert int(client.ask(32, topic="bare-made", queueId=0).fields["timestamp"]) > 0
        assert client.ask(31, topic="bare-made", queueId=0).fields == {"offset": "0"}
        assert client.ask(207, groupName="bare-made").code == 0
        assert client.ask(215, topic="bare-made").code == 0


def test_members_hear_of_a_reset_in_their_languages_form(cluster: LocalCluster, front: RunningFront) -> None:
    topic, group = cluster.create_topic("bare-resets"), "bare-resets"
    with BareClient(broker_port(front)) as client:
        send(client, topic, b"x", e=2)
        assert client.ask(34, heartbeat("c", group, topic)).code == 0
        client.send(222, topic=topic, group=group, timestamp=-1)
        frames = [client.read(), client.read()]
        pushed = next(frame for frame in frames if not frame.is_reply)
        assert (pushed.code, pushed.fields["group"], pushed.fields["topic"]) == (220, group, topic)
        assert b'{"brokerName":"broker-a","queueId":2,"topic":"bare-resets"}:1' in pushed.body


def test_questions_are_passed_on_to_a_client(cluster: LocalCluster, front: RunningFront) -> None:
    """Of its state, and to handle one message now; one that is not connected is said to be so."""
    topic, group = cluster.create_topic("bare-questions"), "bare-questions"
    with BareClient(broker_port(front)) as client, BareClient(broker_port(front)) as asker:
        assert client.ask(34, heartbeat("c", group, topic)).code == 0
        assert asker.ask(307, consumerGroup=group, clientId="other").code == 206
        message_id = send(asker, topic, b"handle me")["msgId"]
        for code, fields in ((307, {}), (309, {"msgId": message_id})):
            opaque = asker.send(code, consumerGroup=group, clientId="c", **fields)
            question = client.read()
            assert question.code == code
            if code == 309:
                assert [one.body for one in decode_batch(question.body)] == [b"handle me"]
            answer = ClassicFrame(0, question.opaque, IS_REPLY, body=b'{"order":false}')
            client.socket.sendall(encode_frame(answer))
            told = asker.read()
            assert (told.opaque, told.code, told.body) == (opaque, 0, b'{"order":false}')


def test_the_broker_has_to_be_said_where_there_are_several(cluster: LocalCluster, client: BareClient) -> None:
    """Here is one, so that nobody needs to."""
    topic = cluster.create_topic("bare-lone")
    assert client.ask(30, topic=topic, queueId=0).fields == {"offset": "0"}


def test_a_broker_that_is_named_has_the_port_of_its_place(cluster: LocalCluster) -> None:
    """Whoever came before it, and at each start: ids that clients keep name the port."""
    _, _, first, *_ = free_row(6)
    for names, port in ((("broker-z", BROKER), first + 3), ((), first)):
        with running_front(cluster.namesrv, broker_port=first, broker_names=names) as front:
            assert broker_port(front) == port


def test_a_retry_topic_is_told_of_before_it_is_made(
    cluster: LocalCluster, front: RunningFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a group that there is: mqadmin goes by it to the group's brokers; what a consumer says then makes it."""
    monkeypatch.setattr(cluster_settings, "UNSEEN_MS", 0)
    topic, group = cluster.create_topic("bare-retries"), "bare-retries"
    retry = f"%RETRY%{group}"
    with BareClient(front.server.port) as client:
        assert client.ask(105, topic=retry).code == 17
        assert client.ask(15, bname=BROKER, consumerGroup=group, topic=topic, queueId=0, commitOffset=0).code == 0
        told = client.ask(105, topic=retry)
        assert told.code == 0, told.remark
        assert [queue["readQueueNums"] for queue in json.loads(told.body)["queueDatas"]] == [1]
        assert client.ask(14, bname=BROKER, consumerGroup=group, topic=retry, queueId=0).code == 17
        statistics = client.ask(208, bname=BROKER, consumerGroup=group)
        assert statistics.code == 0, statistics.remark
    with BareClient(broker_port(front)) as client:
        assert client.ask(34, heartbeat("c", group, retry)).code == 0
        assert client.ask(30, topic=retry, queueId=0).fields == {"offset": "0"}


def test_old_clients_come_by_the_port_two_below(cluster: LocalCluster, front: RunningFront) -> None:
    topic = cluster.create_topic("bare-vip")
    with BareClient(broker_port(front) - 2) as client:
        answer = client.ask(10, b"x", topic=topic, queueId=0)
        assert answer.code == 0, answer.remark


def test_what_is_no_frame_ends_its_connection_alone(front: RunningFront) -> None:
    with BareClient(front.server.port) as good:
        for data in (b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\0", b"\0\0\0\5\0\0\0\xff{"):
            with BareClient(front.server.port) as bad:
                bad.socket.sendall(data)
                assert bad.socket.recv(1) == b""
        assert good.ask(106).code == 0


def test_more_than_there_is_room_for_is_refused(cluster: LocalCluster, front: RunningFront) -> None:
    topic = cluster.create_topic("bare-room")
    server = front.server
    with BareClient(server.port) as client:
        client.ask(106)
        front.on_loop(lambda: setattr(server.room, "handled", server.room.handled + (1 << 40)))
        try:
            answer = client.ask(310, b"x", b=topic, e=0)
        finally:
            front.on_loop(lambda: setattr(server.room, "handled", server.room.handled - (1 << 40)))
        assert answer.code == 2
        send(client, topic, b"x")
    assert front.on_loop(lambda: server.room.handled) == 0


def test_many_requests_of_one_connection_are_held_back_not_refused(
    cluster: LocalCluster, front: RunningFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order in which they came, though the proxy first has to ask where the topic is."""
    monkeypatch.setattr(tcp_server, "REQUESTS_MAX", 8)
    topic = cluster.create_topic("bare-many")
    with BareClient(front.server.port) as client:
        sent = {client.send(310, b"%d" % number, b=topic, e=0, n=BROKER) for number in range(200)}
        answers = [client.read() for _ in sent]
    assert {one.opaque for one in answers} == sent
    assert {one.code for one in answers} == {0}
    offsets = [int(one.fields["queueOffset"]) for one in sorted(answers, key=lambda one: one.opaque)]
    assert offsets == list(range(200))


@pytest.mark.parametrize("bound", ["one", "all"])
def test_a_client_that_asks_for_much_and_reads_nothing_is_cut_off(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """Whether its own answers are too many, or those of all clients. Others go on, and nothing of it is left."""
    topic = cluster.create_topic(f"bare-unread-{bound}")
    with running_front(cluster.namesrv) as front, BareClient(front.server.port) as good:
        server = front.server
        send(good, topic, bytes(300_000))
        if bound == "one":
            monkeypatch.setattr(client_links, "LINK_BACKLOG_BYTES", 1 << 20)
        else:
            monkeypatch.setattr(server, "is_backlog_over", lambda: server.backlog_bytes > 1 << 20)
        pull = {"consumerGroup": "g", "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 1, "bname": BROKER}
        with BareClient(server.port) as bad:
            # One that the proxy has not taken yet would look like one that is cut off.
            assert bad.ask(106).code == 0
            with suppress(OSError):
                for _ in range(300):
                    bad.send(11, **pull, sysFlag=BY_TAGS, subscription="*")
            until = time.monotonic() + 20
            while front.on_loop(lambda: len(server.links)) > 1:
                assert time.monotonic() < until
            assert front.on_loop(lambda: server.backlog_bytes) == 0
        assert good.ask(106).code == 0
        assert front.on_loop(lambda: (server.room.handled, server.room.buffered)) == (0, 0)


def test_bombs_are_refused_and_others_served(front: RunningFront) -> None:
    """Nested without an end, many objects, and numbers without an end, in bodies and in headers."""
    with BareClient(front.server.port) as good:
        for body in (
            b"[" * 100_000,
            b'{"a":' * 50_000,
            b"{" + b'"a":[],' * 120_000,
            b'{"clientID":' + b"9" * 900_000 + b"}",
        ):
            answer = good.ask(34, body)
            assert (answer.code, bool(answer.remark)) == (29, True)
        for header in (
            b'{"extFields":' + b"[" * 60_000,
            b'{"code":34,"extFields":{' + b'"a":' * 60_000,
            b'{"code":1e999}',
        ):
            with BareClient(front.server.port) as bad:
                bad.socket.sendall(struct.pack(">II", 4 + len(header), len(header)) + header)
                assert bad.socket.recv(1) == b""
        assert good.ask(106).code == 0


def test_what_no_frame_holds_is_not_pushed(front: RunningFront) -> None:
    """Such as a reply whose body was packed."""
    with BareClient(front.server.port) as client:
        assert client.ask(106).code == 0
        for size, is_taken in ((FRAME_BYTES_MAX, False), (5, True)):
            frame = ClassicFrame(326, 0, body=bytes(size))
            assert front.on_loop(lambda frame=frame: next(reversed(front.server.links)).push(frame)) is is_taken
        assert len(client.read().body) == 5


def test_what_a_client_has_not_read_counts_within_one_turn_of_the_loop_too(front: RunningFront) -> None:
    """Else what comes at a time has no bound."""
    with BareClient(front.server.port) as client:
        assert client.ask(106).code == 0
        link = front.on_loop(lambda: next(reversed(front.server.links)))
        frames = [ClassicFrame(326, 0, body=bytes(1 << 20)) for _ in range(60)]
        assert 4 <= front.on_loop(lambda: [link.push(frame) for frame in frames]).count(True) < 30


def test_a_connection_that_ends_within_a_request_is_closed(front: RunningFront) -> None:
    with BareClient(front.server.port) as half:
        half.socket.sendall(b"\0\0\1\0" + bytes(100))
        half.socket.shutdown(socket.SHUT_WR)
        assert half.socket.recv(1) == b""
    assert front.on_loop(lambda: front.server.room.buffered) == 0


def test_idle_connections_are_closed(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_links, "IDLE_MS", 50)
    monkeypatch.setattr(tcp_server, "LOOK_S", 0.05)
    with running_front(cluster.namesrv) as front, BareClient(front.server.port) as client:
        assert client.socket.recv(1) == b""


def test_a_drain_lets_requests_end(cluster: LocalCluster) -> None:
    """But not those that wait for messages."""
    topic = cluster.create_topic("bare-drain")
    with running_front(cluster.namesrv) as front:
        client = BareClient(front.server.port)
        client.ask(106)
        pull = {"consumerGroup": "g", "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32}
        client.send(11, **pull, sysFlag=MAY_WAIT | BY_TAGS, suspendTimeoutMillis=15_000, subscription="*")
        begun = time.monotonic()
    with client:
        assert client.socket.recv(1) == b""
    assert time.monotonic() - begun < 5


def pulled(client: BareClient, topic: str, *, wait_ms: int = 10_000) -> list[bytes]:
    pull = {"consumerGroup": "g", "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "bname": BROKER}
    answer = client.ask(11, **pull, sysFlag=MAY_WAIT | BY_TAGS, suspendTimeoutMillis=wait_ms, subscription="*")
    return [one.body for one in decode_batch(answer.body)] if answer.code == 0 else []


def test_a_consumers_own_retries_come_again_and_end_as_dead_letters(cluster: LocalCluster, client: BareClient) -> None:
    """As ordered consumers of Java send them; the topics are made by that."""
    cluster.create_topic("bare-again")
    again = {"topic": "%RETRY%bare-again", "queueId": 0, "maxReconsumeTimes": 2, "bname": BROKER}
    again |= {"properties": "PSEQ\x01x:0\x02DELAY\x011\x02RETRY_TOPIC\x01bare-again\x02UNIQ_KEY\x01A1"}
    assert client.ask(10, b"again", **again, reconsumeTimes=2).code == 0
    assert client.ask(10, b"enough", **again, reconsumeTimes=3).code == 0
    assert pulled(client, "%DLQ%bare-again") == [b"enough"]
    assert pulled(client, "%RETRY%bare-again") == [b"again"]


def test_a_message_that_was_received_can_be_sent_on(cluster: LocalCluster, client: BareClient) -> None:
    """With all the properties that it came with."""
    topics = [cluster.create_topic(f"bare-on-{number}") for number in range(2)]
    send(client, topics[0], b"on")
    pull = {"consumerGroup": "g", "topic": topics[0], "queueId": 0, "queueOffset": 0, "maxMsgNums": 1, "bname": BROKER}
    (one,) = decode_batch(client.ask(11, **pull, sysFlag=BY_TAGS, subscription="*").body)
    assert one.properties.keys() > {"TAGS", "UNIQ_KEY"}
    send(client, topics[1], one.body, i=one.properties_as_stored.decode())
    assert pulled(client, topics[1]) == [b"on"]


def test_a_message_with_a_priority_is_in_its_queue(cluster: LocalCluster, client: BareClient) -> None:
    """Clients choose any, as RocketMQ's broker puts it there; then those who pop get the urgent ones first."""
    topic = cluster.create_topic("bare-urgent", queues=3)
    for priority, queue in ((0, "0"), (1, "1"), (7, "2")):
        for more in ({"e": 1}, {"e": -1}, {"e": 0, "n": ""}):
            assert send(client, topic, b"x", i=f"_SYS_MSG_PRIORITY_\x01{priority}", **more)["queueId"] == queue


def test_a_message_is_sent_back_by_what_a_client_knows_of_it(cluster: LocalCluster, client: BareClient) -> None:
    topic = cluster.create_topic("bare-back")
    _, offset = parse_offset_message_id(send(client, topic, b"back")["msgId"])
    back = {"offset": offset, "group": "bare-back", "bname": BROKER}
    assert client.ask(36, **back).code == 29  # of which topic?
    assert client.ask(36, **back, originTopic=topic, delayLevel=1).code == 0
    assert pulled(client, "%RETRY%bare-back") == [b"back"]
    assert client.ask(36, **back, originTopic=topic, delayLevel=-1).code == 0
    assert pulled(client, "%DLQ%bare-back") == [b"back"]


def test_delayed_messages_are_recalled(cluster: LocalCluster, client: BareClient) -> None:
    topic = cluster.create_topic("bare-recalls")
    stored = send(client, topic, b"never", i="DELAY\x0118\x02UNIQ_KEY\x01B1")
    recall = {"topic": topic, "recallHandle": stored["recallHandle"], "bname": BROKER}
    assert client.ask(370, **recall).fields == {"msgId": "B1"}
    assert client.ask(370, **recall).code == 22
    assert client.ask(370, **{**recall, "recallHandle": "x"}).code == 29


def test_ends_of_transactions(cluster: LocalCluster, client: BareClient) -> None:
    """Decided once, and the same again; not the other way; not by an id that nobody gave."""
    topic, group = cluster.create_topic("bare-ends"), "bare-ends"
    properties = f"TRAN_MSG\x01true\x02PGROUP\x01{group}\x02UNIQ_KEY\x01C1"
    stored = send(client, topic, b"half", i=properties, a=group)
    end = {"producerGroup": group, "transactionId": stored["transactionId"]}
    assert client.ask(37, **end, commitOrRollback=0).code == 0
    assert pulled(client, topic, wait_ms=0) == []
    for _ in range(2):
        assert client.ask(37, **end, commitOrRollback=8).code == 0
    assert pulled(client, topic) == [b"half"]
    assert client.ask(37, **end, commitOrRollback=12).code == 1
    assert client.ask(37, **end, commitOrRollback=5).code == 29
    assert client.ask(37, **{**end, "transactionId": "x"}, commitOrRollback=8).code == 29


def test_a_reply_whose_requester_is_gone_is_told_as_such(client: BareClient) -> None:
    properties = "CORRELATION_ID\x01c\x02REPLY_TO_CLIENT\x01nobody\x02MSG_TYPE\x01reply\x02UNIQ_KEY\x01D1"
    answer = client.ask(325, b"re", b="zenit_REPLY_TOPIC", e=0, i=properties, n=BROKER)
    assert (answer.code, "not connected" in answer.remark) == (1, True)


def test_batches_that_cannot_be_stored_whole_are_refused(cluster: LocalCluster, client: BareClient) -> None:
    topic = cluster.create_topic("bare-batches")
    delayed = b"DELAY\x011"
    part = struct.pack(">iiiii", 23 + len(delayed), 0, 0, 0, 1) + b"x" + struct.pack(">H", len(delayed)) + delayed
    assert client.ask(320, part, b=topic, e=0, m="true", n=BROKER).code == 13
    assert client.ask(320, b"", b=topic, e=0, m="true", n=BROKER).code == 13


# ---- bounds of a process


def test_parts_of_requests_take_no_more_memory_than_requests_may(cluster: LocalCluster) -> None:
    limits = ProxyLimits(bytes_in_flight=16 << 20)
    with running_front(cluster.namesrv, limits=limits) as front, BareClient(front.server.port) as client:
        assert client.ask(106).code == 0
        part = (15 << 20).to_bytes(4, "big") + bytes(9 << 20)
        with BareClient(front.server.port) as one, BareClient(front.server.port) as other:
            one.socket.sendall(part)
            with suppress(ConnectionResetError):
                other.socket.sendall(part)
                assert one.socket.recv(1) == b""
            for _ in range(10):
                assert client.ask(106, bytes(1 << 20)).code == 0


def test_a_request_that_does_not_end_is_given_up(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though bytes of it come. A connection without one stays."""
    monkeypatch.setattr(client_links, "REQUEST_MS", 300)
    monkeypatch.setattr(tcp_server, "LOOK_S", 0.02)
    with running_front(cluster.namesrv) as front, BareClient(front.server.port) as client:
        assert client.ask(106).code == 0
        with BareClient(front.server.port) as half, suppress(ConnectionResetError, BrokenPipeError):
            half.socket.sendall((1 << 20).to_bytes(4, "big"))
            half.socket.settimeout(0.05)
            for _ in range(200):
                half.socket.sendall(b"x")
                with suppress(TimeoutError):
                    assert half.socket.recv(1) == b""
                    break
            else:
                raise AssertionError
        assert client.ask(106).code == 0


def test_more_long_polls_than_may_wait_are_answered_at_once(cluster: LocalCluster) -> None:
    topic = cluster.create_topic("bare-polls")
    pull = {"consumerGroup": "g", "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 6}
    pull |= {"suspendTimeoutMillis": 15_000, "subscription": "*"}
    limits = ProxyLimits(polls=1)
    with running_front(cluster.namesrv, limits=limits) as front, BareClient(front.server.port) as client:
        client.send(11, **pull)
        opaque = client.send(11, **pull)
        answer = client.read()
        assert (answer.opaque, answer.code) == (opaque, 19)


def test_polls_of_one_connection_are_bounded(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """More are answered at once; and of those that can be answered, no more than so many are taken at a time."""
    monkeypatch.setattr(requests, "LINK_POLLS_MAX", 2)
    monkeypatch.setattr(tcp_server, "POLLS_MAX", 4)
    topic = cluster.create_topic("bare-link-polls")
    pull = {"consumerGroup": "g", "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 6}
    pull |= {"suspendTimeoutMillis": 15_000, "subscription": "*"}
    with running_front(cluster.namesrv) as front, BareClient(front.server.port) as client:
        waiting = [client.send(11, **pull) for _ in range(2)]
        assert client.ask(106).code == 0
        asked = {client.send(11, **pull) for _ in range(20)}
        answers = [client.read() for _ in asked]
        assert {one.opaque for one in answers} == asked
        assert {one.code for one in answers} == {19}
        with BareClient(front.server.port) as other:
            send(other, topic, b"x")
        assert {client.read().opaque for _ in waiting} == set(waiting)
        assert front.on_loop(lambda: {link.polls for link in front.server.links}) == {0}


def test_more_connections_than_may_be_are_closed(cluster: LocalCluster) -> None:
    limits = ProxyLimits(connections=1)
    with running_front(cluster.namesrv, limits=limits) as front, BareClient(front.server.port) as client:
        assert client.ask(106).code == 0
        with BareClient(front.server.port) as other:
            assert other.socket.recv(1) == b""
        assert client.ask(106).code == 0


# ---- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return new_certificate(tmp_path_factory.mktemp("tls"))


def test_tls_and_plain_come_by_the_same_port(cluster: LocalCluster, certificate: tuple[Path, Path]) -> None:
    paths = {"tls_certificate": str(certificate[0]), "tls_key": str(certificate[1])}
    with running_front(cluster.namesrv, **paths) as front:
        with BareClient(front.server.port) as plain:
            assert plain.ask(106).code == 0
        with BareClient(front.server.port) as secured:
            context = ssl.create_default_context(cafile=paths["tls_certificate"])
            secured.socket = context.wrap_socket(secured.socket, server_hostname="localhost")
            assert secured.ask(106).code == 0
        with socket.create_connection(("127.0.0.1", front.server.port)) as broken:
            broken.sendall(b"\x16\x03\x01")
            broken.shutdown(socket.SHUT_WR)
            broken.settimeout(20)
            while broken.recv(100):
                pass


def test_a_native_producers_lz4_reaches_a_client_that_knows_only_zlib(
    cluster: LocalCluster, client: BareClient
) -> None:
    topic = cluster.create_topic("bare-lz4")
    with Producer(namesrv=cluster.namesrv) as producer:
        receipt = producer.send(Message(topic, b"z" * 20_000))
    pull = {"consumerGroup": "g", "topic": topic, "queueId": receipt.queue.queue_id, "queueOffset": 0, "maxMsgNums": 1}
    answer = client.ask(11, **pull, sysFlag=BY_TAGS, subscription="*")
    (one,) = decode_batch(answer.body)
    assert len(one.record) < 1_000  # as the frames here say that they come from Java
    assert one.body == b"z" * 20_000


def test_bodies_that_are_large_once_unpacked_come_in_several_answers(
    cluster: LocalCluster, front: RunningFront
) -> None:
    """All of them, and what did not fit into the answer to a pop was no attempt."""
    topic, bodies = cluster.create_topic("bare-large", queues=1), [bytes([number]) * 4_000_000 for number in range(5)]
    with Producer(namesrv=cluster.namesrv) as producer:
        for body in bodies:
            producer.send(Message(topic, body, keys=["k"]))
    with BareClient(front.server.port, language="CPP") as client:
        pulled: list[bytes] = []
        offset = "0"
        pull = {"consumerGroup": "g", "topic": topic, "queueId": 0, "maxMsgNums": 32, "sysFlag": BY_TAGS}
        while len(pulled) < len(bodies):
            answer = client.ask(11, **pull, queueOffset=offset, subscription="*")
            assert answer.code == 0, answer.remark
            pulled += [one.body for one in decode_batch(answer.body)]
            offset = answer.fields["nextBeginOffset"]
        assert pulled == bodies
        assert offset == "5"

        popped: list[tuple[bytes, int]] = []
        pop = {"consumerGroup": "large", "topic": topic, "maxMsgNums": 32, "invisibleTime": 60_000, "pollTime": 5_000}
        while len(popped) < len(bodies):
            answer = client.ask(200050, **pop)
            assert answer.code == 0, answer.remark
            popped += [(one.body, one.reconsume_times) for one in decode_batch(answer.body)]
        assert sorted(popped) == [(body, 0) for body in bodies]

        answer = client.ask(12, topic=topic, key="k", maxNum=64)
        assert answer.code == 0, answer.remark
        assert len(decode_batch(answer.body)) == 3
