"""Dead letters are listed, read and sent again: as they were sent at first, each once. Real name server and broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from zenitmq import (
    FIRST,
    Admin,
    InvalidParameter,
    Message,
    Producer,
    PullConsumer,
    SimpleConsumer,
    StoredMessage,
    TopicNotFound,
    aio,
)
from zenitmq.broker.registration import TopicChanges
from zenitmq.client.administration.letter_selection import LetterSelection
from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import UnknownRequest
from zenitmq.model.properties import encode_properties
from zenitmq.model.redelivery import Origin, dead_letter_properties
from zenitmq.record.kernel import encode_record
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import SendMessages

TOPIC = "trades"
LETTERS = "%DLQ%g"

Bury = Callable[..., None]


@pytest.fixture
def bury(admin: Admin) -> Bury:
    """Stores dead letters of group g, as a broker does that gives a message up: bury(b"body", ..., topic=, region=)."""
    admin.create_topic(LETTERS, queues=1)
    address = admin.route(LETTERS).brokers[0].master_address
    assert address is not None

    def store(*bodies: bytes, topic: str | None = TOPIC, **own: str) -> None:
        for body in bodies:
            sent = {"UNIQ_KEY": f"U-{body.decode()}", "KEYS": "k", "TAGS": "buy", **own}
            properties = sent if topic is None else dead_letter_properties(sent, Origin(topic, "ID0"), "ValueError: no")
            record = encode_record(
                topic=LETTERS.encode(), body=body, properties=encode_properties(properties), born_timestamp_ms=7, flag=3
            )
            with RemotingClient() as client:
                client.call(address, SendMessages(LETTERS, 0, 1), record, timeout_ms=5000)

    return store


def messages(namesrv: str, admin: Admin, topic: str = TOPIC) -> list[StoredMessage]:
    """All that the topic holds."""
    count = sum(admin.max_offset(queue) for queue in admin.queues(topic))
    found: list[StoredMessage] = []
    with PullConsumer("all", namesrv=namesrv, start_from=FIRST, auto_commit=False) as consumer:
        consumer.assign(admin.queues(topic))
        while len(found) < count:
            found += consumer.poll(timeout=5)
    return sorted(found, key=lambda message: message.stored_at_ms)


def test_letters_are_listed_and_read(admin: Admin, bury: Bury) -> None:
    (empty,) = admin.dead_letter_groups()
    assert (empty["group"], empty["letters"], empty["oldest_at_ms"]) == ("g", 0, None)
    bury(b"0", b"1", b"2")
    (row,) = admin.dead_letter_groups("g")
    assert (row["topic"], row["letters"], row["redriven"]) == (LETTERS, 3, 0)
    assert 0 < row["oldest_at_ms"] <= row["newest_at_ms"]
    assert admin.dead_letter_groups("nobody")[0]["letters"] == 0
    newest = admin.dead_letters("g", 2)
    assert [letter.message.body for letter in newest] == [b"2", b"1"]
    assert (newest[0].origin_topic, newest[0].origin_message_id, newest[0].reason) == (TOPIC, "ID0", "ValueError: no")
    with pytest.raises(InvalidParameter):
        admin.dead_letters("g", 0)


def test_a_letter_is_found_before_a_name_server_knows_its_topic(
    admin: Admin, namesrv: str, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker makes the topic with the first letter, and tells the name servers later: its master is asked."""
    with SimpleConsumer("g", namesrv=namesrv) as consumer:
        consumer.subscribe(TOPIC)
        producer.send(Message(TOPIC, b"0"))
        (message,) = consumer.receive(wait=10)
        assert admin.dead_letters("g") == []
        monkeypatch.setattr(TopicChanges, "on_changed", lambda _changes, _topic: None)  # nobody is told
        consumer.dead_letter(message, reason="no")
    assert LETTERS not in admin.topics()
    assert [letter.message.body for letter in admin.dead_letters("g")] == [b"0"]
    assert [(row["group"], row["letters"]) for row in admin.dead_letter_groups()] == [("g", 1)]
    assert [row["max_offset"] for row in admin.describe_topic(LETTERS)["queues"]] == [1]
    assert [found.body for found in admin.query(LETTERS).messages] == [b"0"]
    assert admin.redrive_dead_letters("g")["redriven"] == 1
    assert [found.body for found in messages(namesrv, admin)] == [b"0", b"0"]
    with pytest.raises(TopicNotFound):
        admin.describe_topic("%DLQ%nobody")


