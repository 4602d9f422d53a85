"""Who is in a group, at a real broker: what members tell of themselves, two of one id, and what a young broker knows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.model.errors import DuplicateClient, GroupNotFound, InvalidParameter
from zenitmq.remoting import commands
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetConsumerList, GetConsumeStatistics, GetGroupClients, Heartbeat

TAKES_PART = (("g", "CLUSTERING", (("trades", "TAG", "*"),)),)


def beat(broker: Any, client_id: str, consumers: Any = TAKES_PART, **info: Any) -> None:
    broker.call(Heartbeat(client_id, consumers=consumers, **info))


def sharers(broker: Any, topic: str) -> tuple[str, ...]:
    reply, _ = broker.call(GetConsumerList("g", topic))
    client_ids: tuple[str, ...] = reply.client_ids
    return client_ids


def test_members_share_out_the_topics_that_they_subscribe_to(broker: Any) -> None:
    beat(broker, "a")
    beat(broker, "b", (("g", "CLUSTERING", (("orders", "TAG", "*"),)),))
    beat(broker, "c", (("g", "BROADCASTING", (("trades", "TAG", "*"),)),))
    assert sharers(broker, "trades") == ("a",)
    assert sharers(broker, "orders") == ("b",)
    assert sharers(broker, "") == ("a", "b", "c")


def test_members_tell_of_themselves(broker: Any) -> None:
    broker.create("trades")
    beat(broker, "a", language="PYTHON", version="1", host="h", pid=7, started_at_ms=5, allocation="averaging")
    (client,) = broker.ask(GetGroupClients("g"))["clients"]
    assert 0 <= client.pop("silent_ms") < 10_000
    assert client == {
        "client_id": "a",
        "model": "CLUSTERING",
        "language": "PYTHON",
        "version": "1",
        "host": "h",
        "pid": 7,
        "started_at_ms": 5,
        "allocation": "averaging",
        "subscriptions": [["trades", "TAG", "*"]],
    }
    sharing = broker.ask(GetConsumeStatistics("g"))["sharing"]
    assert sharing == {"trades": {"members": ["a"], "allocation": "averaging"}}
    with pytest.raises(GroupNotFound):
        broker.ask(GetGroupClients("nobody"))


def test_the_second_process_of_an_id_is_refused_and_cannot_send_the_first_away(broker: Any) -> None:
    beat(broker, "a", host="one", pid=1, started_at_ms=5)
    with pytest.raises(DuplicateClient, match="process 1 on 'one'"):
        beat(broker, "a", host="two", pid=1, started_at_ms=6)
    broker.call(commands.UnregisterClient("a", 1, 6))
    assert sharers(broker, "trades") == ("a",)
    broker.call(commands.UnregisterClient("a", 1, 5))
    assert sharers(broker, "trades") == ()
    beat(broker, "a", host="two", pid=1, started_at_ms=6)


def test_a_list_is_settled_once_everybody_has_had_the_time_to_report(serve: Callable[..., Any]) -> None:
    broker = serve(heartbeat_ms=300)
    reply, _ = broker.call(GetConsumerList("g", "trades"))
    assert not reply.settled
    for _ in range(200):
        reply, _ = broker.call(GetConsumerList("g", "trades"))
        if reply.settled:
            return
        threading.Event().wait(0.02)
    pytest.fail("never settled")


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "h" * 256},
        {"language": "l" * 256},
        {"version": "v" * 256},
        {"allocation": "a" * 256},
        {"pid": -1},
        {"started_at_ms": (1 << 62) + 1},
    ],
)
def test_what_a_client_tells_of_itself_is_bounded(broker: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        beat(broker, "a", **wrong)
    assert sharers(broker, "trades") == ()


def test_a_commit_that_goes_forward_only_takes_nobody_back(broker: Any, record: Callable[..., bytes]) -> None:
    broker.create("trades")
    broker.send("trades", *(record("trades", b"%d" % number) for number in range(6)))

    def commit(offset: int, *, forward_only: bool) -> int:
        broker.call(commands.UpdateConsumerOffsets("g", (("trades", 0, offset),), "", forward_only))
        reply, _ = broker.call(commands.QueryConsumerOffset("g", "trades", 0))
        committed: int = reply.offset
        return committed

    assert commit(5, forward_only=True) == 5
    assert commit(3, forward_only=True) == 5
    assert commit(3, forward_only=False) == 3
    assert commit(900, forward_only=False) == 900
    assert commit(4, forward_only=True) == 4  # nobody has consumed what is not there


def test_no_commit_of_an_era_before_undoes_a_reset(broker: Any, record: Callable[..., bytes]) -> None:
    broker.create("trades")
    broker.send("trades", *(record("trades", b"%d" % number) for number in range(6)))

    def commit(offset: int, era: int) -> tuple[tuple[tuple[str, int], ...], int]:
        rows = (("trades", 0, offset), ("trades", 1, 0))
        reply, _ = broker.call(commands.UpdateConsumerOffsets("g", rows, "", True, (), (era, 0)))
        committed, _ = broker.call(commands.QueryConsumerOffset("g", "trades", 0))
        return reply.moved, committed.offset

    assert commit(5, 0) == ((), 5)
    broker.ask(commands.ResetOffsets("g", "trades", "offset", 1, queue_id=0))
    assert commit(6, 0) == ((("trades", 0),), 1)
    begin, _ = broker.call(commands.GetBeginOffsets("g", "trades", (0, 1)))
    assert begin.offsets[0][0] == 1
    assert begin.eras[1] == 0 < begin.eras[0]
    broker.restart()
    assert commit(6, 0) == ((("trades", 0),), 1)
    assert commit(2, begin.eras[0]) == ((), 2)
    with pytest.raises(InvalidParameter):
        broker.call(commands.UpdateConsumerOffsets("g", (("trades", 0, 1),), "", True, (), (1, 2)))


def test_clients_are_kept_by_the_connection_that_told_of_them(serve: Callable[..., Any]) -> None:
    broker = serve(heartbeat_ms=300)
    for name in ("a", "b"):
        beat(broker, name, host="h", pid=1, started_at_ms=5)
    with RemotingClient() as other:
        reply, _ = other.call(broker.address, commands.KeepClients(("a",)), timeout_ms=5_000)
        assert reply.unknown == ("a",)
    for _ in range(20):
        reply, _ = broker.call(commands.KeepClients(("a", "nobody")))
        assert (reply.heartbeat_ms, reply.unknown) == (300, ("nobody",))
        if sharers(broker, "trades") == ("a",):  # nobody spoke for b
            break
        threading.Event().wait(0.1)
    assert sharers(broker, "trades") == ("a",)
    with pytest.raises(InvalidParameter, match="at most 1000"):
        broker.call(commands.KeepClients(("a",) * 1001))
