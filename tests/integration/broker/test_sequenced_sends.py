"""Sends with a producer's sequence at a real broker: stored once, known over restarts, told by the log alone."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from zenitmq.model.errors import (
    InvalidParameter,
    MessageIllegal,
    OutOfOrderSequence,
    SequenceKnownInPart,
    StoreNotWriteable,
    TopicNotFound,
)
from zenitmq.model.properties import encode_properties
from zenitmq.model.sequence import sequence_room
from zenitmq.record.kernel import encode_record
from zenitmq.record.sys_flag import SEQUENCED
from zenitmq.remoting import commands
from zenitmq.remoting.delayed_places import NOWHERE, Place, decode_places
from zenitmq.store.log import allocator

ID = "producer-1"
ROOM = sequence_room(len(ID))


def records(topic: str, *bodies: bytes, properties: bytes = ROOM) -> bytes:
    return b"".join(encode_record(topic=topic.encode(), body=body, properties=properties) for body in bodies)


def request(topic: str, first: int, count: int, **fields: Any) -> commands.SendSequenced:
    values = {"queue_id": 0, "producer_group": "g", "producer_id": ID, **fields}
    return commands.SendSequenced(topic=topic, count=count, first_sequence=first, **values)


def send(broker: Any, topic: str, first: int, *bodies: bytes, **fields: Any) -> commands.SequencedReply:
    room = sequence_room(len(fields.get("producer_id", ID)))
    data = records(topic, *bodies, properties=room)
    reply: commands.SequencedReply = broker.call(request(topic, first, len(bodies), **fields), data)[0]
    return reply


def bodies_of(broker: Any, topic: str, queue_id: int = 0) -> list[bytes]:
    return [message.body for message in broker.pull(topic, queue_id=queue_id)[1]]


def producers(broker: Any) -> dict[str, int]:
    document: dict[str, int] = broker.ask(commands.GetBrokerStatistics())["producers"]
    return document


def is_again(reply: commands.SequencedReply, first: commands.SequencedReply) -> bool:
    """Whether it is the answer to the same batch, sent again (perhaps to a broker that has moved)."""
    now = {
        "store_timestamp_ms": reply.store_timestamp_ms,
        "store_host": reply.store_host,
        "last_sequence": reply.last_sequence,
    }
    return reply.is_duplicate and replace(first, is_duplicate=True, **now) == reply


def test_a_batch_that_comes_again_is_answered_as_it_was_stored(broker) -> None:
    broker.create("t")
    broker.send("t", encode_record(topic=b"t", body=b"other"))
    first = send(broker, "t", 0, b"a", b"b")
    second = send(broker, "t", 2, b"c")
    written = broker.written()
    assert is_again(send(broker, "t", 0, b"a", b"b"), first)
    assert is_again(send(broker, "t", 2, b"c"), second)
    assert send(broker, "t", 1, b"b").queue_offset == 2
    assert broker.written() == written
    assert bodies_of(broker, "t") == [b"other", b"a", b"b", b"c"]
    assert producers(broker) == {"sequences": 1, "duplicate_batches": 3}
    messages = broker.pull("t")[1]
    assert [message.properties.get("PSEQ") for message in messages] == [
        None, *(f"{ID}:{sequence:016X}" for sequence in range(3))
    ]  # fmt: skip


def test_a_copy_in_the_same_turn_is_known_too(broker) -> None:
    """Sent side by side on one connection: the loop drains both before it writes."""
    broker.create("t")
    answers: list[Any] = []
    data = records("t", b"a", b"b")
    for _ in range(8):
        broker.client.send_nowait(
            broker.address,
            request("t", 0, 2),
            data,
            timeout_ms=5000,
            on_reply=lambda reply, _payload, error: answers.append(reply or error),
        )
    deadline = time.monotonic() + 5
    while len(answers) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert {(answer.queue_offset, answer.physical_offset) for answer in answers} == {(0, answers[0].physical_offset)}
    assert sum(answer.is_duplicate for answer in answers) == 7
    assert bodies_of(broker, "t") == [b"a", b"b"]


def test_producers_and_queues_have_sequences_of_their_own(broker) -> None:
    broker.create("t")
    send(broker, "t", 0, b"a")
    assert not send(broker, "t", 0, b"b", queue_id=1).is_duplicate
    assert not send(broker, "t", 0, b"c", producer_id="other").is_duplicate
    assert producers(broker)["sequences"] == 3


def test_a_hole_and_a_batch_known_in_part_are_refused(broker) -> None:
    broker.create("t")
    with pytest.raises(OutOfOrderSequence) as hole:
        send(broker, "t", 1, b"b")
    assert hole.value.args == (1, -1)
    send(broker, "t", 0, b"a", b"b")
    with pytest.raises(OutOfOrderSequence):
        send(broker, "t", 3, b"d")
    with pytest.raises(SequenceKnownInPart) as part:
        send(broker, "t", 1, b"b", b"c")
    assert part.value.args == (1, 1)
    with pytest.raises(SequenceKnownInPart):
        send(broker, "t", 1, b"b", b"c", has_gaps=True)
    assert not send(broker, "t", 7 << 32, b"x", has_gaps=True).is_duplicate
    skipped = send(broker, "t", 9, b"skipped", has_gaps=True)
    assert (skipped.is_duplicate, skipped.last_sequence) == (True, 7 << 32)
    assert bodies_of(broker, "t") == [b"a", b"b", b"x"]


@pytest.mark.parametrize(
    ("fields", "properties", "error"),
    [
        ({}, b"", MessageIllegal),
        ({}, sequence_room(3), MessageIllegal),
        ({"count": 3}, ROOM, MessageIllegal),
        ({"topic": "u"}, ROOM, MessageIllegal),
        ({"count": 0}, ROOM, InvalidParameter),
        ({"first_sequence": -1}, ROOM, InvalidParameter),
        ({"producer_id": "a b"}, ROOM, InvalidParameter),
        ({"queue_id": 9}, ROOM, InvalidParameter),
        ({"topic": "missing"}, ROOM, TopicNotFound),
    ],
)
def test_what_is_wrong_is_told_and_leaves_no_trace(broker, fields: dict, properties: bytes, error: type) -> None:
    broker.create("t")
    broker.create("u")
    data = records("t", b"a", b"b", properties=properties)
    asked = {"topic": "t", "queue_id": 0, "count": 2, "producer_group": "g", "producer_id": ID, "first_sequence": 0}
    written = broker.written()
    with pytest.raises(error):
        broker.call(commands.SendSequenced(**{**asked, **fields}), data)
    assert (broker.written(), producers(broker)["sequences"]) == (written, 0)
    assert not send(broker, "t", 0, b"a").is_duplicate


def test_nothing_in_the_payload_is_refused(broker) -> None:
    broker.create("t")
    with pytest.raises(MessageIllegal):
        broker.call(request("t", 0, 1), b"")


def test_a_message_that_only_looks_so_counts_nowhere(broker, serve: Callable[..., Any]) -> None:
    """Sent as any other, with the property: the log's readers do not take it for a sequence."""
    broker.create("t")
    broker.send("t", records("t", b"a", properties=encode_properties({"PSEQ": f"{ID}:{0:016X}"})))
    assert producers(broker)["sequences"] == 0
    broker.restart()
    assert producers(broker)["sequences"] == 0


