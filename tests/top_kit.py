"""Answers of a cluster, as `Admin` gives them."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def cluster(*brokers: Document) -> Document:
    return {"clusters": {}, "brokers": list(brokers)}


def broker(address: str, name: str = "broker-a", broker_id: int = 0) -> Document:
    return {"cluster": "zenit", "broker_name": name, "broker_id": broker_id, "address": address}


def statistics(
    *, sent: int = 0, pulled: int = 0, popped: int = 0, started_at_ms: int = 1, end: int = 1000, **more: Any
) -> Document:
    store = {
        "begin_offset": 400,
        "written_offset": end,
        "disk_use": 0.25,
        "refuses_writes": None,
        "deletes_early": None,
    }
    return {
        "started_at_ms": started_at_ms,
        "epoch": 1,
        "positions": {"written_offset": end},
        "sends": {"messages": sent, "bytes": sent * 10},
        "pulls": {"messages": pulled, "bytes": pulled * 10},
        "pops": {"messages": popped},
        "lite_pops": {"messages": 0},
        "store": store,
        **more,
    }


def replica(role: str, name: str, *, epoch: int = 2, in_sync: list[str] | None = None, halted: str = "") -> Document:
    return {"role": role, "replica": name, "epoch": epoch, "in_sync": in_sync, "halted": halted}


def topic(name: str, *ends: int, incarnation: int = 1) -> Document:
    queues = [
        {"broker_name": "broker-a", "queue_id": queue_id, "max_offset": end, "incarnation": incarnation}
        for queue_id, end in enumerate(ends)
    ]
    return {"topic": name, "queues": queues}


def group(
    name: str,
    end: int,
    committed: int | None,
    *,
    lag_seconds: float | None = 0.0,
    of_topic: str = "t",
    incarnation: int = 1,
) -> Document:
    lag = None if committed is None else end - committed
    row = {"topic": of_topic, "broker_name": "broker-a", "queue_id": 0, "broker_queue_offset": end, "lag": lag}
    row |= {"consumer_queue_offset": committed, "lag_seconds": lag_seconds, "incarnation": incarnation}
    return {"group": name, "members": ["m"], "lag": lag, "queues": [row]}


def event(second: int, name: str = "elected", level: str = "info") -> Document:
    return {"ts": f"2026-11-26T20:00:{second:02}.000Z", "level": level, "role": "broker", "node": "a", "event": name}
