"""Calls as no client of RocketMQ makes all of them: pulls and offsets, refusals and their codes, TLS, users who sign."""

from __future__ import annotations

import random
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import grpc
import pytest
from grpc_kit import METHODS, Caller, request, send_of, signed
from proxy_kit import running_proxy

from zenitmq import Message, Producer
from zenitmq.client.admin import Admin
from zenitmq.model.security.principals import RuleEffect, User
from zenitmq.model.security.rule_text import parse_rule
from zenitmq.proxy.config import ProxyLimits
from zenitmq.proxy.schema import SERVICE, enum_value, message_class
from zenitmq.proxy.v2 import methods as methods_module
from zenitmq.proxy.v2.status import Code
from zenitmq.testing import LocalCluster


@pytest.fixture(scope="module")
def address(cluster: LocalCluster) -> Iterator[str]:
    cluster.create_topic("calls")
    with running_proxy(cluster.namesrv) as found:
        yield found


@pytest.fixture
def caller(address: str) -> Iterator[Caller]:
    with grpc.insecure_channel(address) as channel:
        yield Caller(channel)


def lite_of(action: str, *names: str, topic: str = "sessions") -> Any:
    made = request("SyncLiteSubscription", group="agents", topic=topic)
    made.action = enum_value("LiteSubscriptionAction", action)
    made.lite_topic_set.extend(names)
    return made


def received(caller: Caller, topic: str = "sessions") -> list[Any]:
    made = request("ReceiveMessage", group="agents", queue=(topic, "", -1), batch_size=32, long_polling_timeout_ms=3000)
    status, *rest = caller.ask("ReceiveMessage", made)
    return [one.message for one in rest if one.HasField("message")] if status.status.code == Code.OK else []


def acked(caller: Caller, message: Any) -> int:
    ack = request("AckMessage", group="agents", topic=message.topic.name)
    system = message.system_properties
    ack.entries.add(message_id=system.message_id, receipt_handle=system.receipt_handle)
    return int(caller.ask("AckMessage", ack).status.code)


def test_lite_topics_are_subscribed_to_and_come_in_their_order(cluster: LocalCluster, caller: Caller) -> None:
    """One that was suspended comes again with those behind it, and that was no attempt."""
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("sessions", attributes={"message.type": "LITE", "lite.topic.expiration": "1440"})
    caller.metadata["x-mq-client-id"] = "lite-caller"
    assert caller.ask("SyncLiteSubscription", lite_of("COMPLETE_ADD", "one", "two")).status.code == Code.OK
    for name in ("one", "two", "other"):
        for number in range(3):
            send = send_of("sessions", f"{name}-{number}".encode())
            send.messages[0].system_properties.lite_topic = name
            assert caller.ask("SendMessage", send).status.code == Code.OK
    first: list[Any] = []
    while len(first) < 6:
        first += received(caller)
    for name in ("one", "two"):
        of_name = [one.body for one in first if one.system_properties.lite_topic == name]
        assert of_name == [f"{name}-{number}".encode() for number in range(3)]
    named = {one.body: one for one in first}
    suspend = request("ChangeInvisibleDuration", group="agents", topic="sessions", suspend=True)
    suspend.receipt_handle, suspend.lite_topic = named[b"two-1"].system_properties.receipt_handle, "two"
    suspend.invisible_duration.nanos = 50_000_000
    for body in (b"one-0", b"one-1", b"one-2", b"two-0"):
        assert acked(caller, named[body]) == Code.OK
    assert caller.ask("ChangeInvisibleDuration", suspend).status.code == Code.OK
    again = received(caller)
    assert [(one.body, one.system_properties.delivery_attempt) for one in again] == [(b"two-1", 1), (b"two-2", 1)]
    assert [acked(caller, one) for one in again] == [Code.OK, Code.OK]
    assert caller.ask("SyncLiteSubscription", lite_of("COMPLETE_ADD", "other")).status.code == Code.OK
    other = received(caller)[0]
    assert other.body == b"other-0"
    change = request("ChangeInvisibleDuration", group="agents", topic="sessions", invisible_duration_ms=10_000)
    change.receipt_handle = other.system_properties.receipt_handle
    changed = caller.ask("ChangeInvisibleDuration", change)
    assert changed.status.code == Code.OK
    assert changed.receipt_handle != change.receipt_handle
    dead = request("ForwardMessageToDeadLetterQueue", group="agents", topic="sessions")
    dead.receipt_handle = changed.receipt_handle
    assert caller.ask("ForwardMessageToDeadLetterQueue", dead).status.code == Code.OK
    assert caller.ask("SyncLiteSubscription", lite_of("COMPLETE_REMOVE")).status.code == Code.OK
    assert received(caller) == []


