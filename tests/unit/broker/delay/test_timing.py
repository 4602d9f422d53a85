"""When a message is to be delivered, and what its records say of it."""

from __future__ import annotations

import pytest

from zenitmq.broker.delay.rewriting import delivered_record, immediate_record, rolled_record, waiting_record
from zenitmq.broker.delay.timing import (
    NOT_DELIVERED,
    DelayRules,
    due_of,
    is_ours,
    recall_properties,
    rocketmq_out_ms,
    waiting_properties,
)
from zenitmq.broker.waiting.copies import changed, real_queue
from zenitmq.model.errors import InvalidParameter, MessageIllegal, MessageTooLarge
from zenitmq.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from zenitmq.model.properties import encode_properties
from zenitmq.record.kernel import decode_record, encode_record
from zenitmq.record.sys_flag import COMPRESSED, TRANSACTION_COMMIT

NOW = 1_700_000_000_000
RULES = DelayRules((1000, 5000), 60_000)


@pytest.mark.parametrize(
    ("properties", "at_ms"),
    [
        ({}, NOW),
        ({"KEYS": "k"}, NOW),
        ({"DELAY": "1"}, NOW + 1000),
        ({"DELAY": "2", "TIMER_DELAY_MS": "7"}, NOW + 5000),
        ({"DELAY": "0"}, NOW),
        ({"TIMER_DELAY_MS": "7", "TIMER_DELIVER_MS": "9"}, NOW + 7),
        ({"TIMER_DELAY_SEC": "7"}, NOW + 7000),
        ({"TIMER_DELIVER_MS": str(NOW + 60_000)}, NOW + 60_000),
        ({"TIMER_DELIVER_MS": "0"}, 0),
    ],
)
def test_the_sender_says_when(properties: dict[str, str], at_ms: int) -> None:
    assert RULES.deliver_at(properties, NOW) == at_ms


@pytest.mark.parametrize(
    "properties",
    [
        {"DELAY": "3"},
        {"DELAY": "-1"},
        {"DELAY": ""},
        {"TIMER_DELAY_MS": "60001"},
        {"TIMER_DELIVER_MS": str(NOW + 60_001)},
        {"TIMER_DELIVER_MS": "9" * 19},
        {"TIMER_DELAY_SEC": "61"},
        {"TIMER_DELAY_SEC": "\u0661"},
    ],
)
def test_what_is_no_time_or_beyond_the_limit_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidParameter):
        RULES.deliver_at(properties, NOW)


def test_levels_beyond_the_last_wait_as_long_as_the_last() -> None:
    assert [RULES.level_delay_ms(queue_id) for queue_id in (0, 1, 7)] == [1000, 5000, 5000]


@pytest.mark.parametrize(
    ("topic", "properties", "due_ms"),
    [
        (SCHEDULE_TOPIC, {}, 42),
        (TIMER_TOPIC, {"TIMER_OUT_MS": "7"}, 7),
        (TIMER_TOPIC, {"TIMER_OUT_MS": "7", "TIMER_DEL_UNIQKEY": "t+A"}, None),
        (TIMER_TOPIC, {}, None),
        (TIMER_TOPIC, {"TIMER_OUT_MS": "-7"}, None),
        (TIMER_TOPIC, {"TIMER_OUT_MS": "9" * 19}, None),
        ("t", {"TIMER_OUT_MS": "7"}, None),
    ],
)
def test_a_record_says_until_when_it_waits(topic: str, properties: dict[str, str], due_ms: int | None) -> None:
    assert due_of(topic, properties, 42) == due_ms


@pytest.mark.parametrize(
    "properties", [{}, {"REAL_TOPIC": "t"}, {"REAL_TOPIC": "t", "REAL_QID": "-1"}, {"REAL_QID": "1"}]
)
def test_a_record_that_names_no_queue_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(MessageIllegal):
        real_queue(properties)


def test_ours_are_told_from_rocketmq_s() -> None:
    assert is_ours(waiting_properties("t", 1, 5000))
    assert not is_ours({"TIMER_DELIVER_MS": "5000", "TIMER_OUT_MS": "4000"})
    assert not is_ours({"TIMER_OUT_MS": "4000"})


