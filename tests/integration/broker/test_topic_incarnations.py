"""A topic's incarnation at its broker: made by the record that creates it, told, compared with what is asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from integration.broker.conftest import record

from zenitmq.model.errors import InvalidParameter, TopicMadeAnew
from zenitmq.model.properties import encode_properties
from zenitmq.record.kernel import encode_record
from zenitmq.remoting import commands


def waiting(body: bytes) -> bytes:
    return bytes(encode_record(topic=b"t", body=body, properties=encode_properties({"TIMER_DELAY_MS": "300"})))


def incarnation(broker: Any, topic: str = "t") -> int:
    told: int = broker.ask(commands.GetTopicStatistics(topic))["incarnation"]
    return told


def test_a_topic_made_again_is_another_one_and_stays_it_over_a_start(serve: Callable[..., Any]) -> None:
    broker = serve()
    broker.create("t")
    first = incarnation(broker)
    broker.create("t", queues=3)
    assert incarnation(broker) == first > 0, "other settings make no other topic"
    broker.call(commands.DeleteTopic("t"))
    broker.create("t")
    second = incarnation(broker)
    assert second not in (0, first)
    assert {topic["name"]: topic["incarnation"] for topic in broker.ask(commands.GetTopics())["topics"]}["t"] == second
    broker.restart()
    assert incarnation(broker) == second


def test_a_pull_of_the_topic_that_is_gone_is_refused(serve: Callable[..., Any]) -> None:
    broker = serve()
    broker.create("t")
    first = incarnation(broker)
    broker.send("t", record("t"))
    assert len(broker.pull("t", incarnation=first)[1]) == 1
    broker.call(commands.DeleteTopic("t"))
    broker.create("t")
    broker.send("t", record("t"))
    with pytest.raises(TopicMadeAnew) as refused:
        broker.pull("t", incarnation=first)
    assert refused.value.args == ("t", incarnation(broker), first)
    for meant in (0, incarnation(broker)):
        assert len(broker.pull("t", incarnation=meant)[1]) == 1


def test_a_commit_into_the_topic_that_is_gone_is_not_taken_and_those_beside_it_are(serve: Callable[..., Any]) -> None:
    broker = serve()
    for topic in ("t", "u"):
        broker.create(topic)
    first, other = incarnation(broker), incarnation(broker, "u")

    def committed(topic: str) -> int:
        offset: int = broker.call(commands.QueryConsumerOffset("g", topic, 0))[0].offset
        return offset

    both = (("t", 0, 7), ("u", 0, 8))
    broker.call(commands.UpdateConsumerOffsets("g", both, incarnations=(first, other)))
    assert (committed("t"), committed("u")) == (7, 8)
    broker.call(commands.DeleteTopic("t"))
    broker.create("t")
    assert committed("t") == -1, "the group's offsets went with the topic"
    broker.call(commands.UpdateConsumerOffsets("g", (("t", 0, 9), ("u", 0, 10)), incarnations=(first, other)))
    assert (committed("t"), committed("u")) == (-1, 10)
    broker.call(commands.UpdateConsumerOffsets("g", (("t", 0, 1),), incarnations=(incarnation(broker),)))
    assert committed("t") == 1
    with pytest.raises(InvalidParameter):
        broker.call(commands.UpdateConsumerOffsets("g", both, incarnations=(first,)))


def test_what_waits_for_the_topic_that_is_gone_never_comes_into_the_new_one(serve: Callable[..., Any]) -> None:
    broker = serve()
    broker.create("t")
    broker.call(commands.SendDelayed("t", 0, 1), waiting(b"old"))
    broker.call(commands.DeleteTopic("t"))
    broker.create("t")
    broker.call(commands.SendDelayed("t", 0, 1), waiting(b"new"))
    _, messages = broker.pull("t", suspend_ms=5000)
    assert [message.body for message in messages] == [b"new"]
    delays = broker.ask(commands.GetBrokerStatistics())["delays"]
    assert (delays["waiting"], delays["delivered"], delays["discarded"]) == (0, 1, 1)