def test_who_loses_a_lite_topic_to_another_member_is_told(cluster: LocalCluster, address: str) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("owned", attributes={"message.type": "LITE", "lite.topic.expiration": "1440"})
        admin.create_group("agents-alone", {"lite.bind.topic": "owned", "lite.sub.model": "Exclusive"})
    ends = threading.Event()

    def nothing() -> Iterator[Any]:
        ends.wait(20)
        yield from ()

    sync = lite_of("PARTIAL_ADD", "mine", topic="owned")
    sync.group.name = "agents-alone"
    pop = request(
        "ReceiveMessage", group="agents-alone", queue=("owned", "", -1), batch_size=1, long_polling_timeout_ms=1000
    )
    with grpc.insecure_channel(address) as one, grpc.insecure_channel(address) as other:
        first, second = Caller(one), Caller(other)
        first.metadata["x-mq-client-id"], second.metadata["x-mq-client-id"] = "lite-first", "lite-second"
        stream = first.telemetry(commands=nothing())
        stream.initial_metadata()
        assert first.ask("SyncLiteSubscription", sync).status.code == Code.OK
        assert second.ask("SyncLiteSubscription", sync).status.code == Code.OK
        first.ask("ReceiveMessage", pop)
        assert next(stream).notify_unsubscribe_lite_command.lite_topic == "mine"
        ends.set()
        stream.cancel()


def test_a_receive_in_order_that_is_tried_again_gets_the_same_messages(cluster: LocalCluster, caller: Caller) -> None:
    """Its answer did not come: that was no attempt. Another receive gets nothing behind them before they are settled."""
    with Admin(cluster.namesrv) as admin:
        admin.create_group("in-order", {"consumeMessageOrderly": "true"})
    topic = cluster.create_topic("retried-in-order", queues=1)
    for number in range(3):
        send = send_of(topic, b"%d" % number)
        send.messages[0].system_properties.message_group = "one"
        assert caller.ask("SendMessage", send).status.code == Code.OK

    def receive(attempt_id: str) -> list[Any]:
        made = request("ReceiveMessage", group="in-order", queue=(topic, "", 0), batch_size=2, auto_renew=True)
        made.long_polling_timeout.seconds, made.attempt_id = 0, attempt_id
        return [one.message for one in caller.ask("ReceiveMessage", made) if one.HasField("message")]

    caller.metadata["x-mq-client-id"] = "in-order"
    (first,) = receive("a")
    assert first.body == b"0"
    assert receive("b") == []
    (again,) = receive("a")
    assert (again.body, again.system_properties.delivery_attempt) == (b"0", 1)
    ack = request("AckMessage", group="in-order", topic=topic)
    ack.entries.add(message_id="x", receipt_handle=again.system_properties.receipt_handle)
    assert caller.ask("AckMessage", ack).status.code == Code.OK
    (second,) = receive("a")  # what is acknowledged stays so
    assert second.body == b"1"


def test_a_proxy_that_ends_sends_its_clients_to_another_one(cluster: LocalCluster) -> None:
    ends = threading.Event()

    def settings() -> Iterator[Any]:
        command = METHODS["Telemetry"].request()
        command.settings.SetInParent()
        yield command
        ends.wait(20)

    with ExitStack() as running:
        address = running.enter_context(running_proxy(cluster.namesrv))
        with grpc.insecure_channel(address) as channel:
            stream = Caller(channel).telemetry(commands=settings())
            assert next(stream).HasField("settings")  # so it is known there
            running.close()
            assert next(stream).reconnect_endpoints_command.nonce
            ends.set()


def test_what_is_wrong_with_a_lite_subscription_is_told(cluster: LocalCluster, caller: Caller) -> None:
    caller.metadata["x-mq-client-id"] = "lite-wrong"

    def code(made: Any) -> Code:
        return Code(caller.ask("SyncLiteSubscription", made).status.code)

    assert code(lite_of("PARTIAL_ADD", "a", topic="calls")) == Code.ILLEGAL_LITE_TOPIC
    assert code(lite_of("PARTIAL_ADD", "a", topic="nowhere")) == Code.TOPIC_NOT_FOUND
    assert code(lite_of("PARTIAL_ADD", "a/b")) == Code.ILLEGAL_LITE_TOPIC
    assert (
        code(lite_of("PARTIAL_ADD", *(f"n{number}" for number in range(3000)))) == Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    )
    late = lite_of("PARTIAL_ADD", "a")
    late.offset_option.timestamp = 5
    assert code(late) == Code.BAD_REQUEST