def test_a_broker_that_does_not_tell_keeps_no_known_letters_back(namesrv: str, new_broker: Callable) -> None:
    """Its answer is missed only where no name server knows of any letters: then nobody says that there are none."""
    new_broker("broker-a", **{LETTERS: 1})
    new_broker("broker-b")  # answers with an error what it does not know
    with Admin(namesrv) as admin:
        assert [(row["group"], row["letters"]) for row in admin.dead_letter_groups()] == [("g", 0)]
        assert admin.dead_letters("g") == []
        with pytest.raises(UnknownRequest):
            admin.dead_letters("others")


def test_letters_of_one_millisecond_are_listed_newest_first_too(admin: Admin, bury: Bury) -> None:
    bodies = [b"%d" % number for number in range(30)]
    bury(*bodies)
    assert [letter.message.body for letter in admin.dead_letters("g", 30)] == bodies[::-1]


def test_a_letter_is_sent_again_as_it_was_sent_at_first(admin: Admin, bury: Bury, namesrv: str) -> None:
    bury(b"0", region="eu")
    done = admin.redrive_dead_letters("g")
    assert (done["letters"], done["redriven"], done["failed"], done["topics"]) == (1, 1, 0, {TOPIC: 1})
    (message,) = messages(namesrv, admin)
    assert message.body == b"0"
    assert message.properties == {"UNIQ_KEY": "U-0", "KEYS": "k", "TAGS": "buy", "region": "eu"}
    assert (message.message_id, message.born_at_ms, message.flag, message.reconsume_times) == ("U-0", 7, 3, 0)
    assert admin.view_message("U-0", topic=TOPIC).body == b"0"


def test_what_was_sent_is_remembered(admin: Admin, bury: Bury, namesrv: str) -> None:
    bury(b"0", b"1", b"2")
    seen = []
    plan = admin.redrive_dead_letters("g", max_messages=2, dry_run=True)
    assert (plan["letters"], plan["redriven"], plan["topics"]) == (2, 0, {TOPIC: 2})
    admin.redrive_dead_letters("g", max_messages=2, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2, 2)
    assert admin.dead_letter_groups("g")[0]["redriven"] == 2
    assert admin.redrive_dead_letters("g")["redriven"] == 1
    assert admin.redrive_dead_letters("g")["redriven"] == 0
    bury(b"3")
    assert admin.redrive_dead_letters("g")["redriven"] == 1
    assert [message.body for message in messages(namesrv, admin)] == [b"0", b"1", b"2", b"3"]
    bury(*[b"%d" % number for number in range(4, 104)])
    assert admin.redrive_dead_letters("g")["redriven"] == 100
    assert sorted(int(message.body) for message in messages(namesrv, admin)) == list(range(104))
    assert admin.redrive_dead_letters("g", again=True)["redriven"] == 104
    assert admin.redrive_dead_letters("g")["redriven"] == 0


def test_times_choose_letters(admin: Admin, bury: Bury, namesrv: str) -> None:
    bury(b"0")
    threading.Event().wait(0.01)
    moment = datetime.now(UTC)
    threading.Event().wait(0.01)
    bury(b"1")
    assert admin.redrive_dead_letters("g", until=moment, dry_run=True)["letters"] == 1
    done = admin.redrive_dead_letters("g", since=moment)
    assert (done["redriven"], done["passed_over"]) == (1, 1)
    assert admin.redrive_dead_letters("g")["redriven"] == 0
    assert admin.redrive_dead_letters("g", until=moment, again=True)["redriven"] == 1
    assert [message.body for message in messages(namesrv, admin)] == [b"1", b"0"]


def test_letters_may_go_elsewhere(admin: Admin, bury: Bury, namesrv: str) -> None:
    admin.create_topic("other", queues=1)
    admin.create_topic("%RETRY%g", queues=1)
    bury(b"0", b"1")
    assert admin.redrive_dead_letters("g", to="other")["topics"] == {"other": 2}
    assert [message.body for message in messages(namesrv, admin, "other")] == [b"0", b"1"]
    admin.redrive_dead_letters("g", to="%RETRY%g", again=True, max_messages=1)
    (message,) = messages(namesrv, admin, "%RETRY%g")
    assert (message.properties["RETRY_TOPIC"], message.properties["ORIGIN_MESSAGE_ID"]) == (TOPIC, "ID0")
    for wrong in ("rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX"):
        with pytest.raises(InvalidParameter):
            admin.redrive_dead_letters("g", to=wrong)


