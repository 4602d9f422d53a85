"""Queue locks at a real broker: what is answered, what is fenced, what a restart keeps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import GroupNotFound, InvalidParameter, QueueNotOwned
from zenitmq.remoting import commands

SHORT = 400  # ms, a lease


@pytest.fixture
def broker(serve: Callable[..., Any]) -> Any:
    served = serve(queue_lock_lease_ms=SHORT)
    served.create("trades", queues=4)
    served.call(commands.CreateGroup("g"))
    return served


def lock(broker: Any, client: str, *queue_ids: int, **other: Any) -> list[int]:
    queues = tuple(("trades", queue_id) for queue_id in queue_ids)
    reply, _ = broker.call(commands.LockQueues("g", client, queues, **other))
    assert reply.lease_ms == broker.config.queue_lock_lease_ms
    return [queue_id for _, queue_id in reply.queues]


def commit(broker: Any, client: str, queue_id: int, offset: int) -> None:
    broker.call(commands.UpdateConsumerOffsets("g", (("trades", queue_id, offset),), client))


def committed(broker: Any, queue_id: int) -> int:
    reply, _ = broker.call(commands.QueryConsumerOffset("g", "trades", queue_id))
    offset: int = reply.offset
    return offset


def owners(broker: Any) -> list[str | None]:
    rows = broker.ask(commands.GetConsumeStatistics("g"))["queues"]
    return [row["owner"] for row in rows if row["topic"] == "trades"]


def wait_until(check: Callable[[], bool], timeout_ms: int = 5_000) -> None:
    deadline_ms = monotonic_ms() + timeout_ms
    while not check():
        assert monotonic_ms() < deadline_ms
        threading.Event().wait(0.02)


def test_a_queue_has_one_owner_until_that_one_unlocks(broker: Any) -> None:
    assert lock(broker, "a", 0, 1) == [0, 1]
    assert lock(broker, "b", 0, 1, 2) == [2]
    commit(broker, "a", 0, 0)
    assert owners(broker) == ["a", "a", "b", None]
    broker.call(commands.UnlockQueues("g", "a", (("trades", 0), ("trades", 2))))
    assert lock(broker, "b", 0, 1) == [0]
    assert owners(broker) == ["b", "a", "b", None]


def test_queues_that_are_none_are_left_out(broker: Any) -> None:
    queues = (("trades", 0), ("trades", 4), ("trades", -1), ("nothing", 0))
    reply, _ = broker.call(commands.LockQueues("g", "a", queues))
    assert reply.queues == (("trades", 0),)


def test_a_silent_owner_keeps_its_queue_for_one_lease_and_is_fenced_then(broker: Any) -> None:
    begun_ms = monotonic_ms()
    assert lock(broker, "a", 0) == [0]
    commit(broker, "a", 0, 0)
    wait_until(lambda: lock(broker, "b", 0) == [0])
    assert monotonic_ms() - begun_ms >= SHORT
    with pytest.raises(QueueNotOwned) as caught:
        commit(broker, "a", 0, 0)
    assert (caught.value.group, caught.value.topic, caught.value.queue_id) == ("g", "trades", 0)
    assert lock(broker, "a", 0, renews=True) == []
    commit(broker, "b", 0, 0)


def test_an_owner_that_renews_keeps_its_queue(broker: Any) -> None:
    assert lock(broker, "a", 0) == [0]
    until_ms = monotonic_ms() + 3 * SHORT
    while monotonic_ms() < until_ms:
        assert lock(broker, "a", 0, renews=True) == [0]
        assert lock(broker, "b", 0) == []
        threading.Event().wait(SHORT / 1000 / 4)


def test_a_lapsed_lock_is_nobodys_soon(broker: Any) -> None:
    assert lock(broker, "a", 0) == [0]
    commit(broker, "a", 0, 0)
    wait_until(lambda: owners(broker)[0] is None)
    with pytest.raises(QueueNotOwned):
        commit(broker, "a", 0, 0)


def test_a_client_that_says_goodbye_frees_its_queues_at_once(serve: Callable[..., Any]) -> None:
    broker = serve()
    broker.create("trades", queues=2)
    broker.call(commands.Heartbeat("a", consumers=(("g", "CLUSTERING", ()),)))
    assert lock(broker, "a", 0) == [0]
    broker.call(commands.UnregisterClient("a"))
    assert lock(broker, "b", 0) == [0]


def test_a_restart_keeps_a_queue_for_its_recorded_owner(serve: Callable[..., Any]) -> None:
    broker = serve()
    broker.create("trades", queues=2)
    broker.call(commands.CreateGroup("g"))
    assert lock(broker, "a", 0, 1) == [0, 1]
    broker.call(commands.UnlockQueues("g", "a", (("trades", 1),)))
    for _ in range(2):  # from the log, then from the snapshot
        broker.restart()
        assert lock(broker, "b", 0) == []
        assert lock(broker, "a", 0, renews=True) == [0]
        commit(broker, "a", 0, 0)
    assert lock(broker, "b", 1) == [1]


def test_who_has_no_lock_commits_as_ever_without_a_name_and_never_with_one(broker: Any) -> None:
    commit(broker, "", 0, 3)
    with pytest.raises(QueueNotOwned):
        commit(broker, "a", 0, 4)
    assert committed(broker, 0) == 3


def test_deleting_a_topic_frees_its_queues(broker: Any) -> None:
    assert lock(broker, "a", 0) == [0]
    broker.call(commands.DeleteTopic("trades"))
    broker.create("trades", queues=4)
    assert lock(broker, "b", 0) == [0]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (commands.LockQueues("g", "", (("trades", 0),)), InvalidParameter),
        (commands.LockQueues("g", "x" * 256, (("trades", 0),)), InvalidParameter),
        (commands.LockQueues("nobody", "a", (("trades", 0),)), GroupNotFound),
        (commands.UnlockQueues("nobody", "a", (("trades", 0),)), GroupNotFound),
        (commands.LockQueues("g", "a", (("trades", 0),) * 65_537), InvalidParameter),
    ],
)
def test_what_is_wrong_with_a_request_is_told(broker: Any, request_: commands.Request, error: type) -> None:
    with pytest.raises(error):
        broker.call(request_)
    assert lock(broker, "b", 0) == [0]
