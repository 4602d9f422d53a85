"""What a group could not handle comes again at the ladder's times, then lies among its dead letters. A real broker."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.model.clock import SystemClock, now_ms
from zenitmq.model.errors import (
    CorruptRecordError,
    GroupNotFound,
    InvalidName,
    InvalidParameter,
    MessageIllegal,
    MessageNotFound,
    NoPermission,
)
from zenitmq.model.ids import HostAddress
from zenitmq.record.new_record import NewRecord
from zenitmq.remoting import commands
from zenitmq.store.message_store import MessageStore

Record = Callable[..., bytes]

RETRIES, LETTERS = "%RETRY%g", "%DLQ%g"
SOON = '{"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 1, 100, 200]}}'


@pytest.fixture
def group(broker: Any) -> str:
    """A group whose first retry waits 100 ms, the second and last 200 ms."""
    broker.create("trades")
    broker.call(commands.CreateGroup("g", (("retryMaxTimes", "2"), ("groupRetryPolicy", SOON))))
    return "g"


def back(message: Any, **other: Any) -> commands.SendBack:
    return commands.SendBack(
        "g", **{"topic": message.topic, "physical_offset": message.physical_offset, "reason": "ValueError: no", **other}
    )


def made_store(broker: Any) -> MessageStore:
    """The store of a broker that is stopped."""
    return MessageStore(
        broker.config.store_dir,
        broker.config.store,
        store_host=HostAddress.parse("127.0.0.1", 10911),
        clock=SystemClock(),
        on_flushed=lambda: None,
        on_poisoned=lambda error: None,
        dispatchers=(),
    )


def only(pulled: tuple[Any, list[Any]]) -> Any:
    (message,) = pulled[1]
    return message


def test_a_message_that_always_fails_goes_its_way(broker: Any, group: str, record: Record) -> None:
    broker.send("trades", record("trades", b"poison", tags="buy", key="k", flag=5, born_timestamp_ms=77))
    first = only(broker.pull("trades"))
    sent_at_ms = now_ms()
    broker.call(back(first))
    assert broker.pull(RETRIES)[1] == []
    second = only(broker.pull(RETRIES, suspend_ms=5000))
    assert second.stored_at_ms - sent_at_ms >= 100
    assert (second.body, second.reconsume_times, second.flag, second.born_at_ms) == (b"poison", 1, 5, 77)
    told = {**first.properties, "RETRY_TOPIC": "trades", "ORIGIN_MESSAGE_ID": first.offset_message_id}
    assert {name: value for name, value in second.properties.items() if name != "TIMER_OUT_MS"} == told

    sent_at_ms = now_ms()
    broker.call(back(second, topic="trades"))  # under either name
    third = only(broker.pull(RETRIES, 1, suspend_ms=5000))
    assert third.stored_at_ms - sent_at_ms >= 200
    assert third.reconsume_times == 2
    assert third.properties["ORIGIN_MESSAGE_ID"] == first.offset_message_id

    broker.call(back(third))
    letter = only(broker.pull(LETTERS))
    assert (letter.body, letter.reconsume_times, letter.tags, letter.keys) == (b"poison", 3, "buy", ("k",))
    assert letter.properties == {
        **told,
        "DLQ_ORIGIN_TOPIC": "trades",
        "DLQ_ORIGIN_MESSAGE_ID": first.offset_message_id,
        "DLQ_REASON": "ValueError: no",
    }


def test_what_was_answered_survives_a_restart(broker: Any, group: str, record: Record) -> None:
    broker.send("trades", record("trades", b"0"), record("trades", b"1"))
    for message, level in zip(broker.pull("trades")[1], (0, -1), strict=True):
        broker.call(back(message, delay_level=level))
    broker.restart()
    assert only(broker.pull(RETRIES, suspend_ms=5000)).body == b"0"
    assert only(broker.pull(LETTERS)).body == b"1"
    assert only(broker.pull("trades", 1)).body == b"1"


def test_what_comes_of_it_is_counted(broker: Any, group: str, record: Record) -> None:
    broker.send("trades", record("trades"))
    message = only(broker.pull("trades"))
    for level in (0, -1, -1):
        broker.call(back(message, delay_level=level))
    assert broker.ask(commands.GetBrokerStatistics())["send_backs"] == {"retried": 1, "given_up": 2}


@pytest.mark.parametrize(
    ("asked", "is_letter"), [({"delay_level": -1}, True), ({"max_attempts": 0}, True), ({"delay_level": 1}, False)]
)
def test_a_consumer_may_say_how_it_goes_on(
    broker: Any, group: str, record: Record, asked: dict[str, int], is_letter: bool
) -> None:
    broker.send("trades", record("trades"))
    broker.call(back(only(broker.pull("trades")), **asked))
    topics = {config["name"] for config in broker.ask(commands.GetTopics())["topics"]}
    assert (LETTERS in topics, RETRIES in topics) == (is_letter, not is_letter)


def test_retry_queues_are_as_many_as_the_group_wants(broker: Any, group: str, record: Record) -> None:
    def queues() -> int:
        return next(t["read_queues"] for t in broker.ask(commands.GetTopics())["topics"] if t["name"] == RETRIES)

    broker.send("trades", record("trades"), queue_id=1)
    message = only(broker.pull("trades", queue_id=1))
    broker.call(back(message))
    assert queues() == 1
    broker.call(commands.CreateGroup("g", (("retryQueueNums", "2"),)))
    broker.call(back(message))
    assert queues() == 2
    assert only(broker.pull(RETRIES, queue_id=1, suspend_ms=5000)).reconsume_times == 1


def test_who_subscribes_to_retries_can_read_them_at_once(broker: Any) -> None:
    def subscribe(topic: str) -> list[str]:
        consumers = (("h", "CLUSTERING", (("trades", "TAG", "*"), (topic, "TAG", "*"))),)
        broker.call(commands.Heartbeat("c1", (), consumers))
        return [config["name"] for config in broker.ask(commands.GetTopics())["topics"]]

    assert "%RETRY%h" not in subscribe("%RETRY%other")
    assert "%RETRY%h" in subscribe("%RETRY%h")
    assert broker.pull("%RETRY%h")[1] == []


def test_a_record_that_is_gone_may_be_brought_along(broker: Any, group: str, record: Record) -> None:
    broker.send("trades", record("trades", b"pulled"))
    message = only(broker.pull("trades"))
    gone = bytearray(message.record)
    gone[28:36] = (1 << 40).to_bytes(8, "big")
    request = commands.SendBack("g", "trades", 1 << 40, -1)
    with pytest.raises(MessageNotFound):
        broker.call(request)
    broker.call(request, bytes(gone))
    assert only(broker.pull(LETTERS)).body == b"pulled"
    torn = bytes(gone[:-1])
    lying = message.record
    broken = bytes(gone).replace(b"pulled", b"pushed")
    for payload in (torn, lying, b"x"):
        with pytest.raises(MessageIllegal):
            broker.call(request, payload)
    with pytest.raises(CorruptRecordError):
        broker.call(request, broken)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"physical_offset": -1}, MessageNotFound),
        ({"handled": 0}, InvalidParameter),
        ({"physical_offset": 1}, MessageNotFound),
        ({"physical_offset": 1 << 50}, MessageNotFound),
        ({"topic": "other"}, InvalidParameter),
        ({"topic": "not a topic"}, InvalidName),
        ({"topic": "rmq_sys_zenit_groups", "physical_offset": 0}, NoPermission),
        ({"delay_level": 19}, InvalidParameter),
        ({"delay_level": -2}, InvalidParameter),
        ({"max_attempts": -2}, InvalidParameter),
    ],
)
def test_what_makes_no_sense_is_refused(
    broker: Any, group: str, record: Record, wrong: dict[str, Any], error: type[Exception]
) -> None:
    broker.send("trades", record("trades"))
    message = only(broker.pull("trades"))
    with pytest.raises(error):
        broker.call(back(message, **wrong))
    names = {config["name"] for config in broker.ask(commands.GetTopics())["topics"]}
    assert not names & {RETRIES, LETTERS}


def test_an_unknown_group_is_made_or_refused(serve: Callable[..., Any], record: Record) -> None:
    for is_allowed in (True, False):
        broker = serve(str(is_allowed), auto_create_groups=is_allowed)
        broker.create("trades")
        broker.send("trades", record("trades"))
        message = only(broker.pull("trades"))
        if is_allowed:
            broker.call(back(message, delay_level=-1))
            assert "g" in [group["name"] for group in broker.ask(commands.GetGroups())["groups"]]
        else:
            with pytest.raises(GroupNotFound):
                broker.call(back(message))
        with pytest.raises(InvalidName):
            broker.call(commands.SendBack("no group", "trades", 0))


def test_a_reason_is_cut(broker: Any, group: str, record: Record) -> None:
    broker.send("trades", record("trades"))
    broker.call(back(only(broker.pull("trades")), delay_level=-1, reason="\x01é" * 5000))
    reason = only(broker.pull(LETTERS)).properties["DLQ_REASON"]
    assert 1020 <= len(reason.encode()) <= 1024


def test_a_compressed_body_stays_as_it_is(broker: Any, group: str, record: Record) -> None:
    broker.send("trades", record("trades", zlib.compress(b"long" * 100), sys_flag=1))
    broker.call(back(only(broker.pull("trades")), delay_level=-1))
    assert only(broker.pull(LETTERS)).body == b"long" * 100


def test_a_body_that_an_older_broker_took_with_anothers_crc_goes_its_way_and_keeps_that(
    broker: Any, group: str
) -> None:
    """Nobody can decode it; its append's checksum says that these are the bytes its producer sent."""

    def is_unmatched(message: Any) -> bool:
        return bool(message.body_crc == 0x01020304 and message.body_as_stored == b"poison")

    broker.stop()
    with made_store(broker) as store:
        store.stage_record(NewRecord(topic="trades", queue_id=0, body=b"poison", body_crc=0x01020304))
        store.commit()
    broker.start()
    first = only(broker.pull("trades", is_doubted=True))
    broker.call(back(first))
    second = only(broker.pull(RETRIES, suspend_ms=5000))
    broker.call(back(second, delay_level=-1))
    assert all(is_unmatched(message) for message in (first, second, only(broker.pull(LETTERS))))