def test_messages_are_pulled_from_an_offset_on_and_offsets_are_kept(cluster: LocalCluster, caller: Caller) -> None:
    with Producer(group="calls", namesrv=cluster.namesrv) as producer:
        receipts = [
            producer.send(Message("calls", b"%d" % number, tags="t"), sharding_key="one") for number in range(5)
        ]
    queue = receipts[0].queue
    named = ("calls", queue.broker_name, queue.queue_id)
    first = receipts[0].queue_offset
    pull = request(
        "PullMessage", group="pulls", queue=named, offset=first + 1, batch_size=32, long_polling_timeout_ms=0
    )
    status, *messages, last = caller.ask("PullMessage", pull)
    assert status.status.code == Code.OK
    assert [one.message.body for one in messages] == [b"1", b"2", b"3", b"4"]
    assert last.next_offset == first + 5
    pull.offset = first + 5
    status, last = caller.ask("PullMessage", pull)
    assert (status.status.code, last.next_offset) == (Code.MESSAGE_NOT_FOUND, first + 5)
    pull.offset = first + 500
    assert caller.ask("PullMessage", pull)[0].status.code == Code.ILLEGAL_OFFSET

    asked = request("GetOffset", group="pulls", queue=named)
    assert caller.ask("GetOffset", asked).status.code == Code.OFFSET_NOT_FOUND
    commit = request("UpdateOffset", group="pulls", queue=named, offset=first + 3)
    assert caller.ask("UpdateOffset", commit).status.code == Code.OK
    assert caller.ask("GetOffset", asked).offset == first + 3
    commit.offset = -1
    assert caller.ask("UpdateOffset", commit).status.code == Code.ILLEGAL_OFFSET
    commit.offset = 1 << 62  # the queue ends before
    assert caller.ask("UpdateOffset", commit).status.code == Code.ILLEGAL_OFFSET

    where = request("QueryOffset", queue=named)
    for policy, offset in (("BEGINNING", 0), ("END", first + 5)):
        where.query_offset_policy = enum_value("QueryOffsetPolicy", policy)
        assert caller.ask("QueryOffset", where).offset == offset
    where.query_offset_policy = enum_value("QueryOffsetPolicy", "TIMESTAMP")
    assert caller.ask("QueryOffset", where).status.code == Code.BAD_REQUEST
    where.timestamp.seconds = (1 << 63) - 1
    assert caller.ask("QueryOffset", where).status.code == Code.OK
    where.timestamp.seconds = 1
    assert caller.ask("QueryOffset", where).offset == 0


def test_several_messages_of_one_send_have_an_answer_each(caller: Caller) -> None:
    sent = send_of("calls", b"a", b"", b"c")
    answer = caller.ask("SendMessage", sent)
    assert answer.status.code == Code.MULTIPLE_RESULTS
    assert [entry.status.code for entry in answer.entries] == [Code.OK, Code.MESSAGE_BODY_EMPTY, Code.OK]
    assert [entry.message_id for entry in answer.entries] == [one.system_properties.message_id for one in sent.messages]


