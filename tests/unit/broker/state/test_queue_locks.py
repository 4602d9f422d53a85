"""Who has a queue, for how long, and what the log is told of it."""

from __future__ import annotations

import json

import pytest

from zenitmq.broker.state.queue_locks import EVENT_QUEUES_MAX, LockDecision, QueueLockTable
from zenitmq.model.errors import StoreFormatError

LEASE_MS = 60_000
ONE, TWO = ("trades", 0), ("trades", 1)
VERSION = {"counter": 1}


def carry_out(locks: QueueLockTable, decision: LockDecision, now_ms: int = 0) -> list[dict]:
    """What the shell does within a turn of the loop: stage, adopt; then the log tells."""
    events = list(decision.events())
    locks.adopt(decision, now_ms)
    for event in events:
        locks.on_event(json.loads(json.dumps(event)), VERSION)
    return events


def lock(locks: QueueLockTable, now_ms: int, client: str, *queues: tuple[str, int], renews: bool = False) -> list:
    decision = locks.lock(now_ms, "g", client, queues, renews=renews)
    carry_out(locks, decision, now_ms)
    return [queue for _, *queue in (*decision.kept, *decision.taken)]


def lapse(locks: QueueLockTable, now_ms: int) -> list[tuple[str, ...]]:
    decisions = locks.lapsed(now_ms)
    for decision in decisions:
        carry_out(locks, decision, now_ms)
    return [(decision.client_id, *decision.freed) for decision in decisions]


@pytest.fixture
def locks() -> QueueLockTable:
    return QueueLockTable(LEASE_MS)


def test_a_free_queue_is_taken_and_the_log_is_told(locks: QueueLockTable) -> None:
    decision = locks.lock(0, "g", "a", [ONE, TWO, ONE], renews=False)
    assert locks.owner("g", *ONE) is None, "nothing changes before it is adopted"
    assert carry_out(locks, decision) == [
        {"event": "locked", "group": "g", "client": "a", "queues": [["trades", 0], ["trades", 1]]}
    ]
    assert locks.owner("g", *ONE) == "a"
    assert locks.owner("other", *ONE) is None


def test_what_was_adopted_counts_before_the_log_has_it(locks: QueueLockTable) -> None:
    locks.adopt(locks.lock(0, "g", "a", [ONE], renews=False), 0)
    assert locks.owner("g", *ONE) == "a"
    assert locks.lock(0, "g", "b", [ONE], renews=False) == LockDecision("b")
    freed = locks.unlock("g", "a", [ONE])
    locks.adopt(freed, 0)
    assert locks.lock(0, "g", "b", [ONE], renews=False).taken == (("g", *ONE),)
    assert locks.lapsed(LEASE_MS) == []


def test_several_changes_in_one_turn_end_as_the_last_one_says(locks: QueueLockTable) -> None:
    events = []
    for decide in (
        lambda: locks.lock(0, "g", "a", [ONE], renews=False),
        lambda: locks.unlock("g", "a", [ONE]),
        lambda: locks.lock(0, "g", "b", [ONE], renews=False),
    ):
        decision = decide()
        events += decision.events()
        locks.adopt(decision, 0)
    for event in events:
        assert locks.owner("g", *ONE) == "b"
        locks.on_event(event, VERSION)
    assert locks.owner("g", *ONE) == "b"
    assert locks.document()["lockTable"] == {"g": {"trades": {"0": "b"}}}


def test_renewing_is_no_event(locks: QueueLockTable) -> None:
    assert lock(locks, 0, "a", ONE) == [[*ONE]]
    decision = locks.lock(20_000, "g", "a", [ONE], renews=True)
    assert list(decision.events()) == []
    locks.adopt(decision, 20_000)
    assert lapse(locks, 20_000 + LEASE_MS - 1) == []
    assert lapse(locks, 20_000 + LEASE_MS) == [("a", ("g", *ONE))]


def test_nobody_gets_the_queue_of_a_client_that_vanished_before_its_lease_is_over(locks: QueueLockTable) -> None:
    lock(locks, 0, "a", ONE)
    assert lock(locks, LEASE_MS - 1, "b", ONE) == []
    assert lock(locks, LEASE_MS, "b", ONE) == [[*ONE]]
    assert lock(locks, LEASE_MS, "a", ONE, renews=True) == []
    assert locks.first_not_of("g", "a", [ONE]) == ONE


def test_an_owner_whose_lease_was_over_is_fenced_although_nobody_else_came(locks: QueueLockTable) -> None:
    lock(locks, 0, "a", ONE)
    assert lock(locks, LEASE_MS, "a", ONE, renews=True) == [], "the tick has not freed it yet"
    assert lapse(locks, LEASE_MS) == [("a", ("g", *ONE))]
    assert locks.first_not_of("g", "a", [ONE]) == ONE
    assert lock(locks, LEASE_MS, "a", ONE, renews=True) == []
    assert lock(locks, LEASE_MS, "a", ONE) == [[*ONE]]
    assert locks.first_not_of("g", "a", [ONE]) is None


def test_who_locks_what_it_has_keeps_it_without_an_event(locks: QueueLockTable) -> None:
    lock(locks, 0, "a", ONE)
    decision = locks.lock(LEASE_MS + 5, "g", "a", [ONE], renews=False)
    assert (decision.kept, decision.taken) == ((("g", *ONE),), ())


