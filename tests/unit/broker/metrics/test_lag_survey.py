"""The lag survey: what a round finds, that a tick is short, and that what is deleted leaves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from zenitmq.broker.metrics.lag_survey import BUDGET_NS, LOOKS, ROUND_NS, LagSurvey, TopicLag
from zenitmq.broker.state.offset_table import OffsetTable
from zenitmq.model.errors import StoreFormatError


class World:
    """Queues of some topics, a group's offsets, and a clock that goes on with each look at it."""

    def __init__(self, step_ns: int = 0) -> None:
        self.now_ns = 0
        self.step_ns = step_ns
        self.queues: dict[tuple[str, int], tuple[int, int]] = {}
        self.offsets = OffsetTable()
        self.popped: dict[tuple[str, str, int], Any] = {}
        self.configs: dict[str, Any] = {}
        self.leads = True
        self.fails = False
        state = SimpleNamespace(
            offset_table=self.offsets,
            topic_table=SimpleNamespace(configs=self.configs),
            pop_table=SimpleNamespace(queue=self.popped.get),
        )
        self.survey = LagSurvey(
            cast(Any, self),
            cast(Any, state),
            leads=lambda: self.leads,
            dues=lambda: (5, None),
            now_ns=self._look,
        )

    def _look(self) -> int:
        self.now_ns += self.step_ns
        return self.now_ns

    def topic(self, name: str, *ends: tuple[int, int]) -> None:
        self.configs[name] = SimpleNamespace(read_queues=len(ends))
        for queue_id, end in enumerate(ends):
            self.queues[name, queue_id] = end

    def commit(self, group: str, *rows: tuple[str, int, int]) -> None:
        event = OffsetTable.event_committed(group, [(*row, -1) for row in rows])
        self.offsets.on_event({**event, "offsets": [list(row) for row in event["offsets"]]}, {})

    # ---- as the store has it

    def min_offset(self, topic: str, queue_id: int) -> int:
        if self.fails:
            raise StoreFormatError("a queue", "it is damaged")
        return self.queues[topic, queue_id][0]

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self.queues[topic, queue_id][1]

    def position_of(self, topic: str, queue_id: int, queue_offset: int) -> int:
        return 1_000 * (queue_id + 1) + queue_offset


def test_a_round_finds_the_lag_and_the_first_message_in_the_log() -> None:
    world = World()
    world.topic("trades", (0, 10), (5, 10), (0, 10))
    world.commit("g", ("trades", 0, 10), ("trades", 1, 3))
    world.survey.on_tick()
    rows = ((0, 0, 10, 10, 0), (1, 5, 10, 3, 5), (2, 0, 10, -1, 10))
    assert world.survey.found == {("trades", "g"): TopicLag(15, 2_005, 0, None, rows)}
    assert (world.survey.half_due_ms, world.survey.timer_due_ms) == (5, None)


def test_a_group_that_pops_says_what_is_leased_and_ready() -> None:
    world = World()
    world.topic("trades", (0, 10))
    world.commit("g", ("trades", 0, 2))
    world.popped["g", "trades", 0] = SimpleNamespace(leased=3, next=7, available={4: 1})
    world.survey.on_tick()
    lag = world.survey.found["trades", "g"]
    assert (lag.messages, lag.leased, lag.ready) == (8, 3, 4)


def test_a_tick_is_short_and_the_next_goes_on() -> None:
    world = World(step_ns=BUDGET_NS)
    world.topic("trades", *[(0, 1)] * (2 * LOOKS))
    world.commit("g", ("trades", 0, 0))
    world.survey.on_tick()
    assert not world.survey.found
    world.survey.on_tick()
    world.survey.on_tick()
    assert world.survey.found["trades", "g"].messages == 2 * LOOKS


def test_rounds_are_apart_and_what_is_deleted_leaves() -> None:
    world = World()
    world.topic("trades", (0, 1))
    world.commit("g", ("trades", 0, 0))
    world.survey.on_tick()
    world.queues["trades", 0] = (0, 2)
    world.survey.on_tick()
    assert world.survey.found["trades", "g"].messages == 1
    world.now_ns = ROUND_NS
    world.survey.on_tick()
    assert world.survey.found["trades", "g"].messages == 2
    world.offsets.on_group_deleted("g")
    world.now_ns = 2 * ROUND_NS
    world.survey.on_tick()
    assert not world.survey.found
    world.commit("g", ("gone", 0, 0))
    world.now_ns = 3 * ROUND_NS
    world.survey.on_tick()
    assert not world.survey.found


def test_only_a_master_looks() -> None:
    world = World()
    world.topic("trades", (0, 1))
    world.commit("g", ("trades", 0, 0))
    world.survey.on_tick()
    world.leads = False
    world.survey.on_tick()
    assert (world.survey.found, world.survey.half_due_ms) == ({}, None)


def test_a_queue_that_cannot_be_read_does_not_stop_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.topic("trades", (0, 1))
    world.commit("g", ("trades", 0, 0))
    world.fails = True
    world.survey.on_tick()
    assert "a round of the lag survey ended early" in caplog.text
    world.fails, world.now_ns = False, ROUND_NS
    world.survey.on_tick()
    assert world.survey.found["trades", "g"].messages == 1
