"""What several brokers tell about one group, put together."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.client.administration.admin_merge import merge_clients, merge_group


def row(queue_id: int, owner: str | None = None, topic: str = "t") -> dict[str, Any]:
    return {"topic": topic, "queue_id": queue_id, "lag": 1, "owner": owner}


def told(rows: list[dict[str, Any]], members: list[str], allocation: str | None, topic: str = "t") -> dict[str, Any]:
    sharing = {topic: {"members": members, "allocation": allocation}}
    return {"members": members, "queues": rows, "sharing": sharing}


def owners(*documents: dict[str, Any]) -> list[str | None]:
    merged = merge_group("g", {f"broker-{number}": document for number, document in enumerate(documents)})
    return [each["owner"] for each in merged["queues"]]


def test_owners_follow_from_the_allocation_that_all_members_name() -> None:
    first, second = [row(0), row(1)], [row(0), row(1)]
    assert owners(told(first, ["a", "b"], "averaging"), told(second, ["a", "b"], "averaging")) == ["a", "a", "b", "b"]
    first, second = [row(0), row(1)], [row(0), row(1)]
    circle = "averaging_by_circle"
    assert owners(told(first, ["a", "b"], circle), told(second, ["a"], circle)) == ["a", "b", "a", "b"]


@pytest.mark.parametrize("names", [("custom", "custom"), (None, None), ("averaging", "consistent_hash")])
def test_owners_are_unknown_where_nobody_can_compute_them(names: tuple[str | None, str | None]) -> None:
    assert owners(told([row(0)], ["a"], names[0]), told([row(0)], ["a"], names[1])) == [None, None]


def test_a_lock_is_the_last_word() -> None:
    assert owners(told([row(0, "z"), row(1)], ["a"], "averaging")) == ["z", "a"]


def test_a_broker_that_no_member_has_reached_yet_has_no_say() -> None:
    assert owners(told([row(0)], ["a"], "averaging"), told([row(0)], [], None)) == ["a", "a"]


def test_owners_are_by_topic_and_an_older_broker_tells_none() -> None:
    both = told([row(0)], ["a"], "averaging")
    both["queues"].append(row(0, topic="u"))
    both["sharing"]["u"] = {"members": ["b"], "allocation": "averaging"}
    assert owners(both) == ["a", "b"]
    assert owners({"members": ["a"], "queues": [row(0)]}) == [None]


def test_clients_are_as_the_broker_tells_that_heard_of_them_last() -> None:
    def client(client_id: str, silent_ms: int) -> dict[str, Any]:
        return {"client_id": client_id, "silent_ms": silent_ms}

    documents = [
        {"clients": [client("b", 9), client("a", 5)]},
        {"clients": [client("b", 3)]},
        {"clients": [client("a", 7)]},
    ]
    assert merge_clients("g", documents) == {"group": "g", "clients": [client("a", 5), client("b", 3)]}