def test_keys_of_order_keep_their_queue(admin: Admin, bury: Bury, namesrv: str) -> None:
    bury(b"0", b"1", b"2", __SHARDINGKEY="user-7")
    admin.redrive_dead_letters("g")
    found = messages(namesrv, admin)
    assert len({message.queue for message in found}) == 1
    assert [message.body for message in found] == [b"0", b"1", b"2"]


def test_it_stops_at_the_first_that_cannot_be_sent(admin: Admin, bury: Bury, namesrv: str) -> None:
    bury(b"0")
    bury(b"1", topic="gone")
    bury(b"2")
    for _ in range(2):
        done = admin.redrive_dead_letters("g", timeout=2)
        assert done["failed"] == 1
        assert "queue offset 1, message U-1: topic 'gone' does not exist" in done["error"]
    assert [message.body for message in messages(namesrv, admin)] == [b"0"]
    admin.create_topic("gone", queues=1)
    assert admin.redrive_dead_letters("g")["redriven"] == 2


def test_a_letter_without_an_origin_needs_a_topic(admin: Admin, bury: Bury) -> None:
    bury(b"0", topic=None)
    for dry_run in (True, False):
        assert "does not say which topic" in admin.redrive_dead_letters("g", dry_run=dry_run)["error"]
    assert admin.dead_letters("g")[0].origin_topic == ""
    assert admin.redrive_dead_letters("g", to=TOPIC)["redriven"] == 1


def test_a_group_without_letters_has_nothing_to_send(admin: Admin) -> None:
    assert admin.redrive_dead_letters("nobody")["letters"] == 0
    with pytest.raises(InvalidParameter):
        admin.redrive_dead_letters("nobody", max_messages=0)


def test_the_same_on_an_event_loop(admin: Admin, bury: Bury, namesrv: str) -> None:
    bury(b"0", b"1")

    async def story() -> None:
        async with aio.Admin(namesrv) as other:
            (row,) = await other.dead_letter_groups()
            assert row["letters"] == 2
            assert [letter.message.body for letter in await other.dead_letters("g")] == [b"1", b"0"]
            assert (await other.redrive_dead_letters("g"))["redriven"] == 2
            (moved,) = await other.clone_offsets("ZENIT_REDRIVE", "auditors", topic=LETTERS)
            assert (moved["from"], moved["to"]) == (None, 2)

    asyncio.run(story())
    assert sorted(message.body for message in messages(namesrv, admin)) == [b"0", b"1"]


def test_a_selection_is_sent_and_remembered_for_itself(admin: Admin, bury: Bury, namesrv: str) -> None:
    for number in range(0, 10, 2):
        bury(b"%d" % number, TAGS="buy")
        bury(b"%d" % (number + 1), TAGS="sell")
    buys = LetterSelection(tags=frozenset({"buy"}), reason="VALUEERROR")
    plan = admin.redrive_dead_letters("g", select=buys, dry_run=True)
    assert (plan["letters"], plan["redriven"], plan["topics"]) == (5, 0, {TOPIC: 5})
    assert admin.redrive_dead_letters("g", select=buys, max_messages=2)["redriven"] == 2
    assert admin.redrive_dead_letters("g", select=buys)["redriven"] == 3
    assert admin.redrive_dead_letters("g", select=buys)["redriven"] == 0
    assert sorted(message.body for message in messages(namesrv, admin)) == [b"0", b"2", b"4", b"6", b"8"]
    assert admin.redrive_dead_letters("g", select=LetterSelection(topics=frozenset({"other"})))["letters"] == 0
    assert admin.dead_letter_groups("g")[0]["redriven"] == 0  # a selection says nothing of the others
    admin.redrive_dead_letters("g")
    assert admin.redrive_dead_letters("g", select=LetterSelection(tags=frozenset({"sell"})))["redriven"] == 0


def test_a_paced_redrive_takes_its_time(admin: Admin, bury: Bury, namesrv: str) -> None:
    bury(b"0", b"1", b"2", b"3")
    begin = monotonic_ms()
    assert admin.redrive_dead_letters("g", rate=10)["redriven"] == 4
    assert monotonic_ms() - begin >= 300
    assert [message.body for message in messages(namesrv, admin)] == [b"0", b"1", b"2", b"3"]
    with pytest.raises(InvalidParameter):
        admin.redrive_dead_letters("g", rate=0)
