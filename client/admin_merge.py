"""Putting the brokers' answers about one thing together. Pure: documents in, one document out (shapes: docs of `--json`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..model.queue import MessageQueue
from .allocation import averaging

Document = dict[str, Any]


def merge_topics(documents: Iterable[Document]) -> list[Document]:
    """Topic settings of all brokers, by name; queue counts are the largest of any broker."""
    merged: dict[str, Document] = {}
    for document in documents:
        for topic in document["topics"]:
            known = merged.setdefault(topic["name"], dict(topic))
            for count in ("read_queues", "write_queues"):
                known[count] = max(known[count], topic[count])
    return [merged[name] for name in sorted(merged)]


def merge_topic_queues(topic: str, documents: Mapping[str, Document]) -> Document:
    """{topic, queues: [{broker_name, queue_id, ...}]} out of {broker name: its statistics of the topic}."""
    rows = [
        {"broker_name": broker_name, **row}
        for broker_name, document in sorted(documents.items())
        for row in document["queues"]
    ]
    return {"topic": topic, "queues": rows}


def merge_groups(documents: Iterable[Document]) -> list[Document]:
    """Groups of all brokers by name, with all members and topics that any broker tells of."""
    merged: dict[str, Document] = {}
    for document in documents:
        for group in document["groups"]:
            known = merged.setdefault(group["name"], {**group, "members": [], "topics": []})
            for names in ("members", "topics"):
                known[names] = sorted({*known[names], *group[names]})
    return [merged[name] for name in sorted(merged)]


def merge_group(group: str, documents: Mapping[str, Document]) -> Document:
    """The shape of `group describe`: {group, members, lag, queues, conflicts} out of {broker name: its statistics}.

    `owner` is who has a queue by the averaging strategy, where the broker does not tell: None without members. `lag` is
    None where that of any queue is unknown.
    """
    members = sorted({member for document in documents.values() for member in document["members"]})
    rows = [
        {"topic": row["topic"], "broker_name": broker_name, **row}
        for broker_name, document in sorted(documents.items())
        for row in document["queues"]
    ]
    rows.sort(key=lambda row: (row["topic"], row["broker_name"], row["queue_id"]))
    owners = _owners(members, [MessageQueue(row["topic"], row["broker_name"], row["queue_id"]) for row in rows])
    for row in rows:
        queue = MessageQueue(row["topic"], row["broker_name"], row["queue_id"])
        row["owner"] = row.get("owner") or owners.get(queue)
    conflicts = merge_conflicts(documents.values())
    lags = [row["lag"] for row in rows]
    lag = None if None in lags else sum(lags)
    return {"group": group, "members": members, "lag": lag, "queues": rows, "conflicts": conflicts}


def merge_conflicts(documents: Iterable[Document]) -> list[Document]:
    """[{topic, subscriptions: [{kind, expression, members}]}]: of which topics the group's members want different things."""
    merged: dict[str, dict[tuple[str | None, str | None], set[str]]] = {}
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


def _owners(members: list[str], queues: list[MessageQueue]) -> dict[MessageQueue, str]:
    owners = {}
    for topic in {queue.topic for queue in queues}:
        of_topic = [queue for queue in queues if queue.topic == topic]
        for member in members:
            owners.update(dict.fromkeys(averaging(member, members, of_topic), member))
    return owners


def merge_resets(documents: Mapping[str, Document]) -> list[Document]:
    """[{topic, broker_name, queue_id, from, to}] out of {broker name: what it changed}."""
    return [
        {"topic": row["topic"], "broker_name": broker_name, **row}
        for broker_name, document in sorted(documents.items())
        for row in document["queues"]
    ]
