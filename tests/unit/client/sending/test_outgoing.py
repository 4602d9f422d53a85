"""Messages on their way into a record: what is refused, what is compressed, what a batch appends."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from zenitmq.client.sending.delayed_send import DelayedAnswer, DelayedParts, answer_of, is_delayed, send_request
from zenitmq.client.sending.outgoing import (
    COMPRESS_OVER_BYTES,
    LZ4_FLAGS,
    check_send_topic,
    compress_body,
    fill_bodies,
    message_parts,
    outgoing_batch,
)
from zenitmq.client.sending.target import Priority, target_of
from zenitmq.model.errors import InvalidParameter, MessageIllegal, MessageTooLarge, RemoteProtocolError
from zenitmq.model.handles.recall_handle import RecallHandle
from zenitmq.model.message import BODY_BYTES_MAX, Message
from zenitmq.model.properties import PRIORITY, RESERVED, SHARDING_KEY, decode_properties
from zenitmq.model.queue import MessageQueue
from zenitmq.record.compression import decompress
from zenitmq.remoting.commands import DelayedReply, Done, SendDelayed, SendMessages, SendReply
from zenitmq.remoting.delayed_places import NOWHERE, Place, encode_places


class FakeAccumulator:
    """Keeps what is appended; takes `room` messages."""

    def __init__(self, room: int = 1000) -> None:
        self.room = room
        self.taken: list[tuple[Any, ...]] = []

    def append(self, *parts: Any) -> bool:
        if len(self.taken) >= self.room:
            return False
        self.taken.append(parts)
        return True

    def append_many(self, bodies: list[bytes], begin: int, tags: Any, keys: Any) -> int:
        self.taken.extend((body, tags, keys) for body in bodies[begin : begin + self.room])
        return min(self.room, len(bodies) - begin)


@pytest.mark.parametrize("over_bytes", [0, COMPRESS_OVER_BYTES, BODY_BYTES_MAX, BODY_BYTES_MAX * 2])
def test_the_limit_is_on_the_body_before_compression(over_bytes: int) -> None:
    at_limit = b"z" * BODY_BYTES_MAX
    packed, flags = compress_body(at_limit, over_bytes)
    assert flags == (LZ4_FLAGS if over_bytes < BODY_BYTES_MAX else 0)
    assert (decompress(packed, flags) if flags else packed) == at_limit
    if over_bytes <= BODY_BYTES_MAX:  # else it is the accumulator that counts, and refuses
        with pytest.raises(MessageTooLarge, match=f"message body of {BODY_BYTES_MAX + 1} bytes .* {BODY_BYTES_MAX}"):
            compress_body(at_limit + b"z", over_bytes)


def test_a_body_is_compressed_only_where_that_pays() -> None:
    noise = random.Random(1).randbytes(COMPRESS_OVER_BYTES + 1)
    text = b"a" * COMPRESS_OVER_BYTES
    assert compress_body(noise, COMPRESS_OVER_BYTES) == (noise, 0)
    assert compress_body(text, COMPRESS_OVER_BYTES) == (text, 0)
    packed, flags = compress_body(text + b"a", COMPRESS_OVER_BYTES)
    assert len(packed) < 100
    assert flags == LZ4_FLAGS


def test_a_message_becomes_what_the_accumulator_takes() -> None:
    plain = message_parts(Message("t", b"x", "tag", ["k1", "k2"], flag=7), COMPRESS_OVER_BYTES)
    assert plain == (b"x", "tag", ["k1", "k2"], b"", 7, 0)
    assert message_parts(Message("t", b"x", "", ()), COMPRESS_OVER_BYTES)[1:3] == (None, None)
    sharded = message_parts(Message("t", b"x", properties={"region": "eu"}), COMPRESS_OVER_BYTES, "user-7")
    assert decode_properties(sharded[3]) == {"region": "eu", SHARDING_KEY: "user-7"}


def test_a_priority_is_a_property_and_the_target() -> None:
    message = Message("t", b"x", properties={"region": "eu"}, priority=0)
    parts = message_parts(message, COMPRESS_OVER_BYTES)
    assert decode_properties(parts[3]) == {"region": "eu", PRIORITY: "0"}
    assert target_of(message, None) == Priority(0)
    assert target_of(Message("t", b"x"), "user-7") == "user-7"
    assert target_of(Message("t", b"x"), None) is None


@pytest.mark.parametrize("priority", [-1, 10, "5", 1.0, True])
def test_priorities_are_whole_numbers_up_to_nine(priority: Any) -> None:
    with pytest.raises(InvalidParameter, match="priority"):
        message_parts(Message("t", b"x", priority=priority), COMPRESS_OVER_BYTES)


def test_a_priority_and_a_sharding_key_exclude_each_other() -> None:
    with pytest.raises(InvalidParameter, match="sharding_key"):
        message_parts(Message("t", b"x", priority=3), COMPRESS_OVER_BYTES, "user-7")


def test_a_batch_is_of_one_priority() -> None:
    messages = [Message("t", b"0", priority=3), Message("t", b"1", priority=3)]
    assert outgoing_batch(messages, COMPRESS_OVER_BYTES).fill(FakeAccumulator())  # type: ignore[arg-type]
    with pytest.raises(MessageIllegal, match="found 3 and None"):
        outgoing_batch([*messages, Message("t", b"")], COMPRESS_OVER_BYTES)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("delay", timedelta(seconds=1.5), {"TIMER_DELAY_MS": "1500"}),
        ("delay", timedelta(0), {"TIMER_DELAY_MS": "0"}),
        ("deliver_at", datetime(2026, 1, 1, tzinfo=UTC), {"TIMER_DELIVER_MS": "1767225600000"}),
        (
            "deliver_at",
            datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1))),
            {"TIMER_DELIVER_MS": "1767222000000"},
        ),
        ("deliver_at", datetime(1969, 1, 1, tzinfo=UTC), {"TIMER_DELIVER_MS": "0"}),
        ("delay_level", 3, {"DELAY": "3"}),
    ],
)
def test_a_message_tells_the_broker_when(field: str, value: object, said: dict[str, str]) -> None:
    message = Message("t", b"x", properties={"region": "eu"}, **{field: value})
    parts = message_parts(message, COMPRESS_OVER_BYTES)
    assert isinstance(parts, DelayedParts)
    assert is_delayed(message)
    assert decode_properties(parts[3]) == {"region": "eu", **said}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"delay": timedelta(seconds=-1)}, "delay"),
        ({"deliver_at": datetime(2026, 1, 1)}, "deliver_at"),  # noqa: DTZ001
        ({"delay_level": -1}, "delay_level"),
        ({"delay": timedelta(0), "delay_level": 1}, "delay_level"),
        ({"delay": timedelta(0), "deliver_at": datetime(2026, 1, 1, tzinfo=UTC)}, "deliver_at"),
    ],
)
def test_times_that_say_nothing_or_too_much_are_refused(fields: dict[str, object], name: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        message_parts(Message("t", b"x", **fields), COMPRESS_OVER_BYTES)
    assert refused.value.name == name


def test_a_broker_s_answer_becomes_receipts() -> None:
    queue = MessageQueue("t", "broker-a", 2)
    assert isinstance(send_request(queue, 2, "g", delayed=True), SendDelayed)
    assert isinstance(send_request(queue, 2, "g", delayed=False), SendMessages)
    plain = SendReply(2, 5, 100, 7, bytes(8))
    assert answer_of(plain, b"", 1) is plain
    places = [Place(1_000, NOWHERE, 500), Place(NOWHERE, 9, 700)]
    answer = answer_of(DelayedReply(2, bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])), encode_places(places), 2)
    assert isinstance(answer, DelayedAnswer)
    waiting, stored = answer.receipt("A" * 32, queue, 0), answer.receipt("B" * 32, queue, 1)
    assert RecallHandle.parse(waiting.recall_handle or "") == RecallHandle("t", "broker-a", 1_000, "A" * 32)
    assert (waiting.queue_offset, waiting.physical_offset) == (-1, 500)
    assert waiting.offset_message_id == "7F00000100002A9F00000000000001F4"
    assert (stored.queue_offset, stored.physical_offset, stored.recall_handle) == (9, 700, None)
    for reply, payload in ((None, b""), (Done(), b""), (DelayedReply(2, bytes(8)), bytes(23))):
        with pytest.raises(RemoteProtocolError):
            answer_of(reply, payload, 1)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_properties_are_refused(name: str) -> None:
    with pytest.raises(MessageIllegal, match=name):
        message_parts(Message("t", b"x", properties={name: "v"}), COMPRESS_OVER_BYTES)


def test_topics_of_the_system_are_not_sent_to() -> None:
    assert check_send_topic("trades") == "trades"
    with pytest.raises(InvalidParameter):
        check_send_topic("RMQ_SYS_TRACE_TOPIC")


def test_a_batch_of_messages_is_of_one_topic_and_stops_where_it_is_full() -> None:
    messages = [Message("t", b"%d" % index) for index in range(3)]
    assert outgoing_batch(messages, COMPRESS_OVER_BYTES).fill(accumulator := FakeAccumulator())  # type: ignore[arg-type]
    assert [parts[0] for parts in accumulator.taken] == [b"0", b"1", b"2"]
    assert not outgoing_batch([*messages, Message("t", b"", flag=1)], COMPRESS_OVER_BYTES).fill(FakeAccumulator(room=2))  # type: ignore[arg-type]
    assert not outgoing_batch(messages, COMPRESS_OVER_BYTES).fill(FakeAccumulator(room=2))  # type: ignore[arg-type]
    with pytest.raises(MessageIllegal, match="'t' and 'u'"):
        outgoing_batch([*messages, Message("u", b"")], COMPRESS_OVER_BYTES)


@pytest.mark.parametrize("tags", [None, "all", ["a", "b"]])
@pytest.mark.parametrize("keys", [None, ["k", ["l", "m"]]])
@pytest.mark.parametrize("large", [False, True])
def test_columns_go_with_their_bodies(tags: Any, keys: Any, large: bool) -> None:
    bodies = [b"x", b"y" * (COMPRESS_OVER_BYTES + 1) if large else b"y"]
    accumulator = FakeAccumulator()
    assert fill_bodies(tuple(bodies), COMPRESS_OVER_BYTES, tags, keys)(accumulator)  # type: ignore[arg-type]
    if not large:
        assert accumulator.taken == [(body, tags, keys) for body in bodies]
        return
    assert [parts[1] for parts in accumulator.taken] == (tags if isinstance(tags, list) else [tags, tags])
    assert [parts[2] for parts in accumulator.taken] == (keys or [None, None])
    assert [parts[5] for parts in accumulator.taken] == [0, LZ4_FLAGS]
    assert not fill_bodies(bodies, COMPRESS_OVER_BYTES, tags, keys)(FakeAccumulator(room=1))  # type: ignore[arg-type]


@pytest.mark.parametrize("column", [{"tags": ["a"]}, {"keys": ["a", "b", "c"]}])
def test_a_column_of_another_length_is_refused(column: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(column))):
        fill_bodies([b"x", b"y"], COMPRESS_OVER_BYTES, **column)
    with pytest.raises(InvalidParameter, match="bodies"):
        fill_bodies([], COMPRESS_OVER_BYTES)


@pytest.mark.parametrize("more", [{}, {"properties": {"region": "eu"}}])
@pytest.mark.parametrize("sharding_key", [None, "user-7"])
def test_a_batch_knows_its_target_and_whether_it_waits(more: dict[str, Any], sharding_key: str | None) -> None:
    messages = [Message("t", b"0"), Message("t", b"1", **more)]
    batch = outgoing_batch(messages, COMPRESS_OVER_BYTES, sharding_key)
    assert (batch.target, batch.is_delayed) == (sharding_key, False)
    delayed = outgoing_batch([*messages, Message("t", b"2", delay_level=1)], COMPRESS_OVER_BYTES, sharding_key)
    assert (delayed.target, delayed.is_delayed) == (sharding_key, True)


@pytest.mark.parametrize("count", [1, 2])
def test_a_batch_is_of_messages(count: int) -> None:
    batch: list[Any] = [Message("t", b"0"), b"1"][-count:]
    with pytest.raises(MessageIllegal, match="expected a Message, found bytes"):
        outgoing_batch(batch, COMPRESS_OVER_BYTES)