def test_what_cannot_be_done_is_told_by_its_code(caller: Caller) -> None:
    ask = caller.ask
    assert ask("SendMessage", send_of("nowhere", b"x")).status.code == Code.TOPIC_NOT_FOUND
    assert ask("SendMessage", METHODS["SendMessage"].request()).status.code == Code.BAD_REQUEST
    assert ask("QueryRoute", request("QueryRoute", topic="calls")).status.code == Code.ILLEGAL_ACCESS_POINT
    ack = request("AckMessage", group="g", topic="calls")
    assert ask("AckMessage", ack).status.code == Code.BAD_REQUEST
    ack.entries.add(receipt_handle="no handle", message_id="m")
    assert ask("AckMessage", ack).status.code == Code.INVALID_RECEIPT_HANDLE
    change = request(
        "ChangeInvisibleDuration", group="g", topic="calls", receipt_handle="none", invisible_duration_ms=20_000
    )
    changed = ask("ChangeInvisibleDuration", change)
    assert (changed.status.code, changed.receipt_handle) == (Code.INVALID_RECEIPT_HANDLE, "none")
    change.invisible_duration.seconds = 13 * 3600
    assert ask("ChangeInvisibleDuration", change).status.code == Code.ILLEGAL_INVISIBLE_TIME
    letter = request("ForwardMessageToDeadLetterQueue", group="g", topic="calls", receipt_handle="none")
    assert ask("ForwardMessageToDeadLetterQueue", letter).status.code == Code.INVALID_RECEIPT_HANDLE
    end = request("EndTransaction", topic="calls", transaction_id="none", resolution=1)
    assert ask("EndTransaction", end).status.code == Code.INVALID_TRANSACTION_ID
    end.resolution = 0
    assert ask("EndTransaction", end).status.code == Code.BAD_REQUEST
    recall = request("RecallMessage", topic="calls", recall_handle="none")
    assert ask("RecallMessage", recall).status.code == Code.BAD_REQUEST
    lite = METHODS["SyncLiteSubscription"].request()
    assert ask("SyncLiteSubscription", lite).status.code == Code.ILLEGAL_CONSUMER_GROUP
    receive = request("ReceiveMessage", group="g", queue=("calls", "", 0), batch_size=0)
    assert ask("ReceiveMessage", receive)[0].status.code == Code.BAD_REQUEST
    receive.batch_size = 1
    receive.long_polling_timeout.seconds = 20
    assert ask("ReceiveMessage", receive, timeout=0.3)[0].status.code == Code.ILLEGAL_POLLING_TIME
    caller.metadata["x-mq-client-id"] = ""
    assert ask("Heartbeat", METHODS["Heartbeat"].request()).status.code == Code.CLIENT_ID_REQUIRED


def test_settings_are_answered_also_where_they_are_wrong(caller: Caller) -> None:
    command = message_class("TelemetryCommand")
    wrong, right = command(), command()
    wrong.settings.request_timeout.seconds = 3
    right.settings.publishing.topics.add(name="calls")
    answers = caller.telemetry(wrong, right)
    first, second = next(answers), next(answers)
    assert first.status.code == Code.UNRECOGNIZED_CLIENT_TYPE
    assert second.status.code == Code.OK
    assert second.settings.publishing.max_body_size == 4 << 20
    with pytest.raises(StopIteration):
        next(answers)
    assert caller.ask("NotifyClientTermination", METHODS["NotifyClientTermination"].request()).status.code == Code.OK


def test_a_receive_that_its_client_gives_up_leaves_the_messages_to_others(
    cluster: LocalCluster, caller: Caller
) -> None:
    topic = cluster.create_topic("given-up")
    method = METHODS["ReceiveMessage"]
    receive = request("ReceiveMessage", group="given-up", queue=(topic, "", 0), batch_size=32)
    receive.long_polling_timeout.seconds = 20
    receive.invisible_duration.seconds = 3600
    stub = caller.channel.unary_stream(
        f"/{SERVICE}/ReceiveMessage", method.request.SerializeToString, method.response.FromString
    )
    call = stub(receive, metadata=caller.headers(), timeout=30)
    caller.ask("QueryRoute", request("QueryRoute", topic=topic))  # the receive came before
    call.cancel()
    caller.ask("SendMessage", send_of(topic, b"left"))
    receive.long_polling_timeout.seconds = 5
    status, message, _ = caller.ask("ReceiveMessage", receive)
    assert (status.status.code, message.message.body) == (Code.OK, b"left")


# ---- TLS


