"""Transactions through the clients and a real broker: committed, rolled back, asked about, by whoever is there."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zenitmq import (
    FIRST,
    Admin,
    Message,
    PullConsumer,
    Resolution,
    StoredMessage,
    TransactionDecided,
    TransactionNotFound,
    TransactionProducer,
    TransactionState,
)
from zenitmq.aio import TransactionProducer as AioTransactionProducer
from zenitmq.model.errors import ClientClosed, InvalidName, InvalidParameter, MessageIllegal
from zenitmq.model.handles.transaction import TransactionId
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import EndTransactions

if TYPE_CHECKING:
    from integration.client.real_broker import RealBroker

TOPIC = "trades"
COMMITTED, ROLLED_BACK = TransactionState.COMMITTED, TransactionState.ROLLED_BACK


SETTINGS = {"transaction_timeout_ms": 300, "transaction_check_interval_ms": 500, "transaction_checks_max": 6}


@pytest.fixture
def broker(namesrv: str, tmp_path: Path) -> Iterator[RealBroker]:
    """One that asks soon, with the topic."""
    from integration.client.real_broker import RealBroker

    made = RealBroker(namesrv, tmp_path, **SETTINGS)
    try:
        with Admin(namesrv) as admin:
            admin.create_topic(TOPIC, queues=4)
        yield made
    finally:
        made.stop()


@pytest.fixture
def consumer(namesrv: str, broker: RealBroker) -> Iterator[PullConsumer]:
    with PullConsumer("readers", namesrv=namesrv, start_from=FIRST) as made:
        made.subscribe(TOPIC)
        yield made


def receive(consumer: PullConsumer, count: int, within_s: float = 15) -> list[bytes]:
    """The bodies that come, once there are so many; a moment longer, for those that should not."""
    found: list[bytes] = []
    deadline = time.monotonic() + within_s
    while len(found) < count and time.monotonic() < deadline:
        found += [message.body for message in consumer.poll(timeout=0.2)]
    found += [message.body for message in consumer.poll(timeout=0.4)]
    return sorted(found)


def unasked(message: StoredMessage) -> Resolution:
    """A `check` that decides nothing."""
    return Resolution.UNKNOWN


def test_consumers_get_what_was_committed_and_nothing_else(namesrv: str, consumer: PullConsumer) -> None:
    with TransactionProducer("g", unasked, namesrv=namesrv) as producer:
        seen = []

        def execute(message: Message) -> Resolution:
            seen.append(message.body)
            return Resolution.ROLLBACK if message.body == b"no" else Resolution.COMMIT

        yes = producer.send(Message(TOPIC, b"yes", keys=("k",), properties={"own": "o"}), execute)
        no = producer.send(Message(TOPIC, b"no"), execute)
        sharded = producer.send(Message(TOPIC, b"sharded"), execute, sharding_key="s")
        assert seen == [b"yes", b"no", b"sharded"]
        assert [yes.state, no.state, sharded.state] == [COMMITTED, ROLLED_BACK, COMMITTED]
        assert yes.queue_offset >= 0
        assert yes.physical_offset > TransactionId.parse(yes.transaction_id).half_offset
        assert (no.queue_offset, no.physical_offset) == (-1, -1)
        assert receive(consumer, 2) == [b"sharded", b"yes"]
    with Admin(namesrv) as admin:
        (found,) = admin.query_by_key(TOPIC, "k")
    assert found.message_id == yes.message_id
    assert found.properties["own"] == "o"


def test_it_is_decided_once_by_whoever_has_its_id(namesrv: str, consumer: PullConsumer) -> None:
    with (
        TransactionProducer("g", unasked, namesrv=namesrv) as producer,
        TransactionProducer("g", unasked, namesrv=namesrv) as other,
        TransactionProducer("strangers", unasked, namesrv=namesrv) as stranger,
    ):
        begun = producer.begin(Message(TOPIC, b"once"))
        assert begun.state is None
        with pytest.raises(InvalidParameter, match="group"):
            stranger.commit(begun)
        assert other.commit(begun.transaction_id).state is COMMITTED
        assert producer.commit(begun).state is COMMITTED
        with pytest.raises(TransactionDecided, match="committed"):
            producer.rollback(begun)
        assert receive(consumer, 1) == [b"once"]


def test_bad_input_is_refused_by_name(namesrv: str, consumer: PullConsumer) -> None:
    with pytest.raises(InvalidParameter, match="check"):
        TransactionProducer("g", None, namesrv=namesrv)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="check_workers"):
        TransactionProducer("g", unasked, namesrv=namesrv, check_workers=0)
    with TransactionProducer("g", unasked, namesrv=namesrv) as producer:
        with pytest.raises(InvalidParameter, match="delay"):
            producer.begin(Message(TOPIC, b"late", delay=timedelta(seconds=1)))
        with pytest.raises(InvalidParameter, match="transaction_id"):
            producer.commit("forged")
        with pytest.raises(InvalidParameter, match="execute"):
            producer.send(Message(TOPIC, b"never stored"), 3)
        with pytest.raises(MessageIllegal):
            producer.send("no message", unasked)
        begun = TransactionId.parse(producer.begin(Message(TOPIC, b"x")).transaction_id)
        for forged in (
            TransactionId("broker-a", TOPIC, begun.half_offset, "F" * 32),
            TransactionId("broker-a", TOPIC, begun.half_offset + 7, begun.message_id),
        ):
            with pytest.raises(TransactionNotFound):
                producer.commit(forged.encode())
        with pytest.raises(InvalidParameter, match="execute"):
            producer.send(Message(TOPIC, b"y"), lambda _: True)
        with pytest.raises(ZeroDivisionError):
            producer.send(Message(TOPIC, b"z"), lambda _: 1 // 0)
        assert receive(consumer, 0) == []


def test_who_does_not_say_is_asked_until_somebody_of_the_group_does(namesrv: str, consumer: PullConsumer) -> None:
    asked: list[tuple[str, bytes]] = []

    def check(message: StoredMessage) -> Resolution:
        asked.append((message.topic, message.body))
        if len(asked) == 1:
            raise RuntimeError("the database is away")
        return Resolution.COMMIT if message.body == b"mine" else Resolution.ROLLBACK

    with TransactionProducer("g", unasked, namesrv=namesrv) as gone:
        gone.begin(Message(TOPIC, b"mine"))
        gone.begin(Message(TOPIC, b"not"))
    with TransactionProducer("g", check, namesrv=namesrv):  # it never sent anything
        assert receive(consumer, 1) == [b"mine"]
        for _ in range(200):
            if len(asked) >= 3:
                break
            time.sleep(0.05)
    assert {topic for topic, _ in asked} == {TOPIC}
    assert sorted({body for _, body in asked}) == [b"mine", b"not"]


def test_a_check_that_hangs_holds_up_no_other(namesrv: str, consumer: PullConsumer) -> None:
    stuck = threading.Event()

    def check(message: StoredMessage) -> Resolution:
        if message.body == b"hangs":
            stuck.wait(30)
        return Resolution.COMMIT

    try:
        with TransactionProducer("g", check, namesrv=namesrv, check_workers=2) as producer:
            producer.begin(Message(TOPIC, b"hangs"))
            producer.begin(Message(TOPIC, b"a"))
            producer.begin(Message(TOPIC, b"b"))
            assert receive(consumer, 2) == [b"a", b"b"]
    finally:
        stuck.set()


def test_a_start_in_between_changes_nothing(namesrv: str, broker: RealBroker, consumer: PullConsumer) -> None:
    with TransactionProducer("g", unasked, namesrv=namesrv) as producer:
        begun = [producer.begin(Message(TOPIC, name)) for name in (b"a", b"b", b"c")]
        producer.commit(begun[0])
        producer.rollback(begun[1])
        broker.stop()
        broker.start()
        assert producer.commit(begun[0]).state is COMMITTED
        assert producer.rollback(begun[1]).state is ROLLED_BACK
        assert producer.commit(begun[2]).state is COMMITTED
        assert receive(consumer, 2) == [b"a", b"c"]


def test_many_threads_share_a_producer(namesrv: str, consumer: PullConsumer) -> None:
    with TransactionProducer("g", unasked, namesrv=namesrv) as producer, ThreadPoolExecutor(8) as pool:

        def one(number: int) -> None:
            producer.send(Message(TOPIC, b"%03d" % number), lambda _: Resolution.COMMIT)

        list(pool.map(one, range(100)))
        assert receive(consumer, 100) == [b"%03d" % number for number in range(100)]


def test_the_asyncio_twin(namesrv: str, consumer: PullConsumer) -> None:
    async def check(message: StoredMessage) -> Resolution:
        await asyncio.sleep(0)
        return Resolution.COMMIT

    async def execute(message: Message) -> Resolution:
        await asyncio.sleep(0)
        return Resolution.COMMIT

    async def run() -> None:
        async with AioTransactionProducer("g", check, namesrv=namesrv) as producer:
            sent = [producer.send(Message(TOPIC, b"%d" % number), execute) for number in range(8)]
            assert {receipt.state for receipt in await asyncio.gather(*sent)} == {COMMITTED}
            begun = await producer.begin(Message(TOPIC, b"asked"))
            assert (await producer.rollback(await producer.begin(Message(TOPIC, b"no")))).state is ROLLED_BACK
            for _ in range(200):
                await asyncio.sleep(0.05)
                if not producer_is_asked(begun.transaction_id):
                    break

    def producer_is_asked(transaction_id: str) -> bool:
        bodies.extend(message.body for message in consumer.poll(timeout=0.01))
        return b"asked" not in bodies

    bodies: list[bytes] = []
    asyncio.run(run())
    assert sorted(bodies) == [b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"asked"]


def test_its_trace_says_how_it_ended_and_who_said_so(namesrv: str, consumer: PullConsumer) -> None:
    def check(message: StoredMessage) -> Resolution:
        return Resolution.COMMIT if message.body == b"asked" else Resolution.UNKNOWN

    with TransactionProducer("g", check, namesrv=namesrv, trace=True) as producer:
        sent = [
            producer.send(Message(TOPIC, b"yes"), lambda _: Resolution.COMMIT),
            producer.send(Message(TOPIC, b"no"), lambda _: Resolution.ROLLBACK),
            producer.send(Message(TOPIC, b"asked"), lambda _: Resolution.UNKNOWN),
            producer.begin(Message(TOPIC, b"in two steps")),
        ]
        producer.rollback(sent[3])
        assert receive(consumer, 2) == [b"asked", b"yes"]
    expected = [
        [("COMMIT_MESSAGE", False)],
        [("ROLLBACK_MESSAGE", False)],
        [("UNKNOW", False), ("COMMIT_MESSAGE", True)],
        [("ROLLBACK_MESSAGE", False)],
    ]
    with Admin(namesrv) as admin:
        for receipt, ends in zip(sent, expected, strict=True):
            journey = admin.trace(receipt.message_id)
            assert journey["topic"] == TOPIC
            told = [event for event in journey["events"] if event["event"] == "transaction"]
            assert [(event["state"], event["from_check"]) for event in told] == ends
            assert {event["transaction_id"] for event in told} == {receipt.transaction_id}
            (made,) = [event for event in journey["events"] if event["event"] == "produced"]
            assert made["message_type"] == "transaction_half"
            stored = [event["topic"] for event in journey["events"] if event["event"] == "stored"]
            assert stored == ([TOPIC] if ends[-1][0] == "COMMIT_MESSAGE" else [])


def test_a_send_says_how_long_nobody_is_asked(namesrv: str, consumer: PullConsumer) -> None:
    """The guide told to set a property for that, which producers refuse."""
    asked: list[bytes] = []

    def check(message: StoredMessage) -> Resolution:
        asked.append(message.body)
        return Resolution.COMMIT

    with TransactionProducer("g", check, namesrv=namesrv) as producer:
        for wrong in (0, -1, 1 << 40, "1"):
            with pytest.raises(InvalidParameter, match="check_after"):
                producer.begin(Message(TOPIC, b"x"), check_after=wrong)  # type: ignore[arg-type]
        producer.send(Message(TOPIC, b"much later"), lambda _: Resolution.UNKNOWN, check_after=600)
        producer.begin(Message(TOPIC, b"later"), check_after=1.2)
        producer.begin(Message(TOPIC, b"soon"))
        assert receive(consumer, 2) == [b"later", b"soon"]
        assert asked == [b"soon", b"later"]


def run_zenit(namesrv: str, *arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "zenitmq", "transaction", *arguments, "--namesrv", namesrv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_an_operator_decides_what_nobody_did(namesrv: str, broker: RealBroker, consumer: PullConsumer) -> None:
    with TransactionProducer("g", unasked, namesrv=namesrv) as producer:
        kept, dropped = (producer.begin(Message(TOPIC, name)) for name in (b"kept", b"dropped"))
        with Admin(namesrv) as admin:
            wait_parked(admin, 2)
            assert admin.transactions(topic="other") == admin.transactions(group="other") == []
            for wrong in ({"topic": "no such"}, {"group": "no such"}):
                with pytest.raises(InvalidName):
                    admin.transactions(**wrong)
            facts, message = admin.transaction(kept.transaction_id)
        assert (facts["group"], facts["checks"], message.body) == ("g", SETTINGS["transaction_checks_max"], b"kept")
        with pytest.raises(TransactionDecided, match="parked"):
            producer.commit(kept)
        end = EndTransactions("", ((TOPIC, kept.transaction_id, Resolution.COMMIT.value, -1),))
        with RemotingClient() as client, pytest.raises(InvalidName, match="group"):
            client.call(broker.address, end, timeout_ms=5000)
        listed = json.loads(run_zenit(namesrv, "list", "--json"))
        assert {row["transaction_id"] for row in listed} == {kept.transaction_id, dropped.transaction_id}
        assert "parked" in run_zenit(namesrv, "list", "--topic", TOPIC)
        assert "kept" in run_zenit(namesrv, "show", kept.transaction_id)
        assert json.loads(run_zenit(namesrv, "show", dropped.transaction_id, "--json"))["message"]["body"] == "dropped"
        assert "committed, queue" in run_zenit(namesrv, "commit", kept.transaction_id)
        assert "rolled back" in run_zenit(namesrv, "rollback", dropped.transaction_id)
        assert "committed already" in run_zenit(namesrv, "rollback", kept.transaction_id, code=1)
        assert "no transaction" in run_zenit(namesrv, "show", kept.transaction_id, code=1)
        assert "zenit transaction list" in run_zenit(namesrv, "commit", "x", code=1)
        assert json.loads(run_zenit(namesrv, "list", "--json")) == []
        assert receive(consumer, 1) == [b"kept"]


def test_a_forked_child_makes_its_own_and_leaves_the_other_alone(namesrv: str, consumer: PullConsumer) -> None:
    with TransactionProducer("g", unasked, namesrv=namesrv) as producer:
        begun = producer.begin(Message(TOPIC, b"parent"))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with suppress(ClientClosed):
                    producer.commit(begun)
                    code = 2
                with TransactionProducer("g", unasked, namesrv=namesrv) as own:
                    own.send(Message(TOPIC, b"child"), lambda _: Resolution.COMMIT)
                code = code if code == 2 else 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert producer.commit(begun).state is COMMITTED
        assert receive(consumer, 2) == [b"child", b"parent"]


def test_who_is_dropped_without_close_or_closed_while_it_is_asked_leaves_it_to_others(
    namesrv: str, consumer: PullConsumer
) -> None:
    asked, may_go_on = threading.Event(), threading.Event()

    def slow(message: StoredMessage) -> Resolution:
        asked.set()
        assert may_go_on.wait(30)
        return Resolution.ROLLBACK

    program = f"""
