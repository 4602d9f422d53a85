"""Stories of roles: B hears of the group's node and becomes what it says, one durable step after the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.broker.replication.effects import (
    ClearIntent,
    CutLog,
    CutTail,
    DiskEffect,
    Effect,
    Follow,
    Halt,
    Lead,
    PersistEpochs,
    PersistIntent,
    PersistPromise,
    StopFollowing,
    StopLeading,
    SyncLog,
)
from zenitmq.broker.replication.epochs import ROWS_MAX, EpochList
from zenitmq.broker.replication.replica_log import ReplicaLog
from zenitmq.broker.replication.role import Role, RoleState
from zenitmq.model.groups.group import FlushMode, GroupNode, GroupSettings, Incarnation, KnownGroup

LIFE = Incarnation("store-B", 2)
EARLIER = Incarnation("store-B", 1)
ROWS = EpochList.of([(1, 0)])
WITH_3 = EpochList.of([(1, 0), (3, 100)])


def news(
    version: int, epoch: int, master: str | None, life: Incarnation = LIFE, flush_mode: FlushMode = FlushMode.ASYNC
) -> KnownGroup:
    settings = GroupSettings(min_in_sync=2, flush_mode=flush_mode)
    node = GroupNode(broker_name="broker-a", epoch=epoch, master=master, master_incarnation=life, settings=settings)
    return KnownGroup(node, version)


class Roles:
    """A RoleState with a disk that carries out at once what it is asked to, unless `holds` is set."""

    def __init__(self, promised: int = 1) -> None:
        self.log = ReplicaLog(0, 100, 0, 40, ROWS)
        self.core = RoleState("B", LIFE, self.log, promised=promised)
        self.holds = False
        self.held: list[DiskEffect] = []

    def run(self, effects: list[Effect]) -> list[Effect]:
        seen: list[Effect] = []
        for effect in effects:
            seen.append(effect)
            if isinstance(effect, DiskEffect):
                if self.holds:
                    self.held.append(effect)
                else:
                    seen += self.run(self.core.on_done(effect))
        return seen

    def hear(self, known: KnownGroup) -> list[Effect]:
        return self.run(self.core.on_group(known))

    def done(self) -> list[Effect]:
        return self.run(self.core.on_done(self.held.pop(0)))


def test_a_new_master_takes_over_step_by_step() -> None:
    """R3, under async: promise, tail, row, appends."""
    roles = Roles()
    assert roles.hear(news(5, 3, "B")) == [PersistPromise(3), CutTail(), PersistEpochs(WITH_3), Lead(3, 100)]
    assert (roles.core.role, roles.core.promised, roles.log.epochs) == (Role.MASTER, 3, WITH_3)


def test_under_sync_the_log_is_synced_before_the_row() -> None:
    effects = Roles().hear(news(5, 3, "B", flush_mode=FlushMode.SYNC))
    assert effects == [PersistPromise(3), CutTail(), SyncLog(), PersistEpochs(WITH_3), Lead(3, 100)]


def chosen(version: int, epoch: int, *, in_sync: tuple[str, ...], eligible: tuple[str, ...] = ()) -> KnownGroup:
    known = news(version, epoch, "B", flush_mode=FlushMode.SYNC)
    return replace(known, node=replace(known.node, in_sync=in_sync, eligible=eligible))


@pytest.mark.parametrize("sets", [{"in_sync": ("A", "B")}, {"in_sync": ("B",), "eligible": ("A",)}])
def test_who_is_elected_among_others_ends_its_log_at_its_hole_first(sets: dict[str, tuple[str, ...]]) -> None:
    """R9: nobody could follow past it. The disk carries the cut out with the store closed, so that a next life is elected."""
    roles = Roles()
    roles.log.has_hole = roles.holds = True
    assert roles.hear(chosen(5, 3, **sets)) == [PersistPromise(3)]
    assert roles.done() == [PersistIntent(3, 100)]
    assert roles.done() == [CutLog(100)]
    assert roles.core.role is Role.CANDIDATE


def test_a_hole_that_was_cut_in_this_life_is_none() -> None:
    roles = Roles()
    roles.log.has_hole = True
    assert roles.hear(chosen(5, 3, in_sync=("A", "B"))) == [
        *(PersistPromise(3), PersistIntent(3, 100), CutLog(100), PersistEpochs(ROWS), ClearIntent()),
        *(CutTail(), SyncLog(), PersistEpochs(WITH_3), Lead(3, 100)),
    ]


def test_who_is_alone_in_the_sets_goes_on_behind_its_hole() -> None:
    """R9: an operator may have forced it for the sake of what lies there."""
    roles = Roles()
    roles.log.has_hole = True
    assert roles.hear(chosen(5, 3, in_sync=("B",)))[:2] == [PersistPromise(3), CutTail()]
    assert not roles.log.has_hole


@pytest.mark.parametrize("life", [EARLIER, LIFE])
def test_who_is_not_elected_keeps_what_lies_behind_its_hole(life: Incarnation) -> None:
    roles = Roles(promised=1 if life is EARLIER else 3)
    roles.log.has_hole = True
    known = chosen(5, 3, in_sync=("A", "B"))
    effects = roles.hear(replace(known, node=replace(known.node, master_incarnation=life)))
    assert not any(isinstance(effect, PersistIntent | CutTail) for effect in effects)
    assert roles.log.has_hole


def test_the_row_begins_where_the_log_ends_after_the_cut() -> None:
    roles = Roles()
    roles.holds = True
    roles.hear(news(5, 3, "B"))
    roles.done()
    roles.log.on_position(90, 0)
    assert roles.done() == [PersistEpochs(EpochList.of([(1, 0), (3, 90)]))]
    assert roles.core.role is Role.CANDIDATE
    assert roles.done() == [Lead(3, 90)]


def test_no_step_before_the_one_before_is_durable() -> None:
    roles = Roles()
    roles.holds = True
    assert roles.hear(news(5, 3, "B")) == [PersistPromise(3)]
    assert roles.hear(news(6, 3, "B")) == []
    assert roles.core.promised == 1
    assert roles.done() == [CutTail()]


def test_a_slave_follows_once_the_promise_is_durable() -> None:
    roles = Roles()
    roles.holds = True
    assert roles.hear(news(5, 3, "A")) == [PersistPromise(3)]
    assert roles.done() == [Follow("A", 3)]
    assert roles.core.role is Role.SLAVE
    assert roles.hear(news(6, 3, "A")) == []


@pytest.mark.parametrize("known", [news(5, 3, "A"), news(4, 3, "A"), news(6, 2, "A")])
def test_v6_old_versions_and_lower_epochs_are_old_news(known: KnownGroup) -> None:
    roles = Roles()
    roles.hear(news(5, 3, "C"))
    assert roles.hear(known) == []
    assert roles.core.known == news(5, 3, "C")


def test_a_later_epoch_is_news_at_any_version() -> None:
    """Versions begin anew where ZooKeeper's data was lost."""
    roles = Roles()
    roles.hear(news(5, 3, "C"))
    assert roles.hear(news(0, 4, "A"))
    assert roles.core.known == news(0, 4, "A")