def test_a_topic_is_created_by_the_first_send(serve: Callable[..., Any]) -> None:
    broker = serve(auto_create_topics=True, default_topic_queues=2)
    assert not send(broker, "made", 0, b"a").is_duplicate
    assert send(broker, "made", 0, b"a").is_duplicate
    assert bodies_of(broker, "made") == [b"a"]


def test_a_topic_made_anew_knows_nobody(broker) -> None:
    broker.create("t")
    send(broker, "t", 0, b"a")
    broker.call(commands.DeleteTopic("t"))
    broker.create("t")
    assert not send(broker, "t", 0, b"b").is_duplicate
    assert bodies_of(broker, "t") == [b"b"]


@pytest.mark.parametrize("loses_snapshot", [False, True])
def test_a_restart_knows_what_the_log_has(broker, loses_snapshot: bool) -> None:
    """From the snapshot, or from nothing but the log."""
    broker.create("t")
    replies = [send(broker, "t", index * 2, b"%d" % index, b"x") for index in range(20)]
    broker.stop()
    config = os.path.join(broker.config.store_dir, "config")
    with open(os.path.join(config, "producerSequences.json"), encoding="utf-8") as file:
        (row,) = json.load(file)["producers"]
    assert row[:4] == [ID, "t", 0, 39]
    if loses_snapshot:
        for name in os.listdir(config):
            os.unlink(os.path.join(config, name))
    broker.start()
    assert is_again(send(broker, "t", 38, b"19", b"x"), replies[-1])
    assert send(broker, "t", 0, b"0", b"x").is_duplicate
    assert not send(broker, "t", 40, b"new").is_duplicate
    assert len(bodies_of(broker, "t")) == 41


def test_an_answer_waits_for_what_was_promised_of_the_first(serve: Callable[..., Any]) -> None:
    broker = serve(store={"flush_mode": "sync"})
    broker.create("t")
    first = send(broker, "t", 0, b"a")
    assert is_again(send(broker, "t", 0, b"a"), first)


# ---- delayed messages


def send_delayed(broker: Any, first: int, *delays_ms: int) -> list[Place]:
    """One message for each delay, 0: none, to queue 0 of "t"."""
    data = b"".join(
        records(
            "t", b"%d" % delay, properties=ROOM + (encode_properties({"TIMER_DELAY_MS": str(delay)}) if delay else b"")
        )
        for delay in delays_ms
    )
    asked = commands.SendDelayedSequenced("t", 0, len(delays_ms), "g", ID, first)
    return decode_places(broker.call(asked, data)[1], len(delays_ms))


