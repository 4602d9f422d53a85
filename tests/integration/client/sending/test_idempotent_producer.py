"""An idempotent producer on a network that loses answers, and an ordinary one beside it: once, and more than once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from integration.client.real_broker import RealBroker
from integration.client.sending.lying_network import LyingNetwork
from integration.client.sending.stored_messages import stored

from zenitmq import Admin, Message, MessageQueue, OutcomeUnknown, Producer, aio
from zenitmq.client.connection.connection import connect, release
from zenitmq.client.connection.waiting import Blocking, run_blocking
from zenitmq.client.sending.idempotent.sequenced_sends import SequencedResult, SequencedSends
from zenitmq.model.errors import InvalidParameter, MessageIllegal, RequestTimeout
from zenitmq.record.kernel import Accumulator, batch_sizes
from zenitmq.remoting import commands
from zenitmq.remoting.client import RemotingClient

TOPIC = "trades"
COUNT = 300


@pytest.fixture
def broker(real_broker: RealBroker, namesrv: str) -> RealBroker:
    with Admin(namesrv) as admin:
        admin.create_topic(TOPIC, queues=4)
    return real_broker


def check(namesrv: str, expected: list[bytes], *, idempotent: bool) -> None:
    counts = Counter(message.body for message in stored(namesrv, TOPIC))
    assert set(counts) == set(expected)
    if idempotent:
        assert set(counts.values()) == {1}
    else:
        assert max(counts.values()) > 1, "this network makes an ordinary producer send twice, or the test shows nothing"


WAYS: dict[str, Callable[[Producer, bytes], object]] = {
    "send": lambda producer, body: producer.send(Message(TOPIC, body), timeout=20.0),
    "send_async": lambda producer, body: producer.send_async(Message(TOPIC, body)),
    "post": lambda producer, body: producer.post(TOPIC, body),
    "send_batch": lambda producer, body: producer.send_batch(
        [Message(TOPIC, body), Message(TOPIC, body + b"+")], timeout=20.0
    ),
    "send_bodies": lambda producer, body: producer.send_bodies(TOPIC, [body, body + b"+"], timeout=20.0),
}


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_messages_are_stored_once(
    broker: RealBroker, namesrv: str, monkeypatch: pytest.MonkeyPatch, way: str, idempotent: bool
) -> None:
    network = LyingNetwork(monkeypatch, seed=len(way))
    count = 40 if way.startswith("send_b") else 120
    with Producer("p", namesrv=namesrv, idempotent=idempotent, batch_bytes=4096, linger_ms=0) as producer:
        for number in range(count):
            WAYS[way](producer, b"%04d" % number + bytes(500))
        producer.flush()
        assert network.lies > 4
        network.is_honest = True
    expected = [b"%04d" % number + bytes(500) for number in range(count)]
    if way.startswith("send_b"):
        expected += [body + b"+" for body in expected]
    check(namesrv, expected, idempotent=idempotent)


def test_order_is_kept_over_retries(broker: RealBroker, namesrv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By several threads that send, and by futures, of as many keys."""
    network = LyingNetwork(monkeypatch, seed=5)
    with Producer("p", namesrv=namesrv, idempotent=True, batch_bytes=4096) as producer:

        def send(key: str) -> None:
            for number in range(30):
                producer.send(Message(TOPIC, f"{key}-{number:04d}".encode()), sharding_key=key, timeout=30.0)

        threads = [threading.Thread(target=send, args=(f"waited{index}",)) for index in range(3)]
        for thread in threads:
            thread.start()
        for number in range(COUNT):
            producer.send_async(Message(TOPIC, b"future-%04d" % number + bytes(200)), sharding_key="f")
        producer.flush()
        for thread in threads:
            thread.join()
        network.is_honest = True
    bodies = [message.body.rstrip(b"\0") for message in stored(namesrv, TOPIC)]
    for name, count in (("future", COUNT), ("waited0", 30), ("waited1", 30), ("waited2", 30)):
        mine = [body for body in bodies if body.startswith(name.encode())]
        assert mine == [f"{name}-{number:04d}".encode() for number in range(count)]