def test_m_r2_a_promise_outlives_the_process() -> None:
    assert Roles(promised=4).hear(news(5, 3, "A")) == []


def test_v8_a_process_never_resumes_an_epoch() -> None:
    """Elected, restarted, and told again: it waits for another election."""
    roles = Roles(promised=3)
    assert roles.hear(news(5, 3, "B")) == []
    assert roles.core.role is Role.CANDIDATE
    assert roles.hear(news(6, 3, "B", EARLIER)) == []
    assert roles.hear(news(7, 4, "B"))[-1] == Lead(4, 100)


def test_v9_an_election_of_an_earlier_life_is_not_accepted() -> None:
    roles = Roles()
    assert roles.hear(news(5, 3, "B", EARLIER)) == [PersistPromise(3)]
    assert roles.core.role is Role.CANDIDATE
    assert roles.hear(news(6, 3, "B", LIFE)) == []


def test_who_can_begin_no_other_epoch_promises_none_and_says_why() -> None:
    """Another is elected then, and this one is halted until the oldest epochs have gone with their bytes."""
    roles = Roles(promised=ROWS_MAX)
    roles.log.end = ROWS_MAX + 1
    roles.log.epochs = EpochList.of((number, number) for number in range(1, ROWS_MAX + 1))
    (halt,) = roles.hear(news(5, ROWS_MAX + 1, "B"))
    assert isinstance(halt, Halt)
    assert halt.reason.args == (ROWS_MAX, ROWS_MAX)
    assert (roles.core.promised, roles.core.role) == (ROWS_MAX, Role.CANDIDATE)
    roles.log.begin = ROWS_MAX // 2
    assert Lead(ROWS_MAX + 2, ROWS_MAX + 1) in roles.hear(news(6, ROWS_MAX + 2, "B"))


