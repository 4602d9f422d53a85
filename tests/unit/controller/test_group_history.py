"""Histories of groups: written beside elections, one call at a time; what a dead controller did not write is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from sim.model_zookeeper import ModelStore, ModelZooKeeper
from store_kit import StillClock

from zenitmq.controller.group_history import WAITING_MAX, GroupHistory, last_election
from zenitmq.controller.group_store import EVENTS_MAX
from zenitmq.controller.store_worker import StoreWorker
from zenitmq.model.events.event import Event, event_line
from zenitmq.model.events.table import ELECTED, IN_SYNC_CHANGED
from zenitmq.model.groups.group import GroupNode


@dataclass
class Ground:
    """A controller's worker whose calls wait until `run`, and its session."""

    zookeeper: ModelZooKeeper = field(default_factory=ModelZooKeeper)
    calls: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store: ModelStore = self.zookeeper.store(lambda _: None)
        worker = StoreWorker(self, self, on_dropped=pytest.fail)  # type: ignore[arg-type]
        self.history = GroupHistory(worker, StillClock(), node="c1:9878")

    def submit(self, *work: Any) -> None:
        self.calls.append(lambda: work[0](*work[1:]))

    def post(self, callback: Callable[[], None]) -> None:
        callback()

    def run(self, ticks: int = 10) -> None:
        for _ in range(ticks):
            self.history.on_tick(self.store)
            calls, self.calls = self.calls, []
            for call in calls:
                call()

    def kept(self, group: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.zookeeper.histories.get(group, b"").splitlines()]


def election(group: str, epoch: int) -> Event:
    return Event(ELECTED, 1000 + epoch, (("group", group), ("epoch", epoch), ("master", "a")))


def test_events_are_written_group_by_group_and_one_call_at_a_time() -> None:
    ground = Ground()
    for epoch in (1, 2):
        for group in ("g", "h"):
            ground.history.keep(election(group, epoch))
    ground.history.on_tick(ground.store)
    ground.history.on_tick(ground.store)
    assert len(ground.calls) == 1
    ground.run()
    assert [event["epoch"] for event in ground.kept("g")] == [1, 2]
    assert [event["epoch"] for event in ground.kept("h")] == [1, 2]
    assert ground.kept("g")[0]["node"] == "c1:9878"


def test_what_cannot_be_written_waits_bounded() -> None:
    ground = Ground()
    ground.history.on_tick(None)
    ground.store.connected = False
    for epoch in range(WAITING_MAX + 10):
        ground.history.keep(election("g", epoch))
    ground.run()
    assert not ground.kept("g")
    ground.store.connected = True
    ground.run()
    assert [event["epoch"] for event in ground.kept("g")] == list(
        range(WAITING_MAX + 10 - EVENTS_MAX, WAITING_MAX + 10)
    )


def test_an_event_that_comes_while_others_are_written_is_written_next() -> None:
    ground = Ground()
    ground.history.keep(election("g", 1))
    ground.history.on_tick(ground.store)
    ground.history.keep(election("g", 2))
    ground.run()
    assert [event["epoch"] for event in ground.kept("g")] == [1, 2]


def test_an_election_that_the_dead_controller_did_not_tell_is_found_once() -> None:
    ground = Ground()
    ground.store.add_events("g", (event_line(election("g", 4), role="controller", node="c0").encode(),))
    nodes = {
        "g": GroupNode(broker_name="g", epoch=5, master="b", in_sync=("b",)),
        "h": GroupNode(broker_name="h", epoch=0),
    }
    for _ in range(2):
        ground.history.check(lambda: nodes)
        ground.run()
    assert [(event["epoch"], event["node"]) for event in ground.kept("g")] == [(4, "c0"), (5, "c1:9878")]
    assert "found by the next one" in ground.kept("g")[1]["why"]
    assert ground.kept("h") == []


def test_a_history_without_an_election_has_none() -> None:
    other = event_line(Event(IN_SYNC_CHANGED, 7, (("epoch", 9),)), role="controller", node="c").encode()
    assert (
        last_election(b"")
        == last_election(other)
        == last_election(other.replace(b"in_sync_changed", b"elected")[:-9])
        == 0
    )
    wrong = event_line(Event(ELECTED, 7, (("epoch", "x"),)), role="controller", node="c").encode()
    assert last_election(wrong) == 0
