"""Delayed messages at a real broker: taken, delivered once at their time, kept over restarts, taken back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.model.errors import InvalidParameter, MessageIllegal, MessageNotFound, NoPermission, TopicNotFound
from zenitmq.model.handles.recall_handle import RecallHandle
from zenitmq.model.names import TIMER_TOPIC
from zenitmq.model.properties import encode_properties
from zenitmq.record.kernel import decode_record, encode_record
from zenitmq.remoting import commands
from zenitmq.remoting.delayed_places import NOWHERE, Place, decode_places

YEAR_MS = 365 * 24 * 3_600_000


def now_ms() -> int:
    return round(time.time() * 1000)


def delayed(topic: str, body: bytes, **properties: str) -> bytes:
    return encode_record(topic=topic.encode(), body=body, properties=encode_properties(properties))


def send(broker: Any, topic: str, *records: bytes, queue_id: int = 0) -> list[Place]:
    request = commands.SendDelayed(topic, queue_id, len(records))
    _, payload = broker.call(request, b"".join(records))
    return decode_places(payload, len(records))


def wait_messages(broker: Any, topic: str, count: int, *, queue_id: int = 0, within_s: float = 10) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + within_s
    while len(found) < count and time.monotonic() < deadline:
        found += broker.pull(topic, len(found), queue_id=queue_id, suspend_ms=200)[1]
    return found


def delays(broker: Any) -> dict[str, Any]:
    document: dict[str, Any] = broker.ask(commands.GetBrokerStatistics())["delays"]
    return document


def test_messages_wait_and_arrive_in_the_order_of_their_times(broker) -> None:
    broker.create("t")
    began = now_ms()
    places = send(
        broker,
        "t",
        delayed("t", b"late", TIMER_DELAY_MS="900", KEYS="k", color="red"),
        delayed("t", b"soon", TIMER_DELIVER_MS=str(began + 500)),
        delayed("t", b"now"),
        delayed("t", b"past", TIMER_DELIVER_MS=str(began - YEAR_MS)),
    )
    assert [place.deliver_at_ms == NOWHERE for place in places] == [False, False, True, True]
    assert [place.queue_offset for place in places] == [NOWHERE, NOWHERE, 0, 1]
    assert delays(broker)["waiting"] == 2
    assert delays(broker)["first_due_ms"] == began + 500
    messages = wait_messages(broker, "t", 4)
    assert [message.body for message in messages] == [b"now", b"past", b"soon", b"late"]
    soon, late = messages[2:]
    assert 0 <= soon.stored_at_ms - (began + 500) < 300
    assert 0 <= late.stored_at_ms - places[0].deliver_at_ms < 300
    assert late.properties == {"KEYS": "k", "color": "red", "TIMER_OUT_MS": str(places[0].deliver_at_ms)}
    assert [message.prepared_transaction_offset for message in messages] == [
        0, 0, -1 - places[1].physical_offset, -1 - places[0].physical_offset
    ]  # fmt: skip
    assert delays(broker) == {
        "waiting": 0,
        "first_due_ms": None,
        "delivered": 2,
        "discarded": 0,
        "damaged": 0,
        "lost": 0,
    }


def test_what_waits_has_rocketmq_s_properties(broker) -> None:
    broker.create("t")
    at_ms = now_ms() + 60_000
    (place,) = send(broker, "t", delayed("t", b"x", TIMER_DELIVER_MS=str(at_ms), UNIQ_KEY="A" * 32), queue_id=1)
    message = decode_record(broker.call(commands.ViewMessage(place.physical_offset))[1])
    assert message.topic == TIMER_TOPIC
    assert message.queue_id == 0
    assert message.properties == {
        "UNIQ_KEY": "A" * 32,
        "REAL_TOPIC": "t",
        "REAL_QID": "1",
        "TIMER_DELIVER_MS": str(at_ms),
        "TIMER_OUT_MS": str(at_ms),
    }


@pytest.mark.parametrize(("level", "delay_ms"), [(1, 300), (2, 700)])
def test_levels_are_what_the_broker_says(serve: Callable[..., Any], level: int, delay_ms: int) -> None:
    broker = serve(store={"delay_levels": "300s 700s"})
    broker.create("t")
    before = now_ms()
    (place,) = send(broker, "t", delayed("t", b"x", DELAY=str(level)))
    turn_ms = 20  # the broker's time is that of the beginning of its turn
    assert before - turn_ms + delay_ms * 1000 <= place.deliver_at_ms <= now_ms() + delay_ms * 1000


def test_a_restart_delivers_what_came_due_meanwhile_and_nothing_twice(broker) -> None:
    broker.create("t")
    send(broker, "t", *(delayed("t", b"%d" % n, TIMER_DELAY_MS=str(300 + 300 * n)) for n in range(6)))
    assert len(wait_messages(broker, "t", 2)) >= 2
    broker.stop()
    time.sleep(1)
    broker.start()
    messages = wait_messages(broker, "t", 6)
    time.sleep(0.5)
    assert [message.body for message in messages] == [b"%d" % n for n in range(6)]
    assert broker.call(commands.GetMaxOffset("t", 0))[0].offset == 6


def test_recall_takes_a_message_back_once(broker) -> None:
    broker.create("t")
    unique = "AB" * 16
    (place,) = send(broker, "t", delayed("t", b"never", TIMER_DELAY_MS="1500", UNIQ_KEY=unique))
    handle = RecallHandle("t", "broker-a", place.deliver_at_ms, unique).encode()
    assert broker.call(commands.RecallMessage("t", handle))[0].message_id == unique
    assert delays(broker)["waiting"] == 0
    with pytest.raises(MessageNotFound):
        broker.call(commands.RecallMessage("t", handle))
    broker.restart()
    time.sleep(2)
    assert broker.call(commands.GetMaxOffset("t", 0))[0].offset == 0


def test_what_is_delivered_cannot_be_recalled(broker) -> None:
    broker.create("t")
    unique = "CD" * 16
    (place,) = send(broker, "t", delayed("t", b"x", TIMER_DELAY_MS="100", UNIQ_KEY=unique))
    wait_messages(broker, "t", 1)
    handle = RecallHandle("t", "broker-a", place.deliver_at_ms, unique).encode()
    with pytest.raises(MessageNotFound):
        broker.call(commands.RecallMessage("t", handle))


def test_handles_that_mean_something_else_are_refused(broker) -> None:
    broker.create("t")
    with pytest.raises(InvalidParameter):
        broker.call(commands.RecallMessage("t", "no handle"))
    with pytest.raises(InvalidParameter):
        broker.call(commands.RecallMessage("u", RecallHandle("t", "broker-a", 1, "A").encode()))
    with pytest.raises(InvalidParameter):
        broker.call(commands.RecallMessage("t", RecallHandle("t", "broker-b", 1, "A").encode()))


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"TIMER_DELAY_MS": str(11 * YEAR_MS)}, InvalidParameter),
        ({"TIMER_DELIVER_MS": "9" * 17}, InvalidParameter),
        ({"TIMER_DELIVER_MS": "9" * 40}, InvalidParameter),
        ({"DELAY": "19"}, InvalidParameter),
        ({"DELAY": "-1"}, InvalidParameter),
        ({"TIMER_DELAY_SEC": "soon"}, InvalidParameter),
    ],
)
def test_bad_times_are_refused_and_nothing_of_the_batch_is_kept(broker, properties, error) -> None:
    broker.create("t")
    with pytest.raises(error):
        send(broker, "t", delayed("t", b"good", TIMER_DELAY_MS="1"), delayed("t", b"bad", **properties))
    assert delays(broker)["waiting"] == 0
    assert broker.call(commands.GetMaxOffset("t", 0))[0].offset == 0


def test_ten_years_are_taken(broker) -> None:
    broker.create("t")
    (place,) = send(broker, "t", delayed("t", b"x", TIMER_DELAY_SEC=str(10 * 365 * 24 * 3600)))
    assert place.deliver_at_ms > now_ms() + 9 * YEAR_MS


def test_bad_batches_are_refused(broker, record) -> None:
    broker.create("t")
    with pytest.raises(TopicNotFound):
        send(broker, "nowhere", delayed("nowhere", b"x"))
    with pytest.raises(InvalidParameter):
        send(broker, "t", delayed("t", b"x"), queue_id=9)
    with pytest.raises(NoPermission):
        send(broker, TIMER_TOPIC, delayed(TIMER_TOPIC, b"x"))
    with pytest.raises(MessageIllegal):
        send(broker, "t", delayed("other", b"x"))
    with pytest.raises(MessageIllegal):
        send(broker, "t", record("t", prepared_transaction_offset=-7))
    with pytest.raises(MessageIllegal):
        broker.call(commands.SendDelayed("t", 0, 2), delayed("t", b"x"))
    with pytest.raises(MessageIllegal):
        broker.call(commands.SendDelayed("t", 0, 1), b"")


def test_a_delayed_send_may_create_its_topic(serve: Callable[..., Any]) -> None:
    broker = serve(auto_create_topics=True)
    send(broker, "fresh", delayed("fresh", b"x", TIMER_DELAY_MS="200"), queue_id=3)
    assert wait_messages(broker, "fresh", 1, queue_id=3)[0].body == b"x"


def test_a_message_for_a_deleted_topic_is_dropped(broker) -> None:
    broker.create("t")
    send(broker, "t", delayed("t", b"x", TIMER_DELAY_MS="600"))
    broker.call(commands.DeleteTopic("t"))
    deadline = time.monotonic() + 5
    while delays(broker)["waiting"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert delays(broker) == {
        "waiting": 0,
        "first_due_ms": None,
        "delivered": 0,
        "discarded": 1,
        "damaged": 0,
        "lost": 0,
    }
