"""Files that expired are kept while a group has yet to consume what is in them, and go once it has."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

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
    reply, messages = broker.pull("t", broker.pull("t")[0].min_offset)
    assert reply.min_offset > 0
    assert messages[0].queue_offset == reply.min_offset
    broker.restart()
    assert broker.call(commands.QueryConsumerOffset("slow", "t", 0))[0].offset == 60
    assert [topic["name"] for topic in broker.ask(commands.GetTopics())["topics"]] == ["t"]
