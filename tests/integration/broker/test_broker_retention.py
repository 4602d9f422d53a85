"""Files that expired are kept while a group has yet to consume what is in them, and go once it has."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from zenitmq.model.errors import HoldNotFound, InvalidParameter, StoreNotWriteable, TopicNotFound
from zenitmq.remoting import commands

EXPIRES_AT_ONCE = {
    "segment_bytes": 64 << 10,
    "body_bytes_max": 8 << 10,
    "record_bytes_max": 16 << 10,
    "retention_ms": 1,
    "checkpoint_interval_ms": 50,
    "preallocate_segments": 0,
}


def begin_offset(broker: Any) -> int:
    offset: int = broker.ask(commands.GetBrokerStatistics())["store"]["begin_offset"]
    return offset


def wait_begin_above(broker: Any, offset: int) -> bool:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        if begin_offset(broker) > offset:
            return True
        time.sleep(0.1)
    return False


def wait_full(broker: Any) -> bool:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        if broker.ask(commands.GetBrokerStatistics())["store"]["refuses_writes"] is not None:
            return True
        time.sleep(0.1)
    return False


def test_what_a_group_has_not_consumed_is_kept(serve: Callable[..., Any], record: Callable[..., bytes]) -> None:
    broker = serve(store=EXPIRES_AT_ONCE, state_persist_ms=50)
    broker.create("t", queues=1)
    broker.call(commands.UpdateConsumerOffsets("slow", (("t", 0, 0),)))
    for number in range(60):
        broker.send("t", record("t", b"%d" % number + bytes(8000)))
    time.sleep(3)  # two rounds of upkeep at least
    assert begin_offset(broker) == 0
    assert broker.pull("t")[0].min_offset == 0
    broker.call(commands.UpdateConsumerOffsets("slow", (("t", 0, 60),)))
    assert wait_begin_above(broker, 0)
    for _ in range(100):  # files go on expiring between two pulls; the last one stays
        reply, messages = broker.pull("t", broker.pull("t")[0].min_offset)
        if messages:
            break
    assert reply.min_offset > 0
    assert messages[0].queue_offset == reply.min_offset
    ((committed, first),) = broker.call(commands.GetBeginOffsets("new", "t", (0,)))[0].offsets
    assert committed == -1
    assert first >= reply.min_offset
    broker.restart()
    assert broker.call(commands.QueryConsumerOffset("slow", "t", 0))[0].offset == 60
    assert [topic["name"] for topic in broker.ask(commands.GetTopics())["topics"]] == ["t"]


def test_a_group_that_consumes_gives_a_full_disk_its_room_back(
    serve: Callable[..., Any], record: Callable[..., bytes]
) -> None:
    broker = serve(store=EXPIRES_AT_ONCE, state_persist_ms=50)
    broker.create("t", queues=1)
    broker.call(commands.UpdateConsumerOffsets("slow", (("t", 0, 0),)))
    for number in range(20):
        broker.send("t", record("t", b"%d" % number + bytes(8000)))
    broker.stop()
    over = {"disk_clean_ratio": 0.0, "disk_force_ratio": 0.0, "disk_refuse_ratio": 0.000001}
    broker.config = replace(broker.config, store=replace(broker.config.store, **over))
    broker.start()
    assert wait_full(broker)
    with pytest.raises(StoreNotWriteable):
        broker.send("t", record("t", b"more"))
    broker.call(commands.UpdateConsumerOffsets("slow", (("t", 0, 20),)))
    assert wait_begin_above(broker, 0)
    with pytest.raises(StoreNotWriteable):
        broker.send("t", record("t", b"more"))


def test_what_a_reader_holds_is_kept_for_its_lease(serve: Callable[..., Any], record: Callable[..., bytes]) -> None:
    broker = serve(store=EXPIRES_AT_ONCE, state_persist_ms=50)
    broker.create("t", queues=1)
    for number in range(30):
        broker.send("t", record("t", b"%d" % number + bytes(8000)))
    reply, _ = broker.call(commands.HoldMessages("a scan", (("t", 0, 10),), 100))
    broker.call(commands.RenewHold(reply.hold_id, 3500))
    held_until = time.monotonic() + 3.4
    (held,) = broker.ask(commands.GetBrokerStatistics())["retention_holds"]
    assert (held["owner"], held["topics"]) == ("a scan", ["t"])
    first_segment = 64 << 10
    while time.monotonic() < held_until:
        assert begin_offset(broker) <= 10 * 8200
        time.sleep(0.2)
    assert wait_begin_above(broker, 10 * 8200 + first_segment)
    with pytest.raises(HoldNotFound):
        broker.call(commands.RenewHold(reply.hold_id, 1000))
    assert broker.ask(commands.GetBrokerStatistics())["retention_holds"] == []


def test_a_hold_of_what_is_not_there_is_refused(serve: Callable[..., Any]) -> None:
    broker = serve()
    broker.create("t", queues=1)
    with pytest.raises(TopicNotFound):
        broker.call(commands.HoldMessages("a scan", (("nowhere", 0, 0),), 1000))
    with pytest.raises(InvalidParameter):
        broker.call(commands.HoldMessages("a scan", (("t", 0, 0), ("t", 1, 0)), 1000))
    broker.call(commands.ReleaseHold("never taken"))
