"""`zenit group describe`, `reset-offset` and `skip-backlog` on a group that pops."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from client_kit import remoting_of

from zenitmq import Admin, LeaseExpired, Message, Producer, aio
from zenitmq.remoting import commands
from zenitmq.testing import LocalCluster

ZENIT = str(Path(sys.executable).with_name("zenit"))


def zenit(cluster: LocalCluster, *arguments: str) -> str:
    command = [ZENIT, *arguments, "--namesrv", cluster.namesrv]
    return subprocess.run(command, env=cluster.environ, check=True, capture_output=True, text=True, timeout=60).stdout


def pop(cluster: LocalCluster, count: int) -> list[tuple[int, int, str, tuple[int, ...]]]:
    with Admin(cluster.namesrv) as admin, remoting_of(cluster.namesrv) as client:
        (broker,) = admin.cluster()["brokers"]
        request = commands.PopMessages("poppers", "popped", count, 30_000, wait_ms=5_000)
        return list(client.call(broker["address"], request, timeout_ms=10_000)[0].parts)


def ack(cluster: LocalCluster, handle: str, bits: int) -> int:
    with Admin(cluster.namesrv) as admin, remoting_of(cluster.namesrv) as client:
        (broker,) = admin.cluster()["brokers"]
        request = commands.AckMessages("poppers", "popped", ((handle, bits),))
        ((code, _),) = client.call(broker["address"], request, timeout_ms=10_000)[0].rows
        return int(code)


def leases(cluster: LocalCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(zenit(cluster, "group", "describe", "poppers", "--json"))["leases"]
    return found


def test_what_a_pop_group_holds_is_shown_and_a_reset_takes_it_back(one_broker: LocalCluster) -> None:
    zenit(one_broker, "topic", "create", "popped", "--queues", "1")
    with Producer(namesrv=one_broker.namesrv) as producer:
        producer.send_batch([Message("popped", b"%d" % number) for number in range(6)])
    ((_, _, handle, _),) = pop(one_broker, 4)
    assert ack(one_broker, handle, 0b0101) == 0
    (row,) = leases(one_broker)
    assert 0 <= row.pop("oldest_lease_ms") < 60_000
    assert row == {
        "topic": "popped",
        "broker_name": "broker-a",
        "queue_id": 0,
        "next_offset": 4,
        "first_unacknowledged": 1,
        "leased": 2,
        "available": 0,
        "attempts_max": 1,
    }
    lines = zenit(one_broker, "group", "describe", "poppers").splitlines()
    assert lines[-2].split()[-4:] == ["leased", "available", "oldest_lease_seconds", "attempts_max"]

    async def ask() -> list[dict[str, Any]]:
        async with aio.Admin(one_broker.namesrv) as admin:
            return await admin.leases("poppers")

    assert [row["leased"] for row in asyncio.run(ask())] == [2]

    zenit(one_broker, "group", "reset-offset", "poppers", "--topic", "popped", "--to", "earliest")
    assert ack(one_broker, handle, 0b0010) == LeaseExpired.code
    (row,) = leases(one_broker)
    assert (row["next_offset"], row["first_unacknowledged"], row["leased"], row["oldest_lease_ms"]) == (0, 0, 0, None)
    ((_, count, handle, _),) = pop(one_broker, 32)
    assert count == 6
    zenit(one_broker, "group", "skip-backlog", "poppers", "--topic", "popped")
    assert ack(one_broker, handle, 1) == LeaseExpired.code
    assert json.loads(zenit(one_broker, "group", "describe", "poppers", "--json"))["lag"] == 0
