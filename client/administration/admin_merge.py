"""Combines the brokers' answers about one thing into one document (shapes: docs of `--json`). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...model.queue import MessageQueue
from ..consuming.allocation import ALLOCATIONS

Document = dict[str, Any]


def merge_topics(documents: Iterable[Document]) -> list[Document]:
    """The topic settings of all brokers, by name; queue counts are the largest of any broker."""
    merged: dict[str, Document] = {}
    for document in documents:
        for topic in document["topics"]:
            known = merged.setdefault(topic["name"], dict(topic))
            for count in ("read_queues", "write_queues"):
                known[count] = max(known[count], topic[count])
    return [merged[name] for name in sorted(merged)]


def merge_topic_queues(topic: str, documents: Mapping[str, Document]) -> Document:
    """{topic, queues: [{broker_name, queue_id, ...}]} from {broker name: its statistics of the topic}."""
    rows = [
        {"broker_name": broker_name, **row, "incarnation": document.get("incarnation")}
        for broker_name, document in sorted(documents.items())
        for row in document["queues"]
    ]
    return {"topic": topic, "queues": rows}


def merge_groups(documents: Iterable[Document]) -> list[Document]:
    """The groups of all brokers by name, with all members and topics that any broker reports."""
    merged: dict[str, Document] = {}
    for document in documents:
        for group in document["groups"]:
            known = merged.setdefault(group["name"], {**group, "members": [], "topics": []})
            for names in ("members", "topics"):
                known[names] = sorted({*known[names], *group[names]})
    return [merged[name] for name in sorted(merged)]


def merge_group(group: str, documents: Mapping[str, Document]) -> Document:
    """The shape of `group describe`: {group, members, lag, queues, conflicts} from {broker name: its statistics}.

    `owner`: the member that has locked the queue, else the one to which the allocation gives it. None if the members
    report no allocation, different ones, or one that we do not know. `lag` is None if that of any queue is unknown.
    """
    members = sorted({member for document in documents.values() for member in document["members"]})
    rows = [
        {"topic": row["topic"], "broker_name": broker_name, **row}
        for broker_name, document in sorted(documents.items())
        for row in document["queues"]
    ]
    rows.sort(key=lambda row: (row["topic"], row["broker_name"], row["queue_id"]))
    queues = [MessageQueue(row["topic"], row["broker_name"], row["queue_id"]) for row in rows]
    owners = _owners([document.get("sharing", {}) for document in documents.values()], queues)
    for row in rows:
        queue = MessageQueue(row["topic"], row["broker_name"], row["queue_id"])
        row["owner"] = row.get("owner") or owners.get(queue)
    conflicts = merge_conflicts(documents.values())
    lags = [row["lag"] for row in rows]
    lag = None if None in lags else sum(lags)
    return {"group": group, "members": members, "lag": lag, "queues": rows, "conflicts": conflicts}


def merge_conflicts(documents: Iterable[Document]) -> list[Document]:
    """[{topic, subscriptions: [{kind, expression, members}]}]: topics to which the group's members subscribe differently."""
    merged: dict[str, dict[tuple[str, str], set[str]]] = {}
    for document in documents:
        for conflict in document.get("conflicts", []):
            wants = merged.setdefault(conflict["topic"], {})
            for want in conflict["subscriptions"]:
                wants.setdefault((want["kind"], want["expression"]), set()).update(want["members"])
    return [
        {
            "topic": topic,
            "subscriptions": [
                {"kind": kind, "expression": expression, "members": sorted(members)}
                for (kind, expression), members in wants.items()
            ],
        }
        for topic, wants in sorted(merged.items())
    ]


def merge_clients(group: str, documents: Iterable[Document]) -> Document:
    """{group, clients: [...]} by client id: each as reported by the broker that heard of it last."""
    merged: dict[str, Document] = {}
    for document in documents:
        for client in document["clients"]:
            known = merged.setdefault(client["client_id"], client)
            if client["silent_ms"] < known["silent_ms"]:
                merged[client["client_id"]] = client
    return {"group": group, "clients": [merged[client_id] for client_id in sorted(merged)]}


def _owners(sharing: list[Document], queues: list[MessageQueue]) -> dict[MessageQueue, str]:
    owners: dict[MessageQueue, str] = {}
    for topic in {queue.topic for queue in queues}:
        told = [document[topic] for document in sharing if topic in document]
        members = sorted({member for each in told for member in each["members"]})
        names = {each["allocation"] for each in told if each["members"]}
        allocation = ALLOCATIONS.get(names.pop() or "") if len(names) == 1 else None
        if allocation is not None:
            of_topic = [queue for queue in queues if queue.topic == topic]
            for member in members:
                owners.update(dict.fromkeys(allocation(member, members, of_topic), member))
    return owners


def merge_leases(documents: Mapping[str, Document]) -> list[Document]:
    """[{topic, broker_name, queue_id, ...}] from {broker name: what a pop group holds there}, sorted."""
    rows = [
        {"topic": row["topic"], "broker_name": broker_name, **row}
        for broker_name, document in documents.items()
        for row in document["queues"]
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["broker_name"], row["queue_id"]))


def merge_resets(documents: Mapping[str, Document]) -> list[Document]:
    """[{topic, broker_name, queue_id, from, to}] from {broker name: what it changed}."""
    return [
        {"topic": row["topic"], "broker_name": broker_name, **row}
        for broker_name, document in sorted(documents.items())
        for row in document["queues"]
    ]
