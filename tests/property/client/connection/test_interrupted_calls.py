"""A signal's handler raises (Ctrl-C, a soft time limit) at each place of a call where one can: everything works afterwards.

Nothing waits for ever, no lock stays taken, no place in a window is lost; what was posted before is stored, and stored
once by an idempotent producer; what an interrupted poll would have returned, the next one returns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import cast

import pytest
from interrupt_kit import BROKER, NAMESRV, TOPIC, Interrupted, Interrupter, Stage, on

from zenitmq import FIRST, Message, MessageQueue, Producer, PullConsumer
from zenitmq.client.connection import program_end
from zenitmq.client.consuming.pull_calls import LOST_MS
from zenitmq.model.errors import ZenitError
from zenitmq.record.kernel import StoredMessage, encode_record

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

BATCH_BYTES = 4096
BIG = b"x" * 1500

Sends = Callable[[Producer], object]


def fill_window(producer: Producer) -> None:
    """Four batches wait for their answers, and the fifth is full."""
    for _ in range(4 * 2 + 2):
        producer.post(TOPIC, BIG)


SENDS: dict[str, tuple[Sends, Sends]] = {
    "post, the first of its topic": (lambda _: None, lambda p: p.post(TOPIC, b"op")),
    "post into a batch": (lambda p: p.post(TOPIC, b"before"), lambda p: p.post(TOPIC, b"op")),
    "post that ships a batch": (
        lambda p: [p.post(TOPIC, BIG) for _ in range(2)],
        lambda p: p.post(TOPIC, b"op" + BIG),
    ),
    "post that waits for room": (fill_window, lambda p: p.post(TOPIC, b"op" + BIG)),
    "post with a sharding key": (
        lambda p: p.post(TOPIC, b"before", sharding_key="k"),
        lambda p: p.post(TOPIC, b"op", sharding_key="k"),
    ),
    "send_async": (lambda _: None, lambda p: p.send_async(Message(TOPIC, b"op"))),
    "send_async that ships a batch": (
        lambda p: [p.send_async(Message(TOPIC, BIG)) for _ in range(2)],
        lambda p: p.send_async(Message(TOPIC, b"op" + BIG)),
    ),
    "send": (lambda _: None, lambda p: p.send(Message(TOPIC, b"op"))),
    "send, again": (lambda p: p.send(Message(TOPIC, b"before")), lambda p: p.send(Message(TOPIC, b"op"))),
    "send_batch": (
        lambda p: p.post(TOPIC, b"before"),
        lambda p: p.send_batch([Message(TOPIC, b"op"), Message(TOPIC, b"op2")]),
    ),
    "send_bodies": (lambda _: None, lambda p: p.send_bodies(TOPIC, [b"op", b"op2"])),
    "flush of an open batch": (lambda p: p.post(TOPIC, b"before"), lambda p: p.flush(30)),
    "flush with a full window": (fill_window, lambda p: p.flush(30)),
    "close": (lambda p: [p.post(TOPIC, b"before"), p.send_async(Message(TOPIC, b"before too"))], lambda p: p.close(30)),
}


def posted_before(before: Sends, producer: Producer) -> list[bytes]:
    """The bodies that `before` handed over, in order."""
    bodies: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        post, send_async, send = producer.post, producer.send_async, producer.send
        patch.setattr(producer, "post", lambda topic, body, **k: (post(topic, body, **k), bodies.append(body)))
        patch.setattr(producer, "send_async", lambda m: (send_async(m), bodies.append(bytes(m.body)))[0])
        patch.setattr(producer, "send", lambda m: (send(m), bodies.append(bytes(m.body)))[0])
        before(producer)
    return bodies


def check_sends(name: str, at: int, *, idempotent: bool, delay_ms: int) -> bool:
    """One run, interrupted at the `at`-th place; False where there are not so many."""
    before, call = SENDS[name]
    stage = Stage(delay_ms, queues=6)
    with on(stage):
        told: list[bytes] = []
        producer = Producer(
            namesrv=NAMESRV,
            batch_bytes=BATCH_BYTES,
            idempotent=idempotent,
            on_error=lambda failed: told.extend(each.body for each in failed),
        )
        handed = posted_before(before, producer)
        interrupter = Interrupter(at)
        try:
            with interrupter.at_work():
                call(producer)
        except Interrupted:
            pass
        else:
            producer.close(60)
            return False
        hint = f"{name}: interrupted at place {at}, {interrupter.where}"
        assert not stage.held_locks(), hint
        stage.pump(5_000)
        if name != "close":
            future = producer.send_async(Message(TOPIC, b"future after"))
            producer.post(TOPIC, b"after")
            producer.post(TOPIC, b"after, by key", sharding_key="k")
            producer.send(Message(TOPIC, b"sent after"))
            handed += [b"future after", b"after", b"after, by key", b"sent after"]
            try:
                producer.flush(60)
            except ZenitError as error:
                raise AssertionError(f"{hint}: {error}") from error
            assert future.done(), hint
            future.result()
        producer.close(60)
        check_all_ended(producer, stage, hint)
        stage.pump(1)
        if name == "close":  # which waits no more: what is not stored was told
            handed = [body for body in handed if body not in told and body != b"before too"]
        counts = {body: stage.stored.count(body) for body in stage.stored}
        for body in set(handed):
            assert counts.get(body, 0) >= handed.count(body), f"{hint}: {body[:20]!r} is lost"
            if idempotent:
                assert counts[body] == handed.count(body) or body.startswith(b"op"), f"{hint}: {body[:20]!r} twice"
        if idempotent:
            assert counts.get(b"op", 0) <= 1, hint
    return True


def check_all_ended(producer: Producer, stage: Stage, hint: str) -> None:
    background = producer._background
    sender = background._sender
    assert not stage.held_locks(), hint
    assert not sender._unanswered, hint
    assert not any(sender._in_flight.values()), f"{hint}: places in the window are lost: {sender._in_flight}"
    assert not any(lane.in_flight for lane in background._all_lanes()), hint
    streams = getattr(sender, "_streams", None)
    assert streams is None or not streams._taken, f"{hint}: queues stay taken"
    assert stage.closed, f"{hint}: the connection is still open"
    assert not program_end._open, hint


@pytest.mark.parametrize("delay_ms", [1, 0], ids=["answers later", "answers at once"])
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("name", SENDS)
def test_a_producer_goes_on(name: str, *, idempotent: bool, delay_ms: int) -> None:
    at = 1
    while check_sends(name, at, idempotent=idempotent, delay_ms=delay_ms):
        at += 1
    assert at > 3


MESSAGES = 8
QUEUE = MessageQueue(TOPIC, BROKER, 0)


def polled(consumer: PullConsumer, stage: Stage) -> list[bytes]:
    """All that comes until nothing comes for long."""
    bodies: list[bytes] = []
    for _ in range(100):
        batch = consumer.poll(2, timeout=3)
        bodies += [message.body for message in batch]
        if not len(batch) and len(stage.records[0]) and consumer.assignment():
            break
    return bodies


def poll_some(consumer: PullConsumer) -> list[bytes]:
    return [message.body for message in consumer.poll(2, timeout=3)]


POLLS: dict[str, tuple[int, Callable[[PullConsumer], object]]] = {
    "the first poll": (0, poll_some),
    "a poll": (1, poll_some),
    "a poll that fetches": (2, poll_some),
    "commit": (1, lambda consumer: consumer.commit()),
    "seek to where it is": (1, lambda consumer: consumer.seek(QUEUE, 2)),
    "pause and resume": (1, lambda consumer: [consumer.pause([QUEUE]), consumer.resume([QUEUE])]),
    "close": (1, lambda consumer: consumer.close()),
}

LATE = frozenset({"seek to where it is", "pause and resume"})
"""Pulls that these did not send are sent again once they count as lost; a poll sends its own at once."""


def check_polls(name: str, at: int) -> bool:
    """One run, interrupted at the `at`-th place; False where there are not so many."""
    polls_before, call = POLLS[name]
    stage = Stage()
    expected = [b"%d" % number for number in range(MESSAGES)]
    with on(stage):
        for number in range(MESSAGES):
            record = encode_record(topic=TOPIC.encode(), body=b"%d" % number, queue_offset=number)
            stage.records[0].append(record)
        consumer = PullConsumer("g", namesrv=NAMESRV, start_from=FIRST, auto_commit_interval=1000.0)
        consumer.subscribe(TOPIC)
        bodies: list[bytes] = []
        for _ in range(polls_before):
            bodies += poll_some(consumer)
        interrupter = Interrupter(at)
        try:
            with interrupter.at_work():
                call(consumer)
        except Interrupted:
            pass
        else:
            consumer.close()
            return False
        hint = f"{name}: interrupted at place {at}, {interrupter.where}"
        assert not stage.held_locks(), hint
        stage.pump(LOST_MS + 5_000 if name in LATE else 5_000)
        assert stage.committed.get(0, 0) <= len(bodies), f"{hint}: committed what nobody got"
        if name != "close":
            consumer.resume([QUEUE])
            bodies += polled(consumer, stage)
            assert bodies == expected, hint
            consumer.commit()
            assert stage.committed == {0: MESSAGES}, hint
        consumer.close()
        assert stage.closed, f"{hint}: the connection is still open"
        assert not stage.members, f"{hint}: still a member"
        assert not program_end._open, hint
        assert not stage.held_locks(), hint
    return True


@pytest.mark.parametrize("name", POLLS)
def test_a_consumer_goes_on(name: str) -> None:
    at = 1
    while check_polls(name, at):
        at += 1
    assert at > 3


Messages = Generator[StoredMessage, None, None]

ITERATIONS: dict[str, Callable[[PullConsumer, Messages, list[bytes]], object]] = {
    "the next message": lambda _, messages, got: got.append(next(messages).body),
    "messages of several answers": lambda _, messages, got: got.extend(next(messages).body for _ in range(5)),
    "the end of a loop": lambda _, messages, __: messages.close(),
    "a poll within a loop": lambda consumer, _, __: consumer.poll(1, timeout=0.5),
    "commit within a loop": lambda consumer, _, __: consumer.commit(),
}


def check_iteration(name: str, at: int) -> bool:
    """One run, interrupted at the `at`-th place; False where there are not so many."""
    stage = Stage()
    with on(stage):
        for number in range(MESSAGES):
            record = encode_record(topic=TOPIC.encode(), body=b"%d" % number, queue_offset=number)
            stage.records[0].append(record)
        consumer = PullConsumer("g", namesrv=NAMESRV, start_from=FIRST, auto_commit_interval=1000.0)
        consumer.subscribe(TOPIC)
        messages = cast("Messages", iter(consumer))
        got = [next(messages).body]
        interrupter = Interrupter(at)
        try:
            with interrupter.at_work():
                ITERATIONS[name](consumer, messages, got)
        except Interrupted:
            pass
        else:
            consumer.close()
            return False
        hint = f"{name}: interrupted at place {at}, {interrupter.where}"
        assert not stage.held_locks(), hint
        stage.pump(5_000)
        rest = polled(consumer, stage)
        expected = [b"%d" % number for number in range(MESSAGES)]
        assert rest == expected[MESSAGES - len(rest) :], hint
        assert set(got) | set(rest) == set(expected), f"{hint}: of {len(got)} and {rest} some are missing"
        consumer.commit()
        assert stage.committed == {0: MESSAGES}, hint
        consumer.close()
    return True


@pytest.mark.parametrize("name", ITERATIONS)
def test_an_iteration_loses_no_message(name: str) -> None:
    at = 1
    while check_iteration(name, at):
        at += 1
    assert at > 1
