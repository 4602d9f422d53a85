"""What of an exported message is sent again, and in which batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.client.administration.import_plan import is_imported, lots, message_of, queues_needed
from zenitmq.model.export_line import ExportedMessage
from zenitmq.model.message import BODY_BYTES_MAX

ONE = ExportedMessage(
    topic="orders",
    queue_id=3,
    queue_offset=7,
    physical_offset=4096,
    message_id="0A",
    properties=b"TAGS\x01buy\x02KEYS\x01a b\x02region\x01eu\x02UNIQ_KEY\x010A\x02DELAY\x013\x02__SHARDINGKEY\x01k\x02",
    body=b"x",
    flag=-5,
    sys_flag=0,
    born_at_ms=1,
    born_host=bytes(8),
    stored_at_ms=1,
    store_host=bytes(8),
    reconsume_times=0,
    prepared_transaction_offset=0,
)


def test_the_producers_part_is_sent() -> None:
    sent = message_of(ONE)
    assert (sent.topic, sent.body, sent.tags, list(sent.keys), sent.flag) == ("orders", b"x", "buy", ["a", "b"], -5)
    assert sent.properties == {"region": "eu", "IMPORT_ORIGIN": "orders:3/7", "IMPORT_MESSAGE_ID": "0A"}
    assert (sent.delay, sent.deliver_at, sent.delay_level) == (None, None, 0)


@pytest.mark.parametrize(
    ("topic", "is_sent"),
    [("t", True), ("rmq_sys_x", False), ("%RETRY%g", False), ("%DLQ%g", False), ("SELF_TEST_TOPIC", False)],
)
def test_copies_and_the_systems_topics_are_not(topic: str, is_sent: bool) -> None:
    assert is_imported(topic) is is_sent


def test_a_topic_is_made_with_the_queues_that_it_had() -> None:
    topics = {"a": {"queues": 8}, "b": {"queues": 2}, "e": {"queues": "x"}}
    assert queues_needed(topics, {"a": 3, "b": 5, "c": 0, "e": 1, "%DLQ%g": 0}) == {"a": 8, "b": 6, "c": 1, "e": 2}


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 1 << 20, BODY_BYTES_MAX])), max_size=600))
def test_each_queues_messages_are_all_there_in_order_and_no_batch_is_too_large(rows) -> None:
    bodies = {size: bytes(size) for size in (0, 1, 1 << 20, BODY_BYTES_MAX)}
    window = [
        replace(ONE, queue_id=queue_id, queue_offset=n, body=bodies[size]) for n, (queue_id, size) in enumerate(rows)
    ]
    sent: dict[str, list[str]] = {}
    for lot in lots(window):
        assert 1 <= len(lot.messages) <= 256
        assert sum(len(one.body) for one in lot.messages) <= BODY_BYTES_MAX
        sent.setdefault(lot.sharding_key, []).extend(one.properties["IMPORT_ORIGIN"] for one in lot.messages)
    expected: dict[str, list[str]] = {}
    for n, (queue_id, _) in enumerate(rows):
        expected.setdefault(str(queue_id), []).append(f"orders:{queue_id}/{n}")
    assert sent == expected


def test_a_lite_topic_gets_its_messages_in_their_order() -> None:
    named = (
        "__LITE_TOPIC\x01{0}\x02INNER_MULTI_DISPATCH\x01%LMQ%$orders${0},%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x011,2\x02"
    )
    window = [replace(ONE, queue_offset=n, properties=named.format("xy"[n % 2]).encode()) for n in range(5)] + [ONE]
    found = [
        (lot.sharding_key, [(m.lite_topic, m.properties["IMPORT_ORIGIN"][-1]) for m in lot.messages])
        for lot in lots(window)
    ]
    assert found == [
        (None, [("x", "0"), ("x", "2"), ("x", "4")]),
        (None, [("y", "1"), ("y", "3")]),
        ("3", [(None, "7")]),
    ]
    assert message_of(window[0]).light_queues == ["%LMQ%a"]


def test_light_queues_get_it_again_but_for_those_of_lite_topics() -> None:
    named = b"INNER_MULTI_DISPATCH\x01%LMQ%a,other,%LMQ%$orders$x,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x011,2,3,4\x02"
    assert message_of(replace(ONE, properties=named)).light_queues == ["%LMQ%a", "%LMQ%b"]
    assert message_of(ONE).light_queues == []


def test_messages_with_a_priority_keep_it_and_their_order() -> None:
    window = [replace(ONE, queue_offset=n, properties=b"_SYS_MSG_PRIORITY_\x01%d\x02" % (n % 2)) for n in range(4)] + [
        ONE
    ]
    found = [
        (lot.sharding_key, [(m.priority, m.properties["IMPORT_ORIGIN"][-1]) for m in lot.messages])
        for lot in lots(window)
    ]
    assert found == [(None, [(0, "0"), (0, "2")]), (None, [(1, "1"), (1, "3")]), ("3", [(None, "7")])]


@pytest.mark.parametrize("text", ["", "10", "-1", "x", "\u0663", " 1"])
def test_what_is_no_priority_of_ours_says_nothing(text: str) -> None:
    named = f"_SYS_MSG_PRIORITY_\x01{text}\x02".encode()
    assert message_of(replace(ONE, properties=named)).priority is None


def test_a_lite_topic_goes_before_a_priority() -> None:
    sent = message_of(replace(ONE, properties=b"__LITE_TOPIC\x01a\x02_SYS_MSG_PRIORITY_\x011\x02"))
    assert (sent.lite_topic, sent.priority) == ("a", None)
