"""A compacted topic at a real broker: what is refused, what stays when the log goes, and how it is read and found."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.model.errors import InvalidParameter, MessageIllegal
from zenitmq.model.get_status import GetStatus
from zenitmq.remoting import commands

COMPACTED = {"attributes": (("cleanup.policy", "COMPACTION"),)}
SMALL = {
    "segment_bytes": 64 << 10,
    "body_bytes_max": 8 << 10,
    "record_bytes_max": 16 << 10,
    "retention_bytes": 128 << 10,
    "checkpoint_interval_ms": 50,
    "preallocate_segments": 0,
    "compaction_interval_ms": 1000,
}


def present(broker: Any, topic: str, **filters: Any) -> dict[str, bytes]:
    """What a reader from the first offset has of queue 0."""
    state: dict[str, bytes] = {}
    offset = 0
    while True:
        reply, messages = broker.pull(topic, offset, **{"max_messages": 7, **filters})
        state.update({message.keys[0]: message.body for message in messages})
        if reply.next_offset <= offset and reply.status != GetStatus.OFFSET_TOO_SMALL:
            return {key: body for key, body in state.items() if body}
        offset = reply.next_offset


def begin_offset(broker: Any) -> int:
    offset: int = broker.ask(commands.GetBrokerStatistics())["store"]["begin_offset"]
    return offset


def wait_begin_above(broker: Any, offset: int) -> None:
    deadline = time.monotonic() + 20
    while begin_offset(broker) <= offset:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("engine", ["file", "rocksdb"])
def test_the_newest_of_each_key_outlives_the_log(
    serve: Callable[..., Any], record: Callable[..., bytes], engine: str
) -> None:
    broker = serve(store={**SMALL, "consume_queue": engine}, state_persist_ms=50)
    broker.create("state", queues=1, **COMPACTED)
    broker.create("other", queues=1)
    wanted = {}
    began_ms = int(time.time() * 1000)
    for number in range(20):
        wanted[f"k{number}"] = b"v%d" % number
        broker.send(
            "state", record("state", wanted[f"k{number}"], key=f"k{number}", tags="even" if number % 2 == 0 else "odd")
        )
    broker.send("state", record("state", b"", key="k3"))
    del wanted["k3"]
    (place,) = [message.offset_message_id for message in broker.pull("state", 5, max_messages=1)[1]]
    for number in range(24):
        broker.send("other", record("other", b"%d" % number + bytes(8000)))
    wait_begin_above(broker, 64 << 10)
    assert present(broker, "state") == wanted
    assert present(broker, "state", sql="TAGS = 'odd'").keys() == {k for k in wanted if int(k[1:]) % 2}
    (row,) = broker.ask(commands.GetTopicStatistics("state"))["queues"]
    assert (row["min_offset"], row["max_offset"]) == (0, 21)
    assert broker.call(commands.SearchOffset("state", 0, began_ms - 1, False))[0].offset == 0
    broker.send("state", record("state", b"new", key="k5"))
    wanted["k5"] = b"new"
    broker.restart()
    assert present(broker, "state") == wanted
    found = broker.call(commands.QueryMessages("state", "k7", 10))
    assert b"v7" in found[1]
    assert b"v5" in broker.call(commands.ViewMessage(begin_of(place)))[1]


def begin_of(offset_message_id: str) -> int:
    return int(offset_message_id[-16:], 16)


def test_what_a_compacted_topic_refuses(broker: Any, record: Callable[..., bytes]) -> None:
    broker.create("state", queues=1, **COMPACTED)
    broker.create("plain", queues=1)
    for key, found in ((None, "no key"), ("a b", "2 keys"), (" ", "no key")):
        with pytest.raises(MessageIllegal, match=found):
            broker.send("state", record("state", key="ok"), record("state", key=key))
    assert broker.pull("state")[1] == []
    with pytest.raises(MessageIllegal, match="delayed"):
        broker.call(commands.SendDelayed("state", 0, 1), record("state", key="k"))
    with pytest.raises(InvalidParameter, match="queue_id"):
        broker.call(commands.SendMessages("state", 7, 1), record("state", key="k"))
    with pytest.raises(InvalidParameter, match="not compacted"):
        broker.call(commands.PopMessages("g", "state", 1, 30_000))
    with pytest.raises(InvalidParameter, match="COMPACTION: it is chosen"):
        broker.create("state", queues=1, attributes=(("cleanup.policy", "DELETE"),))
    with pytest.raises(InvalidParameter, match="DELETE: it is chosen"):
        broker.create("plain", queues=1, **COMPACTED)
    with pytest.raises(InvalidParameter, match=r"cleanup\.policy"):
        broker.create("more", queues=1, attributes=(("cleanup.policy", "compact"),))
    with pytest.raises(InvalidParameter, match=r"message\.type"):
        broker.create("more", queues=1, attributes=(("message.type", "DELAY"), *COMPACTED["attributes"]))
    broker.create("state", queues=2)
    broker.send("state", record("state", b"1", key="k"), queue_id=1)


def test_a_topic_made_anew_has_nothing_of_the_old_one(serve: Callable[..., Any], record: Callable[..., bytes]) -> None:
    broker = serve(store=SMALL, state_persist_ms=50)
    broker.create("state", queues=1, **COMPACTED)
    broker.create("other", queues=1)
    broker.send("state", record("state", b"old", key="k"))
    for number in range(20):
        broker.send("other", record("other", b"%d" % number + bytes(8000)))
    wait_begin_above(broker, 0)
    assert present(broker, "state") == {"k": b"old"}
    broker.call(commands.DeleteTopic("state"))
    broker.create("state", queues=1, **COMPACTED)
    assert present(broker, "state") == {}
    broker.send("state", record("state", b"new", key="l"))
    broker.restart()
    assert present(broker, "state") == {"l": b"new"}