def test_what_a_log_held_before_it_had_rows_belongs_to_the_first_epoch() -> None:
    """The founder of a group may bring a log: no byte of it is without an epoch, or no replica could be sent it."""
    roles = Roles(promised=0)
    roles.log.begin, roles.log.epochs = 40, EpochList()
    assert roles.hear(news(5, 1, "B"))[-2:] == [PersistEpochs(EpochList.of([(1, 40)])), Lead(1, 40)]


def test_a_restarted_slave_follows_in_the_epoch_it_promised() -> None:
    assert Roles(promised=3).hear(news(5, 3, "A")) == [Follow("A", 3)]


def test_a_deposed_master_stops_before_it_does_anything_else() -> None:
    roles = Roles()
    roles.hear(news(5, 3, "B"))
    assert roles.hear(news(6, 4, "A")) == [StopLeading(), PersistPromise(4), Follow("A", 4)]


def test_a_master_elected_again_begins_another_term() -> None:
    roles = Roles()
    roles.hear(news(5, 3, "B"))
    effects = roles.hear(news(6, 4, "B"))
    rows = WITH_3.with_row(4, 100)
    assert effects == [StopLeading(), PersistPromise(4), CutTail(), PersistEpochs(rows), Lead(4, 100)]


def test_a_slave_comes_to_rest_before_it_promises_another() -> None:
    """A cut or an append may be under way: what follows counts on where the log ends."""
    roles = Roles()
    roles.hear(news(5, 3, "A"))
    assert roles.hear(news(6, 4, "B")) == [StopFollowing()]
    assert roles.hear(news(7, 5, "C")) == []
    assert roles.run(roles.core.on_stopped()) == [PersistPromise(5), Follow("C", 5)]


def test_news_while_the_promise_is_written_lead_to_the_newest() -> None:
    roles = Roles()
    roles.holds = True
    roles.hear(news(5, 3, "B"))
    assert roles.hear(news(6, 4, "A")) == []
    assert roles.done() == [PersistPromise(4)]
    assert roles.done() == [Follow("A", 4)]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_deposed_while_taking_over_it_never_leads(steps: int) -> None:
    """Whichever step it is at: promise, tail, row."""
    roles = Roles()
    roles.holds = True
    roles.hear(news(5, 3, "B"))
    for _ in range(steps - 1):
        roles.done()
    assert roles.hear(news(6, 4, "A")) == []
    effects = roles.done()
    while roles.held:
        effects += roles.done()
    assert effects == [PersistPromise(4), Follow("A", 4)]
    assert roles.log.epochs == (WITH_3 if steps == 3 else ROWS)


def test_a_group_without_a_master_is_waited_for() -> None:
    roles = Roles()
    assert roles.hear(news(5, 3, None)) == [PersistPromise(3)]
    assert roles.hear(news(6, 4, "A")) == [PersistPromise(4), Follow("A", 4)]


def test_m_r4a_an_interrupted_cut_is_carried_through_before_anything_else() -> None:
    roles = Roles()
    roles.holds = True
    roles.log.epochs = EpochList.of([(1, 0), (2, 60)])
    assert roles.run(roles.core.on_start(PersistIntent(2, 60))) == [CutLog(60)]
    assert roles.hear(news(5, 3, "A")) == []
    assert roles.done() == [PersistEpochs(ROWS)]
    assert (roles.log.end, roles.log.flushed) == (60, 0)
    assert roles.done() == [ClearIntent()]
    assert roles.done() == [PersistPromise(3)]


def test_a_hole_before_the_end_of_an_interrupted_cut_stays_one() -> None:
    """A power cut in the middle of a cut lost a page before its offset: the next master still has to cut there."""
    roles = Roles()
    roles.log.on_position(40, 0)
    roles.log.has_hole = True
    roles.run(roles.core.on_start(PersistIntent(2, 60)))
    assert (roles.log.end, roles.log.has_hole) == (40, True)


def test_without_an_intent_nothing_is_cut_at_start() -> None:
    assert Roles().core.on_start(None) == []


def test_who_is_elected_all_the_same_counts_what_lies_behind_its_hole() -> None:
    """Nobody has more: the row of its epoch begins where its log really ends."""
    roles = Roles()
    roles.log.has_hole, roles.holds = True, True
    roles.hear(news(5, 3, "B"))
    assert roles.done() == [CutTail()]
    assert roles.log.has_hole
    roles.log.on_position(160, 0)  # as the disk says, once the holes are taken
    assert roles.done() == [PersistEpochs(EpochList.of([(1, 0), (3, 160)]))]
    assert not roles.log.has_hole
