"""Offsets of queries and holds, over two groups of a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.client.real_broker import RealBroker

from zenitmq import Admin
from zenitmq.client.administration.pipeline_calls import PipelineCalls, pipeline_calls
from zenitmq.client.connection.connection import connect, release
from zenitmq.client.connection.waiting import Blocking, run_blocking
from zenitmq.model.errors import NoRoute, QueryOffsetsDiffer, QueryOffsetsNotFound, TopicNotFound
from zenitmq.model.queue import MessageQueue
from zenitmq.remoting.commands import KeepQueryOffsets


@pytest.fixture
def calls(namesrv: str) -> Iterator[PipelineCalls]:
    connection = connect(namesrv)
    yield PipelineCalls(connection, timeout_ms=5000)
    run_blocking(release(connection, Blocking(connection.remoting)))


@pytest.fixture
def brokers(namesrv: str, tmp_path: Path) -> Iterator[list[RealBroker]]:
    """What is appended is stopped at the end."""
    running = [RealBroker(namesrv, tmp_path)]
    yield running
    for broker in running:
        broker.stop()


def test_offsets_of_a_query_are_kept_once_and_by_every_group(
    namesrv: str, tmp_path: Path, calls: PipelineCalls, brokers: list[RealBroker]
) -> None:
    assert calls.query_offsets("q") is None
    assert calls.keep_query_offsets("q", '{"t": 1}') == '{"t": 1}'
    brokers.append(RealBroker(namesrv, tmp_path, "broker-0"))  # asked before broker-a, and knows nothing
    assert calls.copies("q") == {"broker-0": None, "broker-a": '{"t": 1}'}
    assert calls.keep_query_offsets("q", '{"t": 2}') == '{"t": 1}'
    assert calls.copies("q") == {"broker-0": '{"t": 1}', "broker-a": '{"t": 1}'}
    (row,) = calls.queries()
    assert (row["query"], row["brokers"]) == ("q", ["broker-0", "broker-a"])

    brokers[1].stop()
    brokers[1].start()
    assert calls.query_offsets("q") == '{"t": 1}', "a restart forgets nothing"

    calls.drop_query_offsets("q")
    with pytest.raises(QueryOffsetsNotFound):
        calls.drop_query_offsets("q")
    assert calls.queries() == []

    with pipeline_calls(namesrv) as others:
        address = brokers[0].address
        others._connection.remoting.call(address, KeepQueryOffsets("q"), b'{"t": 3}', timeout_ms=5000)
        others._connection.remoting.call(brokers[1].address, KeepQueryOffsets("q"), b'{"t": 4}', timeout_ms=5000)
    with pytest.raises(QueryOffsetsDiffer, match="broker-0, broker-a"):
        calls.keep_query_offsets("q", "{}")


def test_holds_are_renewed_taken_anew_and_released(
    namesrv: str, calls: PipelineCalls, brokers: list[RealBroker]
) -> None:
    with Admin(namesrv) as admin:
        admin.create_topic("t", queues=2)
    queues = {MessageQueue("t", "broker-a", 0): 5, MessageQueue("t", "broker-a", 1): 7}
    hold = calls.hold("a scan", queues, seconds=60)
    assert [part.queues for part in hold.parts] == [(("t", 0, 5), ("t", 1, 7))]
    assert calls.renew(hold, seconds=60) == hold

    brokers[0].stop()
    brokers[0].start()
    again = calls.renew(hold, seconds=60)
    assert again.parts[0].queues == hold.parts[0].queues
    assert again.parts[0].hold_id != hold.parts[0].hold_id, "the broker had forgotten it"
    with Admin(namesrv) as admin:
        (held,) = admin.broker_statistics()["retention_holds"]
        assert (held["owner"], held["queues"]) == ("a scan", 2)
        calls.release(again)
        assert admin.broker_statistics()["retention_holds"] == []

    with pytest.raises(TopicNotFound):
        calls.hold("a scan", {MessageQueue("nowhere", "broker-a", 0): 0}, seconds=1)
    impatient = PipelineCalls(calls._connection, timeout_ms=300)
    with pytest.raises(NoRoute, match="broker-z has no master"):
        impatient.hold("a scan", {MessageQueue("t", "broker-z", 0): 0}, seconds=1)
    brokers[0].stop()
    impatient.release(again)  # nobody to tell: it ends by itself
