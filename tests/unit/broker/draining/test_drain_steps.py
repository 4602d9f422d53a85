"""The steps of a drain: stories of how a replica stands, and what it does next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.broker.draining.drain_steps import (
    ASK_MS,
    DRAIN_MS,
    FOLLOW_MS,
    GOODBYE_MS,
    HOLD_MS,
    LEAVE_MS,
    LINK_MS,
    DrainSteps,
    ReplicaStanding,
    Step,
)
from zenitmq.broker.replication.role import Role

MASTER = ReplicaStanding(Role.MASTER, is_confirmed=False)
CANDIDATE = ReplicaStanding(Role.CANDIDATE)
SLAVE = ReplicaStanding(Role.SLAVE)


class Draining:
    """A drain under way; `at` looks after so many more ms."""

    def __init__(self, *, ends: bool = True) -> None:
        self.steps = DrainSteps()
        self.now_ms = 1_000
        self.steps.begin(ends=ends, now_ms=self.now_ms)

    def at(self, after_ms: int, standing: ReplicaStanding) -> tuple[Step, bool, bool, bool]:
        """(step, holds, tells, says goodbye)."""
        self.now_ms += after_ms
        said = self.steps.on_look(standing, self.now_ms)
        return self.steps.step, self.steps.holds, self.steps.tells, said

    def after(self, *standings: ReplicaStanding) -> Draining:
        """One millisecond each."""
        for standing in standings:
            self.at(1, standing)
        return self


def test_a_master_hands_over_leaves_and_ends() -> None:
    story = Draining()
    confirmed, streaming = replace(MASTER, is_confirmed=True), replace(SLAVE, follows=True)
    assert story.at(0, MASTER) == (Step.HOLDING, True, False, False)
    assert story.at(5, MASTER) == (Step.HOLDING, True, False, False)
    assert story.at(5, confirmed) == (Step.ASKING, True, True, False)
    assert story.at(9, CANDIDATE) == (Step.ASKING, True, True, False)
    assert story.at(5, SLAVE) == (Step.LEAVING, True, True, False), "name servers may not know the new master yet"
    assert story.at(50, streaming) == (Step.LEAVING, False, True, True)
    assert story.at(5, streaming) == (Step.LEAVING, False, True, False)
    assert story.at(5, replace(streaming, is_in_sync=False)) == (Step.DONE, False, True, False)
    assert story.at(DRAIN_MS, MASTER) == (Step.DONE, False, True, False)


def test_a_slave_leaves_and_ends() -> None:
    story = Draining()
    streaming = replace(SLAVE, follows=True)
    assert story.at(0, streaming) == (Step.LEAVING, False, True, True)
    assert story.at(GOODBYE_MS - 1, streaming)[3] is False
    assert story.at(1, streaming)[3] is True, "the first was lost, or its master too old to act on it"
    assert story.at(1, replace(streaming, is_in_sync=False))[0] is Step.DONE


def test_a_replica_that_stays_is_drained_until_that_is_undone() -> None:
    story = Draining(ends=False).after(MASTER, replace(MASTER, is_confirmed=True), CANDIDATE)
    assert story.at(1, replace(SLAVE, follows=True)) == (Step.DRAINED, False, True, False)
    assert story.at(DRAIN_MS * 10, SLAVE)[0] is Step.DRAINED
    story.steps.undo()
    assert (story.steps.step, story.steps.tells, story.steps.is_under_way) == (Step.NONE, False, False)
    assert story.at(1, SLAVE)[0] is Step.NONE


def test_one_that_was_told_to_stay_may_be_told_to_end() -> None:
    story = Draining(ends=False).after(SLAVE)
    story.steps.begin(ends=False, now_ms=story.now_ms)
    assert story.steps.step is Step.DRAINED
    story.steps.begin(ends=True, now_ms=story.now_ms)
    story.steps.undo()
    assert story.at(1, replace(SLAVE, is_in_sync=False))[0] is Step.DONE, "what has begun to end is not undone"


@pytest.mark.parametrize("ends", [True, False])
def test_without_a_successor_nothing_is_held(ends: bool) -> None:
    story = Draining(ends=ends)
    step, holds, tells, _ = story.at(0, replace(MASTER, has_successors=False))
    assert (step, holds, tells) == (Step.DONE if ends else Step.WAITING, False, True)


def test_a_successor_that_goes_meanwhile_ends_the_hold() -> None:
    story = Draining(ends=False).after(MASTER)
    assert story.at(1, replace(MASTER, has_successors=False)) == (Step.WAITING, False, True, False)
    assert story.at(1, MASTER) == (Step.WAITING, False, True, False), "elected without a hold, once one is there again"


def test_writes_go_on_while_no_controller_answers() -> None:
    story, alone = Draining(), replace(MASTER, is_linked=False)
    assert story.at(0, alone) == (Step.BEGUN, False, False, False)
    assert story.at(LINK_MS - 1, alone)[:2] == (Step.BEGUN, False)
    assert story.at(1, alone)[:2] == (Step.DONE, False)
    assert Draining().after(alone).at(1, MASTER)[:2] == (Step.HOLDING, True)


def test_what_is_not_confirmed_in_time_was_not_acknowledged() -> None:
    assert Draining().after(MASTER).at(HOLD_MS, MASTER)[:3] == (Step.ASKING, True, True)


def test_what_a_master_alone_has_acknowledged_is_not_left_behind() -> None:
    """ack = master: an election would lose it."""
    story = Draining(ends=False).after(replace(MASTER, may_cut=False))
    assert story.at(HOLD_MS, replace(MASTER, may_cut=False)) == (Step.WAITING, False, True, False)


@pytest.mark.parametrize("ends", [True, False])
def test_if_nobody_is_elected_writes_go_on_or_it_ends(ends: bool) -> None:
    story = Draining(ends=ends).after(MASTER, replace(MASTER, is_confirmed=True))
    assert story.at(ASK_MS - 1, MASTER)[:2] == (Step.ASKING, True)
    assert story.at(1, MASTER)[:2] == (Step.DONE if ends else Step.WAITING, False)


def test_requests_are_held_a_second_at_most_after_the_election() -> None:
    story = Draining().after(MASTER, replace(MASTER, is_confirmed=True), CANDIDATE)
    assert story.at(FOLLOW_MS - 1, CANDIDATE)[1] is True
    assert story.at(1, CANDIDATE)[1] is False


def test_a_slave_whose_master_does_not_let_it_go_ends_all_the_same() -> None:
    story = Draining().after(SLAVE)
    assert story.at(LEAVE_MS - 1, SLAVE)[0] is Step.LEAVING
    assert story.at(1, SLAVE)[0] is Step.DONE


@pytest.mark.parametrize("ends", [True, False])
def test_a_candidate_that_nobody_leads(ends: bool) -> None:
    story = Draining(ends=ends).after(CANDIDATE)
    assert story.steps.tells is not ends
    assert story.at(LEAVE_MS, CANDIDATE)[0] is (Step.DONE if ends else Step.WAITING)


def test_one_that_is_elected_for_want_of_others_hands_over_again() -> None:
    story = Draining().after(replace(SLAVE, follows=True))
    assert story.at(1, MASTER)[:2] == (Step.HOLDING, True)
    story = Draining(ends=False).after(SLAVE)
    assert story.at(1, MASTER) == (Step.WAITING, False, True, False)


def test_twenty_seconds_are_the_limit_whatever_happens() -> None:
    story = Draining()
    for turn in range(DRAIN_MS // 500 + 1):
        story.at(500, CANDIDATE if turn % 2 else replace(SLAVE, follows=False))
    assert story.steps.step is Step.DONE