def wait_for(broker: Any, count: int) -> list[Any]:
    deadline = time.monotonic() + 10
    while len(found := broker.pull("t")[1]) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    return list(found)


@pytest.mark.parametrize("restarts", [False, True])
def test_delayed_messages_wait_once_and_come_once(broker, restarts: bool) -> None:
    broker.create("t")
    places = send_delayed(broker, 0, 0, 600, 700, 0)
    assert [place.deliver_at_ms != NOWHERE for place in places] == [False, True, True, False]
    if restarts:
        broker.restart()
    assert send_delayed(broker, 0, 0, 600, 700, 0) == places
    with pytest.raises(SequenceKnownInPart):
        send_delayed(broker, 3, 0, 0)
    with pytest.raises(OutOfOrderSequence):
        send_delayed(broker, 5, 50)
    messages = wait_for(broker, 4)
    assert [message.body for message in messages] == [b"0", b"0", b"600", b"700"]
    assert [bool(message.sys_flag & SEQUENCED) for message in messages] == [True, True, False, False]
    assert "PSEQ" not in messages[2].properties
    assert not send(broker, "t", 4, b"now").is_duplicate, "one sequence for both kinds of sends"
    assert send_delayed(broker, 4, 0)[0].queue_offset == 4
    assert producers(broker)["sequences"] == 1
    broker.restart()
    assert [message.body for message in wait_for(broker, 5)] == [b"0", b"0", b"600", b"700", b"now"]


@pytest.mark.parametrize("is_delayed", [True, False])
def test_a_batch_that_a_full_disk_took_in_part_is_said_to_be_known_in_part(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, is_delayed: bool
) -> None:
    """Who is told that nothing was taken sends it to another queue, and what was taken comes twice."""
    sizes = {"segment_bytes": 1 << 20 if is_delayed else 1 << 17, "frame_bytes_max": 1 << 20}
    broker = serve(store={**sizes, "preallocate_segments": 0, "recycle_segments": 0})
    broker.create("t")
    bodies = [b"%02d" % number * 30_000 for number in range(10)]
    for _ in range(12 if is_delayed else 0):
        broker.send("t", encode_record(topic=b"t", body=bytes(60_000)), queue_id=1)
    with monkeypatch.context() as patched:
        patched.setattr(allocator, "create_allocated", refuse_room)
        with pytest.raises(SequenceKnownInPart) as known:
            send_for_later(broker, bodies) if is_delayed else send(broker, "t", 0, *bodies)
        count = known.value.last_sequence + 1
        assert 0 < count < len(bodies)
        with pytest.raises(StoreNotWriteable):
            send_for_later(broker, bodies[count:], count) if is_delayed else send(broker, "t", count, *bodies[count:])
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            send_for_later(broker, bodies[count:], count) if is_delayed else send(broker, "t", count, *bodies[count:])
            break
        except StoreNotWriteable:
            time.sleep(0.02)
    if is_delayed:
        assert broker.ask(commands.GetBrokerStatistics())["delays"]["waiting"] == len(bodies)
    else:
        assert bodies_of(broker, "t") == bodies


def refuse_room(*_arguments: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def send_for_later(broker: Any, bodies: list[bytes], first: int = 0) -> None:
    """In an hour."""
    due = encode_properties({"TIMER_DELIVER_MS": str(int(time.time() * 1000) + 3_600_000)})
    data = records("t", *bodies, properties=ROOM + due)
    broker.call(commands.SendDelayedSequenced("t", 0, len(bodies), "g", ID, first), data)


def test_where_a_delayed_message_was_is_not_known_for_ever(broker) -> None:
    broker.create("t")
    send_delayed(broker, 0, 60_000)
    for index in range(1, 7):
        send(broker, "t", index, b"x")
    assert send_delayed(broker, 0, 60_000) == [Place(NOWHERE, -1, -1)]


def test_delayed_batches_without_room_are_refused(broker) -> None:
    broker.create("t")
    asked = commands.SendDelayedSequenced("t", 0, 1, "g", ID, 0)
    with pytest.raises(MessageIllegal):
        broker.call(asked, records("t", b"a", properties=encode_properties({"TIMER_DELAY_MS": "5"})))


def test_a_message_sent_back_is_not_its_producers_any_more(broker) -> None:
    broker.create("t")
    reply = send(broker, "t", 0, b"a")
    broker.call(commands.SendBack("g", "t", reply.physical_offset, delay_level=-1))
    letters = broker.pull("%DLQ%g")[1]
    assert [(letter.sys_flag & SEQUENCED, "PSEQ" in letter.properties) for letter in letters] == [(0, False)]
    assert producers(broker)["sequences"] == 1