def test_receipts_tell_where_the_messages_are(
    broker: RealBroker, namesrv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever try it was that stored them."""
    network = LyingNetwork(monkeypatch, seed=6)
    with Producer("p", namesrv=namesrv, idempotent=True) as producer:
        receipts = [producer.send(Message(TOPIC, b"%d" % number), timeout=20.0) for number in range(40)]
        receipts += producer.send_batch([Message(TOPIC, b"%d" % number) for number in range(40, 60)], timeout=20.0)
        futures = [producer.send_async(Message(TOPIC, b"%d" % number)) for number in range(60, 90)]
        receipts += [future.result(20) for future in futures]
        network.is_honest = True
    by_body = {message.body: message for message in stored(namesrv, TOPIC)}
    for number, receipt in enumerate(receipts):
        message = by_body[b"%d" % number]
        assert (receipt.queue, receipt.queue_offset) == (message.queue, message.queue_offset)
        assert (receipt.message_id, receipt.physical_offset) == (message.message_id, message.physical_offset)


@pytest.mark.parametrize("idempotent", [True, False])
def test_delayed_messages_come_once(
    broker: RealBroker, namesrv: str, monkeypatch: pytest.MonkeyPatch, idempotent: bool
) -> None:
    network = LyingNetwork(monkeypatch, seed=3)
    soon = timedelta(milliseconds=300)
    with Producer("p", namesrv=namesrv, idempotent=idempotent) as producer:
        for number in range(30):
            producer.send(Message(TOPIC, b"%d" % number, delay=soon), timeout=20.0)
        receipt = producer.send(Message(TOPIC, b"never", delay=timedelta(days=1)), timeout=20.0)
        network.is_honest = True
        producer.recall(receipt)
    assert network.lies > 4
    threading.Event().wait(0.5)
    check(namesrv, [b"%d" % number for number in range(30)], idempotent=idempotent)


@pytest.mark.parametrize("idempotent", [True, False])
def test_the_asyncio_producer_too(
    broker: RealBroker, namesrv: str, monkeypatch: pytest.MonkeyPatch, idempotent: bool
) -> None:
    network = LyingNetwork(monkeypatch, seed=4)

    async def produce() -> None:
        async with aio.Producer("p", namesrv=namesrv, idempotent=idempotent, batch_bytes=4096) as producer:
            await asyncio.gather(*(producer.send(Message(TOPIC, b"%d" % number), timeout=30.0) for number in range(60)))
            for number in range(60, 160):
                producer.post(TOPIC, b"%d" % number + bytes(300))
            await producer.flush()
            network.is_honest = True

    asyncio.run(produce())
    expected = [b"%d" % number for number in range(60)] + [b"%d" % number + bytes(300) for number in range(60, 160)]
    check(namesrv, expected, idempotent=idempotent)


def test_a_send_that_is_cancelled_harms_none_that_follows(broker: RealBroker, namesrv: str) -> None:
    async def produce() -> None:
        async with aio.Producer("p", namesrv=namesrv, idempotent=True) as producer:
            for number in range(20):
                task = asyncio.ensure_future(producer.send(Message(TOPIC, b"cancelled"), sharding_key="k"))
                await asyncio.sleep(0.0005 * (number % 4))
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await producer.send(Message(TOPIC, b"%d" % number), sharding_key="k")

    asyncio.run(produce())
    bodies = [message.body for message in stored(namesrv, TOPIC) if message.body != b"cancelled"]
    assert bodies == [b"%d" % number for number in range(20)]


def test_a_send_without_an_answer_ends_as_unknown_and_the_queue_goes_on(
    broker: RealBroker, namesrv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = LyingNetwork(monkeypatch, seed=0)
    network.is_honest = True
    with Producer("p", namesrv=namesrv, idempotent=True, retries=2, batch_timeout=1.0) as producer:
        producer.send(Message(TOPIC, b"first"), sharding_key="k")
        network.is_honest, network.keeps_all = False, True
        with pytest.raises(OutcomeUnknown):
            producer.send(Message(TOPIC, b"unknown"), sharding_key="k")
        future = producer.send_async(Message(TOPIC, b"unknown too"), sharding_key="k")
        assert isinstance(future.exception(10), OutcomeUnknown)
        network.is_honest = True
        producer.send(Message(TOPIC, b"last"), sharding_key="k")
        with pytest.raises(MessageIllegal):
            producer.send(Message(TOPIC, b"x", tags="\x02"))
    assert [message.body for message in stored(namesrv, TOPIC)] == [b"first", b"unknown", b"unknown too", b"last"]


def test_a_caller_in_line_for_a_queue_gives_up_in_time(
    broker: RealBroker, namesrv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was sent then: nothing is unknown."""
    network = LyingNetwork(monkeypatch, seed=0)
    network.is_honest = True
    with Producer("p", namesrv=namesrv, idempotent=True, batch_timeout=5.0) as producer:
        producer.send(Message(TOPIC, b"first"), sharding_key="k")
        network.is_honest, network.keeps_all = False, True
        future = producer.send_async(Message(TOPIC, b"slow"), sharding_key="k")
        threading.Event().wait(0.1)
        with pytest.raises(RequestTimeout):
            producer.send(Message(TOPIC, b"in line"), sharding_key="k", timeout=0.2)
        network.is_honest = True
        future.result(10)
    assert b"in line" not in [message.body for message in stored(namesrv, TOPIC)]


def test_a_broker_that_forgot_the_producer_is_met_anew(
    broker: RealBroker, namesrv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Producer("p", namesrv=namesrv, idempotent=True) as producer:
        producer.send(Message(TOPIC, b"first"), sharding_key="k")
        broker.broker._state.producer_table.on_topic_deleted(TOPIC)
        receipt = producer.send(Message(TOPIC, b"second"), sharding_key="k")
        broker.broker._state.producer_table.on_topic_deleted(TOPIC)
        assert producer.send_async(Message(TOPIC, b"third"), sharding_key="k").result(10).queue_offset == 2
    assert receipt.queue_offset == 1


def test_a_batch_that_is_there_in_part_is_completed(
    broker: RealBroker, namesrv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash in the middle of a batch leaves its first messages: here by a network that cuts the first try short."""
    call, cut = RemotingClient.call, []

    def cutting_call(
        client: RemotingClient, address: str, request: Any, payload: Any = None, *, timeout_ms: int
    ) -> Any:
        if isinstance(request, commands.SendSequenced) and request.count > 2 and not cut:
            cut.append(request)
            end = sum(batch_sizes(bytearray(payload), len(payload))[:2])
            values = {name: getattr(request, name) for name in request.__slots__}
            call(
                client, address, commands.SendSequenced(**{**values, "count": 2}), payload[:end], timeout_ms=timeout_ms
            )
            raise RequestTimeout("a send", timeout_ms)
        return call(client, address, request, payload, timeout_ms=timeout_ms)

    monkeypatch.setattr(RemotingClient, "call", cutting_call)
    with Producer("p", namesrv=namesrv, idempotent=True) as producer:
        producer.send(Message(TOPIC, b"before"), sharding_key="k")
        receipts = producer.send_batch([Message(TOPIC, b"%d" % number) for number in range(5)], sharding_key="k")
        assert cut
    messages = stored(namesrv, TOPIC)
    assert [message.body for message in messages] == [b"before", b"0", b"1", b"2", b"3", b"4"]
    assert [receipt.queue_offset for receipt in receipts] == [1, 2, 3, 4, 5]
    assert [receipt.physical_offset for receipt in receipts] == [message.physical_offset for message in messages[1:]]


# ---- the lower seam


@pytest.fixture
def sends(broker: RealBroker, namesrv: str) -> Iterator[SequencedSends]:
    connection = connect(namesrv)
    yield SequencedSends(connection, "query-1/7", total_ms=5_000)
    run_blocking(release(connection, Blocking(connection.remoting)))


QUEUE = MessageQueue(TOPIC, "broker-a", 2)


def payload(sends: SequencedSends, *bodies: bytes) -> bytes:
    accumulator = Accumulator(TOPIC.encode(), 1 << 16, id_prefix=bytes(10), own_properties=sends.room)
    accumulator.begin(1, 1)
    assert accumulator.append_many(list(bodies), 0) == len(bodies)
    buffer, used, *_ = accumulator.swap(bytearray(1))
    return bytes(buffer[:used])


def test_a_task_that_runs_twice_stores_once(sends: SequencedSends, namesrv: str) -> None:
    first = 3 << 32
    assert sends.send(QUEUE, payload(sends, b"a", b"b"), 2, first) == SequencedResult(first + 1, 0)
    assert sends.send(QUEUE, payload(sends, b"a", b"b"), 2, first) == SequencedResult(
        first + 1, 2, known_sequence=first + 1
    )
    assert sends.send(QUEUE, payload(sends, b"b", b"c"), 2, first + 1) == SequencedResult(first + 2, 1)
    later = 9 << 32
    assert sends.send(QUEUE, payload(sends, b"d"), 1, later) == SequencedResult(later, 0)
    assert sends.send(QUEUE, payload(sends, b"a"), 1, first) == SequencedResult(first, 1, known_sequence=later)
    assert [message.body for message in stored(namesrv, TOPIC)] == [b"a", b"b", b"c", b"d"]


def test_a_task_survives_lost_answers(sends: SequencedSends, namesrv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = LyingNetwork(monkeypatch, seed=1)
    sends = SequencedSends(sends._connection, "query-1/9")
    for number in range(40):
        result = sends.send(QUEUE, payload(sends, b"%d" % number, b"x%d" % number), 2, number * 2)
        assert result.last_sequence == number * 2 + 1
    assert network.lies > 4
    network.is_honest = True
    expected = [body for number in range(40) for body in (b"%d" % number, b"x%d" % number)]
    assert [message.body for message in stored(namesrv, TOPIC)] == expected


def test_what_a_task_is_told_when_it_fails(
    sends: SequencedSends, broker: RealBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MessageIllegal):
        sends.send(QUEUE, b"x", 1, 0)
    with pytest.raises(InvalidParameter):
        sends.send(QUEUE, payload(sends, b"a"), 1, -1)
    with pytest.raises(InvalidParameter):
        SequencedSends(sends._connection, "a b")
    network = LyingNetwork(monkeypatch, seed=0)
    network.keeps_all = True
    hasty = SequencedSends(sends._connection, "query-1/8", total_ms=300)
    with pytest.raises(OutcomeUnknown):
        hasty.send(QUEUE, payload(hasty, b"a"), 1, 0)
    network.is_honest = True
    assert hasty.send(QUEUE, payload(hasty, b"a"), 1, 0).duplicate_messages == 1


def test_more_senders_than_queues_have_their_turns(broker: RealBroker, namesrv: str) -> None:
    """Who is answered and sends again at once does not keep its queue from those that wait for one."""
    sent = [0] * 8

    async def send_on(producer: aio.Producer, number: int) -> None:
        while sum(sent) < 800:
            await producer.send(Message(TOPIC, b"x"))
            sent[number] += 1

    async def run() -> None:
        async with aio.Producer(group="fair", namesrv=namesrv, idempotent=True) as producer:
            await asyncio.gather(*(send_on(producer, number) for number in range(8)))

    asyncio.run(run())
    assert min(sent) > 40, sent


def test_threads_that_share_few_queues_have_their_turns(broker: RealBroker, namesrv: str) -> None:
    sent = [0] * 8
    with Producer(group="fair", namesrv=namesrv, idempotent=True) as producer:

        def send_on(number: int) -> None:
            while sum(sent) < 800:
                producer.send(Message(TOPIC, b"x"))
                sent[number] += 1

        threads = [threading.Thread(target=send_on, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert min(sent) > 20, sent