from zenitmq import Message, Resolution, TransactionProducer
producer = TransactionProducer("g", lambda message: Resolution.ROLLBACK, namesrv={namesrv!r})
producer.begin(Message({TOPIC!r}, b"dropped"))
"""
    with TransactionProducer("g", lambda _: Resolution.COMMIT, namesrv=namesrv):
        closed = TransactionProducer("g", slow, namesrv=namesrv)
        closed.begin(Message(TOPIC, b"closed"))
        assert asked.wait(10), "who sent it is asked first"
        closed.close()
        may_go_on.set()
        with pytest.raises(ClientClosed):
            closed.begin(Message(TOPIC, b"late"))
        subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)
        assert receive(consumer, 2) == [b"closed", b"dropped"]


def test_a_compressed_body_goes_through_every_record(namesrv: str, consumer: PullConsumer) -> None:
    """Half, asked about, parked, shown to `check` and to an operator, committed."""
    body = b"a body that can be compressed " * 1000
    seen: list[bytes] = []

    def check(message: StoredMessage) -> Resolution:
        seen.append(message.body)
        return Resolution.UNKNOWN

    with TransactionProducer("g", check, namesrv=namesrv) as producer:
        begun = producer.begin(Message(TOPIC, body))
        with Admin(namesrv) as admin:
            wait_parked(admin, 1)
            facts, message = admin.transaction(begun.transaction_id)
            assert message.body == body
            assert facts["body_bytes"] < len(body)
            admin.commit_transaction(begun.transaction_id)
        assert set(seen) == {body}
        assert receive(consumer, 1) == [body]


def test_where_nobody_of_the_group_is_there_it_is_parked(namesrv: str, consumer: PullConsumer) -> None:
    with TransactionProducer("g", unasked, namesrv=namesrv) as producer:
        begun = producer.begin(Message(TOPIC, b"alone"))
    with Admin(namesrv) as admin:
        wait_parked(admin, 1)
        ((_, checks),) = [(row["state"], row["checks"]) for row in admin.transactions()]
        assert checks == SETTINGS["transaction_checks_max"]
    with TransactionProducer("g", lambda _: Resolution.COMMIT, namesrv=namesrv) as late:
        with pytest.raises(TransactionDecided, match="parked"):
            late.commit(begun)
        assert receive(consumer, 0) == []


def wait_parked(admin: Admin, count: int) -> None:
    deadline = time.monotonic() + 20
    while [row["state"] for row in admin.transactions()] != ["parked"] * count:
        assert time.monotonic() < deadline
        time.sleep(0.1)
