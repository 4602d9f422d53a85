"""Leases against retention: what is held, for how long, and how much of it there may be."""

from __future__ import annotations

import pytest

from zenitmq.broker.state.retention_holds import HOLDS_MAX, LEASE_MS_MAX, QUEUES_MAX, SHARE, RetentionHolds
from zenitmq.model.errors import HoldNotFound, InvalidParameter, TooManyHolds


def lowest(holds: RetentionHolds) -> dict[tuple[str, int], int | None]:
    """What is held of each queue."""
    return {(topic, queue_id): holds.first(topic, queue_id) for topic, queue_id, _ in holds.since(None)}


def test_what_was_taken_since_is_told() -> None:
    holds = RetentionHolds()
    holds.take(0, "a", "scan", [("t", 0, 50), ("t", 1, 7)], 1000)
    mark = holds.revision
    assert list(holds.since(mark)) == []
    holds.renew(10, "a", 1000)
    assert holds.revision == mark
    holds.take(20, "b", "scan", [("t", 0, 20)], 2000)
    assert list(holds.since(mark)) == [("t", 0, 20)]
    holds.lapse(5000)
    assert list(holds.since(None)) == []
    assert holds.first("t", 0) is None


def test_the_lowest_offset_of_all_holds_counts() -> None:
    holds = RetentionHolds()
    assert lowest(holds) == {}
    holds.take(0, "a", "scan", [("t", 0, 50), ("t", 1, 7)], 1000)
    holds.take(0, "b", "scan", [("t", 0, 20), ("u", 0, 0)], 2000)
    assert lowest(holds) == {("t", 0): 20, ("t", 1): 7, ("u", 0): 0}
    holds.release("b")
    holds.release("b")
    assert lowest(holds) == {("t", 0): 50, ("t", 1): 7}
    holds.clear()
    assert lowest(holds) == {}


def test_a_lease_ends_by_itself_and_a_renewed_one_later() -> None:
    holds = RetentionHolds()
    holds.take(0, "a", "scan", [("t", 0, 1)], 1000)
    holds.take(0, "b", "scan", [("t", 1, 1)], 1000)
    holds.renew(999, "a", 500)
    assert [hold.hold_id for hold in holds.lapse(1000)] == ["b"]
    assert holds.lapse(1498) == []
    with pytest.raises(HoldNotFound):
        holds.renew(1499, "a", 500)
    assert lowest(holds) == {}
    with pytest.raises(HoldNotFound):
        holds.renew(0, "never taken", 500)


def test_what_is_shown_of_them() -> None:
    holds = RetentionHolds()
    holds.take(0, "late", "archive", [("u", 0, 1), ("t", 0, 1), ("t", 1, 1)], 9000)
    holds.take(0, "soon", "scan", [("t", 0, 1)], 1000)
    assert holds.document(1500) == [
        {"hold_id": "soon", "owner": "scan", "queues": 1, "topics": ["t"], "ends_in_seconds": 0.0},
        {"hold_id": "late", "owner": "archive", "queues": 3, "topics": ["t", "u"], "ends_in_seconds": 7.5},
    ]


@pytest.mark.parametrize(
    ("owner", "queues", "lease_ms", "name"),
    [
        ("", [("t", 0, 1)], 1000, "owner"),
        ("line\nbreak", [("t", 0, 1)], 1000, "owner"),
        ("x" * 256, [("t", 0, 1)], 1000, "owner"),
        ("scan", [], 1000, "queues"),
        ("scan", [("t", 0, 1), ("t", 1, -1)], 1000, "offset"),
        ("scan", [("t", 0, 1)], 0, "lease_ms"),
        ("scan", [("t", 0, 1)], LEASE_MS_MAX + 1, "lease_ms"),
    ],
)
def test_what_makes_no_sense_is_refused_and_holds_nothing(owner: str, queues: list, lease_ms: int, name: str) -> None:
    holds = RetentionHolds()
    with pytest.raises(InvalidParameter) as refused:
        holds.take(0, "a", owner, queues, lease_ms)
    assert refused.value.name == name
    assert lowest(holds) == {}
    if name == "lease_ms":
        with pytest.raises(InvalidParameter):
            holds.renew(0, "a", lease_ms)


def test_how_many_there_may_be() -> None:
    holds = RetentionHolds()
    for number in range(HOLDS_MAX):
        holds.take(0, str(number), "scan", [("t", 0, 1)], 1000)
    with pytest.raises(TooManyHolds):
        holds.take(999, "one more", "scan", [("t", 0, 1)], 1000)
    holds.take(1000, "when the others are over", "scan", [("t", 0, 1)], 1000)
    with pytest.raises(TooManyHolds, match=str(QUEUES_MAX)):
        holds.take(1000, "wide", "scan", [("t", number, 0) for number in range(QUEUES_MAX)], 1000)
    assert lowest(holds) == {("t", 0): 1}


def test_a_user_has_a_share_and_nobody_elses_holds() -> None:
    holds = RetentionHolds()
    for number in range(HOLDS_MAX // SHARE):
        holds.take(0, str(number), "scan", [("t", 0, 1)], 1000, user="app")
    with pytest.raises(TooManyHolds, match="holds of user app"):
        holds.take(0, "one more", "scan", [("t", 0, 1)], 1000, user="app")
    wide = [("t", number, 0) for number in range(QUEUES_MAX // SHARE)]
    with pytest.raises(TooManyHolds, match="held queues of user else"):
        holds.take(0, "wide", "scan", [*wide, ("u", 0, 0)], 1000, user="else")
    holds.take(0, "elses", "scan", wide, 1000, user="else")
    for user in ("app", ""):
        with pytest.raises(HoldNotFound):
            holds.renew(0, "elses", 1000, user=user)
    assert holds.renew(0, "elses", 1000, user="else").owner == "scan"
