"""What brokers say of members who disagree becomes one list."""

from __future__ import annotations

from typing import Any

from zenitmq.cli.commands.group import conflict_lines
from zenitmq.client.administration.admin_merge import merge_conflicts, merge_group


def conflict(topic: str, *wants: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"topic": topic, "subscriptions": [{"kind": k, "expression": e, "members": m} for k, e, m in wants]}


def test_members_who_want_the_same_are_told_together() -> None:
    first = conflict("t", ("TAG", "a", ["m1"]), ("SQL92", "n > 1", ["m2"]))
    second = conflict("t", ("SQL92", "n > 1", ["m3"]), ("TAG", "b", ["m4"]))
    third = conflict("s", ("TAG", "a", ["m1"]), ("TAG", "b", ["m2"]))
    assert merge_conflicts([{"conflicts": [first]}, {}, {"conflicts": [second, third]}]) == [
        third,
        conflict("t", ("TAG", "a", ["m1"]), ("SQL92", "n > 1", ["m2", "m3"]), ("TAG", "b", ["m4"])),
    ]


def test_a_group_shows_them() -> None:
    documents = {"a": {"members": ["m1"], "queues": [], "conflicts": []}}
    assert merge_group("g", documents)["conflicts"] == []


def test_people_read_who_wants_what() -> None:
    first = conflict("t", ("TAG", "a || b", ["m1", "m2"]), ("TAG", "b", ["m4"]))
    heading, *wants = conflict_lines([first])
    assert "topic t" in heading
    assert wants == ["  TAG a || b: m1, m2", "  TAG b: m4"]
    assert conflict_lines([]) == []
