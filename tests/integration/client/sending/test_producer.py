"""The producer over real sockets: every road, retries, order, bounds, and what it refuses."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from zenitmq import (
    BrokerBusy,
    BufferFull,
    ClientClosed,
    InvalidParameter,
    Message,
    MessageIllegal,
    MessageTooLarge,
    NotMaster,
    Producer,
    RequestTimeout,
    SendFailed,
    SendStatus,
    StoredMessage,
    TopicNotFound,
)
from zenitmq.client.connection.waiting import run_blocking
from zenitmq.model.errors import ConnectionLost, StoreNotWriteable, ZenitError
from zenitmq.model.message import BODY_BYTES_MAX
from zenitmq.record.sys_flag import COMPRESSED
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import SendMessages

TOPIC = "trades"


@pytest.fixture
def broker(new_broker: Callable) -> Iterator:
    return new_broker("a", trades=4)


@pytest.fixture
def producer(namesrv: str, broker) -> Iterator[Producer]:
    with Producer("g", namesrv=namesrv) as made:
        yield made


def bodies(broker) -> list[bytes]:
    return sorted(message.body for message in broker.messages(TOPIC))


def eventually(condition: Callable[[], bool]) -> bool:
    """True as soon as the condition holds, within two seconds."""
    pause = threading.Event()
    return any(condition() or pause.wait(0.02) for _ in range(100))


def by_id(broker) -> dict[str, StoredMessage]:
    return {message.message_id: message for message in broker.messages(TOPIC)}


def check_receipt(receipt, stored: StoredMessage) -> None:
    assert receipt.status is SendStatus.OK
    assert receipt.message_id == stored.message_id
    assert receipt.offset_message_id == stored.offset_message_id
    assert (receipt.queue, receipt.queue_offset) == (stored.queue, stored.queue_offset)
    assert receipt.physical_offset == stored.physical_offset


def test_send_tells_where_the_message_is(producer: Producer, broker) -> None:
    receipt = producer.send(Message(TOPIC, b"x", tags="buy", keys=["o-1", "o-2"], properties={"region": "eu"}, flag=7))
    (stored,) = broker.messages(TOPIC)
    check_receipt(receipt, stored)
    assert (stored.body, stored.tags, stored.keys, stored.flag) == (b"x", "buy", ("o-1", "o-2"), 7)
    assert stored.properties["region"] == "eu"
    assert stored.born_host == bytes((127, 0, 0, 1, 0, 0, 0, 0))


def test_send_batch_gives_a_receipt_a_message(producer: Producer, broker) -> None:
    receipts = producer.send_batch([Message(TOPIC, b"%d" % index, keys=f"k{index}") for index in range(300)])
    stored = broker.messages(TOPIC)
    assert len(receipts) == len(stored) == 300
    assert len(broker.batches) == 1
    for index in (0, 1, 150, 299):
        check_receipt(receipts[index], stored[index])
    assert [receipt.queue_offset for receipt in receipts[10:13]] == [10, 11, 12]


def test_send_bodies_with_columns(producer: Producer, broker) -> None:
    receipt = producer.send_bodies(TOPIC, [b"a", b"b"], tags=["x", "y"], keys=["k1", ["k2", "k3"]])
    assert (receipt.queue_offset, receipt.count) == (0, 2)
    stored = broker.messages(TOPIC)
    assert [(m.body, m.tags, m.keys, m.queue) for m in stored] == [
        (b"a", "x", ("k1",), receipt.queue),
        (b"b", "y", ("k2", "k3"), receipt.queue),
    ]


def test_batch_larger_than_a_buffer_stays_one_request(producer: Producer, broker) -> None:
    many = [os.urandom(3000) for _ in range(1000)]
    assert producer.send_bodies(TOPIC, many).count == 1000
    assert [message.body for message in broker.messages(TOPIC)] == many
    with pytest.raises(MessageTooLarge):
        producer.send_bodies(TOPIC, [os.urandom(4000)] * 2200)


def test_futures_bring_receipts(producer: Producer, broker) -> None:
    called = threading.Event()
    futures = [producer.send_async(Message(TOPIC, b"%d" % index)) for index in range(2000)]
    futures[-1].add_done_callback(lambda future: called.set())
    for future in futures:
        future.result(5)
    assert called.wait(5)
    stored = by_id(broker)
    assert len(stored) == 2000
    for index in (0, 1, 999, 1999):
        receipt = futures[index].result()
        check_receipt(receipt, stored[receipt.message_id])
        assert stored[receipt.message_id].body == b"%d" % index
    assert futures[0].done()
    assert futures[0].exception() is None
    assert len(broker.batches) < 500


def test_post_arrives_once_each(producer: Producer, broker) -> None:
    expected = [b"%06d" % index for index in range(20_000)]
    for body in expected:
        producer.post(TOPIC, body, "t", "k")
    producer.flush(10)
    assert bodies(broker) == expected
    assert len(by_id(broker)) == 20_000


def test_posts_of_many_threads_arrive_once_each(producer: Producer, broker) -> None:
    def post(first: int) -> None:
        for index in range(first, first + 5000):
            producer.post(TOPIC, b"%06d" % index)

    threads = [threading.Thread(target=post, args=(first * 5000,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    producer.flush(10)
    assert bodies(broker) == [b"%06d" % index for index in range(20_000)]
    assert len(by_id(broker)) == 20_000


def test_lingering_message_leaves_by_itself(producer: Producer, broker) -> None:
    arrived = threading.Event()

    def rule(request):
        if isinstance(request, SendMessages):
            arrived.set()

    broker.rule = rule
    producer.post(TOPIC, b"x")
    assert arrived.wait(2)


def test_large_bodies_are_compressed_where_it_helps(producer: Producer, broker, namesrv: str) -> None:
    text, noise = b"abc" * 3000, os.urandom(9000)
    producer.send(Message(TOPIC, text))
    producer.post(TOPIC, text)
    producer.send_async(Message(TOPIC, text)).result(5)
    producer.send_bodies(TOPIC, [text])
    producer.send(Message(TOPIC, noise))
    producer.flush(5)
    with Producer("g", namesrv=namesrv, compression=None) as plain:
        plain.send(Message(TOPIC, text))
    stored = list(broker.messages(TOPIC))
    assert sorted(message.body for message in stored) == sorted([text] * 5 + [noise])
    assert sorted(bool(m.sys_flag & COMPRESSED) for m in stored) == [False] * 2 + [True] * 4


ROADS: dict[str, Callable[[Producer, bytes], object]] = {
    "send": lambda producer, body: producer.send(Message(TOPIC, body)),
    "send_oneway": lambda producer, body: producer.send_oneway(Message(TOPIC, body)),
    "send_batch": lambda producer, body: producer.send_batch([Message(TOPIC, b"small"), Message(TOPIC, body)]),
    "send_bodies": lambda producer, body: producer.send_bodies(TOPIC, [b"small", body]),
    "send_async": lambda producer, body: producer.send_async(Message(TOPIC, body)),
    "post": lambda producer, body: producer.post(TOPIC, body),
}


@pytest.mark.parametrize("compression", ["lz4", None])
@pytest.mark.parametrize("road", ROADS)
def test_the_body_limit_counts_what_is_sent_not_what_is_left_of_it(
    namesrv: str, broker, road: str, compression: str | None
) -> None:
    """A body of one letter compresses to almost nothing; one byte over the limit it is refused by every road."""
    with Producer("g", namesrv=namesrv, compression=compression) as producer:
        for _ in range(2):  # at first, and with the lane open
            with pytest.raises(MessageTooLarge) as refused:
                ROADS[road](producer, b"z" * (BODY_BYTES_MAX + 1))
            assert refused.value.limit_bytes == BODY_BYTES_MAX
            assert refused.value.size_bytes == BODY_BYTES_MAX + 1
            ROADS["post"](producer, b"before")
        ROADS[road](producer, b"after")
        producer.flush(5)
        assert eventually(lambda: b"after" in bodies(broker))
        assert set(bodies(broker)) <= {b"before", b"small", b"after"}


@pytest.mark.parametrize("road", ROADS)
def test_a_body_of_exactly_the_limit_is_sent(producer: Producer, broker, road: str) -> None:
    whole = b"z" * BODY_BYTES_MAX
    ROADS[road](producer, whole)
    producer.flush(5)
    assert eventually(lambda: whole in bodies(broker))


def test_oneway_arrives(producer: Producer, broker) -> None:
    producer.send_oneway(Message(TOPIC, b"x"))
    producer.send(Message("trades", b"y"))
    assert eventually(lambda: bodies(broker) == [b"x", b"y"])


@pytest.mark.parametrize("error", [NotMaster("a", 1), BrokerBusy(10), StoreNotWriteable("full"), TopicNotFound(TOPIC)])
def test_refused_message_goes_to_another_broker(new_broker: Callable, namesrv: str, error: Exception) -> None:
    first, second = new_broker("a", trades=2), new_broker("b", trades=2)
    first.rule = lambda request: error if isinstance(request, SendMessages) else None
    with Producer("g", namesrv=namesrv) as producer:
        assert {producer.send(Message(TOPIC, b"x")).queue.broker_name for _ in range(4)} == {"b"}
        assert {producer.send_async(Message(TOPIC, b"x")).result(5).queue.broker_name for _ in range(4)} == {"b"}
        for _ in range(4):
            producer.post(TOPIC, b"x")
            producer.flush(5)
    assert len(second.messages(TOPIC)) == 12


def test_dead_broker_costs_little(new_broker: Callable, namesrv: str) -> None:
    first, second = new_broker("a", trades=2), new_broker("b", trades=2)
    with Producer("g", namesrv=namesrv) as producer:
        producer.send(Message(TOPIC, b"x"))
        first.stop()
        for index in range(4):
            assert producer.send(Message(TOPIC, b"%d" % index), timeout=5).queue.broker_name == "b"
        for index in range(1000):
            producer.post(TOPIC, b"%d" % index)
        producer.flush(10)
    assert len(second.messages(TOPIC)) >= 1004


def test_silent_broker_is_given_up_within_the_deadline(producer: Producer, broker) -> None:
    broker.rule = lambda request: "silent" if isinstance(request, SendMessages) else None
    with pytest.raises(RequestTimeout):
        producer.send(Message(TOPIC, b"x"), timeout=0.3)


def test_error_that_cannot_pass_is_raised_at_once(producer: Producer, broker) -> None:
    broker.rule = lambda request: MessageIllegal("no") if isinstance(request, SendMessages) else None
    with pytest.raises(MessageIllegal):
        producer.send(Message(TOPIC, b"x"))
    assert sum(isinstance(request, SendMessages) for request in broker.requests) == 1
    with pytest.raises(MessageIllegal):
        producer.send_async(Message(TOPIC, b"x")).result(5)


def test_flush_raises_what_posts_failed_with(producer: Producer, broker) -> None:
    broker.rule = lambda request: MessageIllegal("no") if isinstance(request, SendMessages) else None
    producer.post(TOPIC, b"x", "t", ["k1", "k2"])
    producer.post(TOPIC, b"y")
    with pytest.raises(SendFailed, match="2 messages") as caught:
        producer.flush(5)
    failed = caught.value.failed
    assert [(f.topic, f.body, f.tags, f.keys) for f in failed] == [
        (TOPIC, b"x", "t", ("k1", "k2")),
        (TOPIC, b"y", None, ()),
    ]
    assert isinstance(failed[0].error, MessageIllegal)
    producer.flush(5)  # told once


def test_on_error_is_told(namesrv: str, broker) -> None:
    told: list = []
    heard = threading.Event()

    def on_error(failed: list) -> None:
        told.extend(failed)
        heard.set()

    broker.rule = lambda request: MessageIllegal("no") if isinstance(request, SendMessages) else None
    producer = Producer("g", namesrv=namesrv, on_error=on_error)
    producer.post(TOPIC, b"x")
    with pytest.raises(SendFailed):
        producer.close()
    assert heard.wait(5)
    assert [failed.body for failed in told] == [b"x"]
    producer.close()


def test_windows_are_bounded(namesrv: str, broker) -> None:
    broker.rule = lambda request: "silent" if isinstance(request, SendMessages) else None
    producer = Producer("g", namesrv=namesrv, timeout=0.2, batch_timeout=0.6, window_batches=2, batch_bytes=4096)

    def post_many() -> None:
        for _ in range(1000):
            producer.post(TOPIC, b"x" * 500)

    with pytest.raises(BufferFull):
        post_many()
    assert sum(isinstance(request, SendMessages) for request in broker.requests) <= 2
    with pytest.raises(SendFailed):
        producer.close()


def test_keys_keep_their_queue_and_order(new_broker: Callable, namesrv: str) -> None:
    first, second = new_broker("a", trades=2), new_broker("b", trades=2)
    with Producer("g", namesrv=namesrv) as producer:
        homes = {}
        for index in range(40):
            key = f"user-{index % 5}"
            queue = producer.send(Message(TOPIC, b"%d" % index), sharding_key=key).queue
            assert homes.setdefault(key, queue) == queue
        assert len(set(homes.values())) > 1
        futures = [producer.send_async(Message(TOPIC, b"f%04d" % i), sharding_key="user-1") for i in range(3000)]
        offsets = [future.result(5).queue_offset for future in futures]
        assert offsets == sorted(offsets)
        assert {future.result().queue for future in futures[::100]} == {homes["user-1"]}
        for index in range(3000):
            producer.post(TOPIC, b"p%04d" % index, properties={"n": str(index)}, sharding_key="user-1")
    posted = [m for m in [*first.messages(TOPIC), *second.messages(TOPIC)] if m.body.startswith(b"p")]
    assert [(m.body, m.properties["n"]) for m in posted] == [(b"p%04d" % n, str(n)) for n in range(3000)]
    assert {m.queue_id for m in posted} == {homes["user-1"].queue_id}
    stored = [*first.messages(TOPIC), *second.messages(TOPIC)]
    assert {message.properties["__SHARDINGKEY"] for message in stored} == {f"user-{index}" for index in range(5)}


def test_key_waits_for_its_own_queue(new_broker: Callable, namesrv: str) -> None:
    brokers = {"a": new_broker("a", trades=2), "b": new_broker("b", trades=2)}
    with Producer("g", namesrv=namesrv, timeout=0.3) as producer:
        home = producer.send(Message(TOPIC, b"0"), sharding_key="k").queue
        brokers[home.broker_name].stop()
        with pytest.raises((ConnectionLost, RequestTimeout)):
            producer.send(Message(TOPIC, b"1"), sharding_key="k")
        other = next(broker for name, broker in brokers.items() if name != home.broker_name)
        assert not len(other.messages(TOPIC))


def test_a_topic_that_the_system_keeps_is_refused(producer: Producer) -> None:
    for send in (producer.send, producer.send_async, producer.send_oneway):
        with pytest.raises(InvalidParameter):
            send(Message("rmq_sys_zenit_topics", b""))


@pytest.mark.parametrize(
    "message",
    [
        Message(TOPIC, "text"),  # type: ignore[arg-type]
        Message(TOPIC, b"", keys=["a b"]),
        Message(TOPIC, b"", properties={"KEYS": "x"}),
        Message(TOPIC, b"", properties={"x": ""}),
        Message(TOPIC, b"", tags="a\x01b"),
    ],
)
def test_illegal_messages_are_refused_and_hurt_nothing(producer: Producer, broker, message: Message) -> None:
    for send in (producer.send, producer.send_async, lambda m: producer.send_batch([Message(TOPIC, b"ok"), m])):
        with pytest.raises((MessageIllegal, TypeError)):
            send(message)
    producer.send(Message(TOPIC, b"fine"))
    producer.flush(5)
    assert bodies(broker) == [b"fine"]


def test_topic_that_is_nowhere(producer: Producer) -> None:
    with pytest.raises(TopicNotFound):
        producer.send(Message("nowhere", b""))
    with pytest.raises(TopicNotFound):
        producer.post("nowhere", b"")


@pytest.mark.parametrize("road", ["send", "send_batch", "post"])
def test_a_topic_made_again_with_fewer_queues_is_looked_up_again(
    broker, namesrv: str, monkeypatch: pytest.MonkeyPatch, road: str
) -> None:
    """By a producer that did not hear of it."""
    monkeypatch.setattr(RemotingClient, "subscribe", lambda *_: None)
    with Producer("g", namesrv=namesrv) as producer:
        producer.send(Message(TOPIC, b"before"))
        broker.topics[TOPIC] = 1
        broker.register()
        for _ in range(8):
            if road == "send":
                producer.send(Message(TOPIC, b"x"))
            elif road == "send_batch":
                producer.send_batch([Message(TOPIC, b"x")])
            else:
                producer.post(TOPIC, b"x")
                producer.flush()
    assert bodies(broker).count(b"x") == 8


def test_closed_producer_says_so(namesrv: str, broker) -> None:
    producer = Producer("g", namesrv=namesrv)
    producer.post(TOPIC, b"x")
    producer.close()
    producer.close()
    assert bodies(broker) == [b"x"]
    for use in (lambda: producer.post(TOPIC, b""), lambda: producer.send(Message(TOPIC, b"")), producer.flush):
        with pytest.raises(ClientClosed):
            use()


def test_forked_child_refuses_and_can_make_its_own(namesrv: str, broker, producer: Producer) -> None:
    producer.send(Message(TOPIC, b"parent"))
    producer.post(TOPIC, b"parent too")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            try:
                producer.post(TOPIC, b"wrong")
            except ClientClosed:
                own = Producer("g", namesrv=namesrv)
                own.send(Message(TOPIC, b"child"))
                own.close()
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    producer.flush(5)
    assert bodies(broker) == [b"child", b"parent", b"parent too"]
    assert len(by_id(broker)) == 3


def test_a_watcher_of_a_post_is_told_what_became_of_its_batch(namesrv: str, broker) -> None:
    told: list[ZenitError | None] = []
    with Producer("g", namesrv=namesrv, on_error=lambda failed: None) as producer:

        def post(body: bytes) -> None:
            run_blocking(producer._background.post(TOPIC, (body, None, None, b"", 0, 0), None, 3000, told.append))
            producer.post(TOPIC, body)  # of the same batch, and not watched
            with contextlib.suppress(SendFailed):
                producer.flush(5)

        post(b"1")
        assert told == [None]
        broker.rule = lambda request: MessageIllegal("no") if isinstance(request, SendMessages) else None
        post(b"2")
        assert [type(error) for error in told] == [type(None), MessageIllegal]
        broker.rule = lambda request: None
        producer.post(TOPIC, b"3")
        producer.flush(5)
        assert len(told) == 2