def test_with_tls(cluster: LocalCluster, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    more = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*words, *more, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    with running_proxy(
        cluster.namesrv, tls_port=0, tls_key=str(key), tls_certificate=str(certificate), is_tls=True
    ) as address:
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
        options = (("grpc.ssl_target_name_override", "localhost"),)
        with grpc.secure_channel(address, credentials, options) as channel:
            answer = Caller(channel).ask("SendMessage", send_of(cluster.create_topic("tls"), b"x"))
    assert answer.status.code == Code.OK


# ---- users


def test_users_sign_and_may_what_their_rules_say(tmp_path: Path) -> None:
    with LocalCluster(secure=True) as cluster:
        mine, other = cluster.create_topic("mine"), cluster.create_topic("other")
        with Admin(cluster.namesrv) as admin:
            rules = tuple(parse_rule(RuleEffect.ALLOW, "pub,sub", target) for target in ("topic:mine", "group:*"))
            admin.put_security_row(User("app", (), rules=rules))
            secret = admin.make_secret("app").secret
        with running_proxy(cluster.namesrv, key=cluster.key()) as address, grpc.insecure_channel(address) as channel:
            caller = Caller(channel)
            assert caller.ask("SendMessage", send_of(mine, b"x")).status.code == Code.UNAUTHORIZED
            assert (
                signed(caller, "app", "wrong").ask("SendMessage", send_of(mine, b"x")).status.code == Code.UNAUTHORIZED
            )
            signed(caller, "app", secret)
            assert caller.ask("SendMessage", send_of(mine, b"x")).status.code == Code.OK
            assert caller.ask("SendMessage", send_of(other, b"x")).status.code == Code.FORBIDDEN
            receive = request("ReceiveMessage", group="g", queue=(mine, "", 0), batch_size=1)
            status, message, _ = caller.ask("ReceiveMessage", receive)
            assert (status.status.code, message.message.body) == (Code.OK, b"x")
            ack = request("AckMessage", group="g", topic=mine)
            ack.entries.add(receipt_handle=message.message.system_properties.receipt_handle)
            assert caller.ask("AckMessage", ack).status.code == Code.OK


def test_more_connections_than_may_be_are_closed(cluster: LocalCluster) -> None:
    """The one that is there is served on."""
    with running_proxy(cluster.namesrv, limits=ProxyLimits(connections=1)) as address:
        host, _, port = address.rpartition(":")
        with grpc.insecure_channel(address) as channel:
            client = Caller(channel)
            beat = METHODS["Heartbeat"].request()
            assert client.ask("Heartbeat", beat).status.code == Code.OK
            for _ in range(20):
                with socket.create_connection((host, int(port)), 5) as other:
                    other.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
                    with suppress(ConnectionResetError):
                        assert other.recv(1) == b""
            assert client.ask("Heartbeat", beat).status.code == Code.OK


def test_who_pulls_much_and_reads_nothing_is_refused_and_given_up(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are served meanwhile; what was held for that one is free again."""
    topic = cluster.create_topic("unread", queues=1)
    with Producer(namesrv=cluster.namesrv) as producer:
        for _ in range(20):
            producer.send(Message(topic, random.randbytes(150_000)))
    method, pull = (
        METHODS["PullMessage"],
        request("PullMessage", group="unread", queue=(topic, "broker-a", 0), batch_size=32),
    )
    metadata = [("x-mq-client-id", "unread")]
    monkeypatch.setattr(methods_module, "WRITE_S", 0.3)
    with (
        running_proxy(cluster.namesrv, limits=ProxyLimits(bytes_in_flight=16 << 20)) as address,
        grpc.insecure_channel(address, [("grpc.http2.bdp_probe", 0)]) as channel,
        grpc.insecure_channel(address) as other,
    ):
        path, write, read = f"/{SERVICE}/PullMessage", method.request.SerializeToString, method.response.FromString
        streams = [channel.unary_stream(path, write, read)(pull, metadata=metadata, timeout=60) for _ in range(8)]
        first = [next(stream).status.code for stream in streams]
        assert sorted(set(first)) == [Code.OK, Code.TOO_MANY_REQUESTS]
        assert first.count(Code.OK) <= 2  # of 1 MiB
        assert Caller(other).ask("PullMessage", pull)[-1].next_offset > 1
        until = monotonic() + 20
        while Caller(channel).ask("PullMessage", pull)[0].status.code != Code.OK:
            assert monotonic() < until


def test_rubbish_and_halves_of_calls_end_and_harm_nobody(cluster: LocalCluster) -> None:
    chance = random.Random(24)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"
    with running_proxy(cluster.namesrv) as address, grpc.insecure_channel(address) as channel:
        host, _, port = address.rpartition(":")
        halves = []
        for number in range(60):
            other = socket.create_connection((host, int(port)), 5)
            rubbish = chance.randbytes(chance.randrange(1, 2_000))
            other.sendall((preface if number % 2 else b"") + rubbish)
            halves.append(other)
        assert Caller(channel).ask("Heartbeat", METHODS["Heartbeat"].request()).status.code == Code.OK
        path = f"/{SERVICE}/SendMessage"
        answer = channel.unary_unary(path)(b"\xff" * 100, metadata=[("x-mq-client-id", "one")], timeout=10)
        assert message_class("SendMessageResponse").FromString(answer).status.code == Code.BAD_REQUEST
        stream = channel.stream_stream(f"/{SERVICE}/Telemetry")
        with pytest.raises(grpc.RpcError) as refused:
            list(stream(iter([b"\xff" * 100]), metadata=[("x-mq-client-id", "one")], timeout=10))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        for other in halves:
            other.close()
        assert Caller(channel).ask("Heartbeat", METHODS["Heartbeat"].request()).status.code == Code.OK
