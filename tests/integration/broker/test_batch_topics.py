"""A batch topic at a real broker: what it refuses, and what comes back of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.model.errors import InvalidParameter, MessageIllegal
from zenitmq.record.kernel import wrap_batch
from zenitmq.remoting import commands

BATCHED = {"attributes": (("queue.type", "BatchCQ"),)}


def send(broker: Any, topic: str, *records: bytes, count: int | None = None, compress_over: int = 1 << 20) -> Any:
    data = b"".join(records)
    request = commands.SendMessages(topic, 0, len(records) if count is None else count)
    return broker.call(request, wrap_batch(data, len(data), compress_over))[0]


@pytest.mark.parametrize("engine", ["file", "rocksdb", "both"])
def test_a_batch_is_one_record_and_its_messages_are_pulled(
    serve: Callable[..., Any], record: Callable[..., bytes], engine: str
) -> None:
    broker = serve(store={"consume_queue": engine})
    broker.create("batches", queues=1, **BATCHED)
    sent = [record("batches", b"%d" % n, key=f"k{n}", tags="even" if n % 2 == 0 else "odd") for n in range(9)]
    first = send(broker, "batches", *sent[:4])
    second = send(broker, "batches", *sent[4:], compress_over=0)
    assert (first.queue_offset, second.queue_offset) == (0, 4)
    broker.restart()
    reply, messages = broker.pull("batches", 5)
    assert (reply.next_offset, [message.queue_offset for message in messages]) == (9, [4, 5, 6, 7, 8])
    assert {message.physical_offset for message in messages} == {second.physical_offset}
    assert send(broker, "batches", record("batches", b"9")).queue_offset == 9
    (row,) = broker.ask(commands.GetTopicStatistics("batches"))["queues"]
    assert (row["min_offset"], row["max_offset"]) == (0, 10)
    found = broker.call(commands.QueryMessages("batches", "k3", 10))[1]
    assert b"k3" in found
    assert b"k2" not in found


def test_a_message_of_a_batch_is_sent_back_alone(broker: Any, record: Callable[..., bytes]) -> None:
    broker.create("batches", queues=1, **BATCHED)
    placed = send(broker, "batches", *(record("batches", b"%d" % n) for n in range(4)))
    broker.call(commands.SendBack("g", "batches", placed.physical_offset, delay_level=-1, reason="no", queue_offset=2))
    (letter,) = broker.pull("%DLQ%g", 0)[1]
    assert letter.body == b"2"


def test_what_a_batch_topic_refuses(broker: Any, record: Callable[..., bytes]) -> None:
    broker.create("batches", queues=1, **BATCHED)
    broker.create("plain", queues=1)
    with pytest.raises(MessageIllegal, match="sysFlag"):
        broker.send("batches", record("batches"))
    with pytest.raises(MessageIllegal, match="sysFlag"):
        send(broker, "plain", record("plain"))
    with pytest.raises(MessageIllegal, match="INNER_NUM"):
        send(broker, "batches", record("batches"), count=2)
    with pytest.raises(MessageIllegal, match="takes batches"):
        broker.call(commands.SendDelayed("batches", 0, 1), record("batches"))
    with pytest.raises(InvalidParameter, match="queue_id"):
        broker.call(commands.SendMessages("batches", 7, 1), record("batches"))
    with pytest.raises(InvalidParameter, match="use pulls"):
        broker.call(commands.PopMessages("g", "batches", 1, 30_000))
    with pytest.raises(InvalidParameter, match="filter by tags"):
        broker.pull("batches", 0, sql="a > 1")
    with pytest.raises(InvalidParameter, match="BatchCQ: it is chosen"):
        broker.create("batches", queues=1, attributes=(("queue.type", "SimpleCQ"),))
    with pytest.raises(InvalidParameter, match="SimpleCQ: it is chosen"):
        broker.create("plain", queues=1, **BATCHED)
    with pytest.raises(InvalidParameter, match=r"queue\.type"):
        broker.create("more", queues=1, attributes=(("queue.type", "batch"),))
    with pytest.raises(InvalidParameter, match="not compacted"):
        broker.create("more", queues=1, attributes=(("cleanup.policy", "COMPACTION"), *BATCHED["attributes"]))
    broker.create("batches", queues=2)
    assert send(broker, "batches", record("batches")).queue_offset == 0