def test_renewing_takes_nothing_new(locks: QueueLockTable) -> None:
    assert lock(locks, 0, "a", ONE, renews=True) == []
    lock(locks, 0, "b", ONE)
    assert lock(locks, LEASE_MS, "a", ONE, renews=True) == []


def test_unlocking_frees_at_once_and_only_ones_own(locks: QueueLockTable) -> None:
    lock(locks, 0, "a", ONE)
    lock(locks, 0, "b", TWO)
    assert carry_out(locks, locks.unlock("g", "a", [ONE, TWO, ("trades", 9)])) == [
        {"event": "unlocked", "group": "g", "client": "a", "queues": [["trades", 0]]}
    ]
    assert lock(locks, 1, "c", ONE, TWO) == [[*ONE]]


def test_a_client_that_leaves_frees_all_it_has_in_all_groups(locks: QueueLockTable) -> None:
    lock(locks, 0, "a", ONE, TWO)
    carry_out(locks, locks.lock(0, "h", "a", [ONE], renews=False))
    carry_out(locks, locks.lock(0, "h", "b", [TWO], renews=False))
    events = carry_out(locks, locks.leave("a"))
    assert [(event["group"], event["queues"]) for event in events] == [
        ("g", [["trades", 0], ["trades", 1]]),
        ("h", [["trades", 0]]),
    ]
    assert locks.leave("a") == LockDecision("a")
    assert locks.owner("h", *TWO) == "b"


def test_what_is_inherited_goes_to_its_recorded_owner_only_for_one_lease(locks: QueueLockTable) -> None:
    lock(locks, 0, "a", ONE)
    heir = QueueLockTable(LEASE_MS)
    heir.load(locks.document())
    assert lapse(heir, 1_000_000) == [], "its lease begins here"
    assert lock(heir, 1_000_000 + LEASE_MS - 1, "b", ONE) == []
    assert lock(heir, 1_000_000 + LEASE_MS - 1, "a", ONE, renews=True) == [[*ONE]]
    assert lock(heir, 1_000_000 + LEASE_MS, "b", ONE) == []
    assert lapse(heir, 1_000_000 + 2 * LEASE_MS - 1) == [("a", ("g", *ONE))]


def test_leases_are_counted_anew_by_who_leads_again(locks: QueueLockTable) -> None:
    lock(locks, 0, "a", ONE)
    locks.on_deposed()
    assert lock(locks, LEASE_MS, "b", ONE) == []
    assert lock(locks, 2 * LEASE_MS, "b", ONE) == [[*ONE]]


def test_deleted_topics_and_groups_have_no_owners(locks: QueueLockTable) -> None:
    lock(locks, 0, "a", ONE, ("orders", 0))
    carry_out(locks, locks.lock(0, "h", "a", [("orders", 0)], renews=False))
    locks.on_topic_deleted("trades")
    assert locks.owner("g", *ONE) is None
    assert lock(locks, 1, "b", ONE) == [[*ONE]]
    locks.on_group_deleted("g")
    assert locks.document()["lockTable"] == {"h": {"orders": {"0": "a"}}}


def test_large_decisions_become_events_of_bounded_size(locks: QueueLockTable) -> None:
    queues = [("trades", number) for number in range(EVENT_QUEUES_MAX + 1)]
    events = carry_out(locks, locks.lock(0, "g", "a", queues, renews=False))
    assert [len(event["queues"]) for event in events] == [EVENT_QUEUES_MAX, 1]
    assert locks.first_not_of("g", "a", queues) is None


def test_what_a_snapshot_holds_beside_the_table_is_kept(locks: QueueLockTable) -> None:
    locks.load({"other": 1, "lockTable": {"g": {"trades": {"3": "a"}}}})
    assert locks.owner("g", "trades", 3) == "a"
    assert locks.document() == {"other": 1, "lockTable": {"g": {"trades": {"3": "a"}}}}
    assert QueueLockTable().document() == {"lockTable": {}}


@pytest.mark.parametrize(
    "table", [[], {"g": []}, {"g": {"t": []}}, {"g": {"t": {"x": "a"}}}, {"g": {"t": {None: "a"}}}]
)
def test_a_snapshot_that_is_none_is_refused(locks: QueueLockTable, table: object) -> None:
    if table == []:
        locks.load({"lockTable": table})  # as good as nothing
        return
    with pytest.raises(StoreFormatError):
        locks.load({"lockTable": table})


@pytest.mark.parametrize(
    "event",
    [
        {"event": "stolen", "group": "g", "client": "a", "queues": []},
        {"event": "locked", "group": "g", "queues": []},
        {"event": "unlocked", "group": "g", "client": "a"},
    ],
)
def test_an_event_that_is_none_is_refused(locks: QueueLockTable, event: dict) -> None:
    with pytest.raises(StoreFormatError):
        locks.on_event(event, VERSION)


@pytest.mark.parametrize("queue", [None, 5, "ab", [], ["t"], ["t", 0, 1], ["t", "0"], [["t"], 0], ["t", None]])
@pytest.mark.parametrize("kind", ["locked", "unlocked"])
def test_an_event_with_a_queue_that_is_none_is_refused_whole(locks: QueueLockTable, kind: str, queue: object) -> None:
    before = locks.document()
    with pytest.raises(StoreFormatError):
        locks.on_event({"event": kind, "group": "g", "client": "c", "queues": [["t", 0], queue]}, {})
    assert locks.document() == before