def test_what_takes_a_message_back_is_rocketmq_s() -> None:
    assert recall_properties("t", "A", 5000) == {
        "TIMER_DEL_UNIQKEY": "t+A",
        "TIMER_DELIVER_MS": "5001",
        "TIMER_OUT_MS": "5000",
        "UNIQ_KEY": "A",
        "TAGS": "_RECALL_TAG_",
    }


def test_names_go_and_others_stay_byte_for_byte() -> None:
    odd = b"a\x01\xff\x02\x02DELAY\x01" + b"3\x02b\x01c\x01d\x02tail"
    assert changed(odd, NOT_DELIVERED, {"x": "y"}) == b"a\x01\xff\x02b\x01c\x01d\x02tail\x02x\x01y\x02"


def sent(properties: dict[str, str], **fields: object) -> bytes:
    return encode_record(
        topic=b"t", body=b"body", properties=encode_properties(properties), born_timestamp_ms=5, flag=9, **fields
    )


def test_a_message_waits_and_is_delivered_as_it_was_sent() -> None:
    message = decode_record(
        sent({"KEYS": "k", "TIMER_DELAY_MS": "7", "own": "o"}, sys_flag=COMPRESSED, reconsume_times=2)
    )
    waiting = decode_record(waiting_record(message, "t", 3, NOW + 7, 20))
    assert (waiting.topic, waiting.queue_id) == (TIMER_TOPIC, 0)
    assert waiting.properties == {"KEYS": "k", "own": "o", **waiting_properties("t", 3, NOW + 7)}
    assert len(waiting.store_host) == 20
    delivered = decode_record(delivered_record(waiting, "t", 3, 8))
    assert (delivered.topic, delivered.queue_id, delivered.body_as_stored) == ("t", 3, b"body")
    assert delivered.properties == {"KEYS": "k", "own": "o", "TIMER_OUT_MS": str(NOW + 7)}
    assert delivered.prepared_transaction_offset == -1
    assert (delivered.sys_flag, delivered.flag, delivered.born_at_ms, delivered.reconsume_times) == (1, 9, 5, 2)


def test_a_message_that_waits_for_nothing_says_nothing_of_it() -> None:
    message = decode_record(sent({"DELAY": "0", "REAL_TOPIC": "lie", "own": "o"}))
    stored = decode_record(immediate_record(message, "t", 3, 8))
    assert stored.properties == {"own": "o"}
    assert stored.prepared_transaction_offset == 0


def test_a_message_that_waits_on_names_the_record_before() -> None:
    scheduled = encode_record(
        topic=SCHEDULE_TOPIC.encode(), body=b"x", properties=b"REAL_TOPIC\x01t\x02", physical_offset=77,
        sys_flag=TRANSACTION_COMMIT,
    )  # fmt: skip
    rolled = decode_record(rolled_record(decode_record(scheduled), NOW, 8))
    assert rolled.topic == TIMER_TOPIC
    assert rolled.properties == {"REAL_TOPIC": "t", "TIMER_OUT_MS": str(NOW)}
    assert rolled.prepared_transaction_offset == -78
    assert rolled.sys_flag == 0


def test_properties_that_leave_no_room_are_refused() -> None:
    message = decode_record(sent({"own": "o" * 32_700}))
    with pytest.raises(MessageTooLarge):
        waiting_record(message, "t", 3, NOW, 8)


@pytest.mark.parametrize(
    ("deliver_at_ms", "out_ms"), [(5000, 4000), (5001, 5000), (5999, 5000), (6000, 5000), (1, 0), (1000, 0)]
)
def test_a_time_as_rocketmq_rounds_it(deliver_at_ms: int, out_ms: int) -> None:
    assert rocketmq_out_ms(deliver_at_ms) == out_ms


@pytest.mark.parametrize("deliver_at_ms", [5000, 5001, 5500, 5998, 5999, 6000])
def test_rocketmq_looks_for_what_was_taken_back_in_the_second_where_it_waits(deliver_at_ms: int) -> None:
    """It sorts what waits by whole seconds of TIMER_OUT_MS, and takes back only in the same one."""
    waits = int(waiting_properties("t", 1, deliver_at_ms)["TIMER_OUT_MS"])
    taken_back = int(recall_properties("t", "A" * 32, deliver_at_ms)["TIMER_OUT_MS"])
    assert taken_back // 1000 == waits // 1000
    assert taken_back % 1000 == 0
