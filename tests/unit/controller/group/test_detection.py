"""Who lives, when another master is needed, and whom: stories of events and what came of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim.group_kit import GROUP, group, heartbeat, life, registration, replica, report

from zenitmq.controller.group.candidates import HEARD_MS, PASSED_OVER_MS
from zenitmq.controller.group.detection import (
    DEAD_AFTER_MS,
    Detection,
    Effect,
    Probe,
    Stalled,
    TellReplicas,
    WriteGroup,
)
from zenitmq.controller.group.group_state import alter_in_sync
from zenitmq.model.errors import (
    GroupNodeLost,
    IncarnationUnknown,
    MasterStillAlive,
    NotElectable,
    NotGroupMaster,
    ReplicaDrains,
    ReplicaGroupNotFound,
    ReplicaNotAlive,
    StaleEpoch,
    StaleGroupVersion,
    UnknownReplica,
)
from zenitmq.model.groups.group import FlushMode, GroupNode, KnownGroup, Replica
from zenitmq.remoting.commands import AlterInSync, ElectMaster


class Group:
    """One group under detection, whose replicas beat each 500 ms unless they are silent."""

    def __init__(self, node: GroupNode, *, ends: dict[str, int] | None = None) -> None:
        self.detection = Detection()
        self.now_ms = 50_000
        self.known = KnownGroup(node, 7)
        self.ends = ends or {}
        self.silent: set[str] = set()
        self.facts: dict[str, dict[str, int]] = {}  # what replicas say beside the plain facts
        self.detection.on_group(self.known, self.now_ms)
        self.effects: list[Effect] = []
        self.beat()

    def beat(self, **changed: int) -> list[Effect]:
        effects = []
        for one in self.known.node.replicas:
            if one.name not in self.silent:
                end, epoch = self.ends.get(one.name, 1000), self.known.node.epoch
                facts = {"log_end": end, "epoch": epoch} | changed | self.facts.get(one.name, {})
                sign = heartbeat(one.name, one.incarnation.starts, **facts)
                effects += self.detection.on_heartbeat(sign, self.now_ms)
        self.effects += effects
        return effects

    def pass_ms(self, duration_ms: int) -> list[Effect]:
        """Time passes in steps of 100 ms, with heartbeats; returns what came of it."""
        effects = []
        for _ in range(duration_ms // 100):
            self.now_ms += 100
            if self.now_ms % 500 == 0:
                effects += self.beat()
            effects += self.detection.on_tick(self.now_ms)
        return effects

    def report(self, name: str) -> list[Effect]:
        return self.detection.on_master_gone(report(name, epoch=self.known.node.epoch), self.now_ms)

    def written(self, node: GroupNode) -> list[Effect]:
        self.known = KnownGroup(node, self.known.version + 1)
        return self.detection.on_group(self.known, self.now_ms)


def elections(effects: list[Effect]) -> list[tuple[str | None, int]]:
    """(elected, on version) of every election among the effects."""
    return [(effect.node.master, effect.version) for effect in effects if isinstance(effect, WriteGroup)]


# ---- what is confirmed


def test_what_is_confirmed_is_the_masters_word_until_somebody_is_forced() -> None:
    told = Group(group())
    told.facts = {"a": {"confirm_offset": 700}, "b": {"confirm_offset": 900}}
    told.detection = Detection()
    told.detection.on_group(told.known, told.now_ms)
    assert told.detection.confirmed(GROUP) == told.detection.confirmed("no-such-group") == 0
    told.beat()
    assert told.detection.confirmed(GROUP) == 700
    told.facts["a"]["confirm_offset"] = 600
    told.beat(epoch=2)
    assert told.detection.confirmed(GROUP) == 700
    told.written(replace(told.known.node, epoch=2, master="b"))
    assert told.detection.confirmed(GROUP) == 700  # it was in sync, so it holds that
    told.written(replace(told.known.node, epoch=3, master="c", in_sync=("c",)))
    told.written(replace(told.known.node, epoch=4, master="a", in_sync=("a",)))
    assert told.detection.confirmed(GROUP) == 0


# ---- silence


def test_nothing_happens_while_the_master_lives() -> None:
    story = Group(group())
    assert elections(story.pass_ms(10_000)) == []


def test_a_silent_master_is_replaced_after_the_dead_time_by_the_longest_log() -> None:
    story = Group(group(), ends={"b": 1000, "c": 1200})
    story.silent = {"a"}
    assert story.pass_ms(DEAD_AFTER_MS - 100) == []
    (election,) = story.pass_ms(100)
    assert isinstance(election, WriteGroup)
    assert (election.node.master, election.version, election.node.epoch) == ("c", 7, 2)
    assert election.node.in_sync == ("b", "c"), "the dead one leaves in the same write"
    assert "silent for 2000 ms" in election.why


def test_one_election_is_under_way_at_a_time() -> None:
    story = Group(group())
    story.silent = {"a"}
    assert elections(story.pass_ms(5000)) == [("b", 7)]
    again = story.detection.on_group(story.known, story.now_ms)
    assert elections(again) == [("b", 7)], "the write came to nothing: read, and decided anew"
    assert again == [effect for effect in again if isinstance(effect, WriteGroup)], "nothing new to tell"


def test_what_was_written_is_told_to_the_replicas_once() -> None:
    story = Group(group())
    node = replace(story.known.node, epoch=2, master="b", master_incarnation=life("b"))
    assert story.written(node) == [TellReplicas(story.known)]
    assert story.detection.on_group(story.known, story.now_ms) == []
    assert story.detection.on_group(KnownGroup(group(), 7), story.now_ms) == [], "old news"
    assert story.detection.known(GROUP) == story.known


def test_a_log_counts_only_while_its_replica_lives() -> None:
    story = Group(group(), ends={"c": 5000})
    story.silent = {"a", "c"}
    assert elections(story.pass_ms(3000)) == [("b", 7)]


def test_the_eligible_are_chosen_only_where_nobody_in_sync_lives() -> None:
    story = Group(group("abcd", in_sync="ab", eligible="c", min_in_sync=3), ends={"c": 9000})
    story.silent = {"a"}
    assert elections(story.pass_ms(3000)) == [("b", 7)]
    story = Group(group("abcd", in_sync="ab", eligible="c", min_in_sync=3))
    story.silent = {"a", "b"}
    assert elections(story.pass_ms(3000)) == [("c", 7)]


def test_nobody_is_chosen_who_may_lack_messages() -> None:
    story = Group(group(in_sync="ab"))
    story.silent = {"a", "b"}
    assert elections(story.pass_ms(10_000)) == []
    story.silent = {"a"}
    assert elections(story.pass_ms(500)) == [("b", 7)], "as soon as one comes back"


def test_a_new_leader_gives_everybody_the_dead_time() -> None:
    """It knows nobody yet; that is no silence of theirs."""
    detection = Detection()
    detection.on_group(KnownGroup(group(), 7), 50_000)
    assert elections(detection.on_heartbeat(heartbeat("b"), 51_500)) == []
    assert elections(detection.on_tick(51_900)) == []
    assert elections(detection.on_tick(52_000)) == [("b", 7)]


def test_the_silence_of_a_stopped_controller_is_its_own() -> None:
    story = Group(group())
    story.pass_ms(500)
    story.now_ms += 30_000
    assert elections(story.detection.on_tick(story.now_ms)) == []
    story.silent = {"a"}
    assert elections(story.pass_ms(1900)) == []
    assert elections(story.pass_ms(100)) == [("b", 7)]


# ---- lives


def test_a_master_that_was_started_anew_is_replaced_at_once() -> None:
    """A life resumes no epoch; the longest log may well be its own."""
    story = Group(group(), ends={"b": 900, "c": 900})
    restarted = tuple(replica("a", 2) if one.name == "a" else one for one in story.known.node.replicas)
    known = KnownGroup(replace(story.known.node, replicas=restarted), 8)
    effects = story.detection.on_registered(known, registration("a", 2, log_end=1000), story.now_ms)
    assert elections(effects) == [("a", 8)]
    (write,) = [effect for effect in effects if isinstance(effect, WriteGroup)]
    assert (write.node.master_incarnation, write.node.in_sync) == (life("a", 2), ("a", "b", "c"))
    assert write.why == "master a was started anew"


def test_a_restarted_master_that_forgot_is_not_chosen() -> None:
    story = Group(group(in_sync="ab"))
    without = replace(story.known.node, in_sync=("b",), replicas=(replica("a", 2), replica("b"), replica("c")))
    effects = story.detection.on_registered(KnownGroup(without, 8), registration("a", 2, log_end=9000), story.now_ms)
    assert elections(effects) == [("b", 8)]


def test_a_heartbeat_of_another_life_asks_it_to_register() -> None:
    story = Group(group())
    with pytest.raises(IncarnationUnknown):
        story.detection.on_heartbeat(heartbeat("b", 2), story.now_ms)
    with pytest.raises(UnknownReplica):
        story.detection.on_heartbeat(heartbeat("x"), story.now_ms)
    with pytest.raises(ReplicaGroupNotFound):
        story.detection.on_heartbeat(replace(heartbeat("a"), broker_name="other"), story.now_ms)


def test_the_signs_of_an_earlier_life_are_not_those_of_the_present_one() -> None:
    story = Group(group(in_sync="ab"))
    story.silent = {"a"}
    story.pass_ms(1500)
    registered_anew = replace(story.known.node, replicas=(replica("a"), replica("b", 2), replica("c")))
    story.written(registered_anew)
    assert not story.detection.is_alive(GROUP, "b", story.now_ms)
    story.silent = {"a", "b"}
    assert elections(story.pass_ms(2000)) == []


def test_the_founder_of_a_group_becomes_its_first_master() -> None:
    founded = GroupNode(broker_name=GROUP, in_sync=("a",), replicas=(replica("a"),))
    effects = Detection().on_registered(KnownGroup(founded, 0), registration("a"), 1000)
    assert elections(effects) == [("a", 0)]
    (write,) = [effect for effect in effects if isinstance(effect, WriteGroup)]
    assert (write.node.epoch, write.node.in_sync) == (1, ("a",))


def test_a_node_that_was_set_back_elects_nobody() -> None:
    story = Group(group(epoch=3))
    story.beat(epoch=5)
    story.silent = {"a"}
    assert elections(story.pass_ms(5000)) == []
    with pytest.raises(GroupNodeLost):
        story.detection.operator_election(ElectMaster(GROUP, 7, "b"), story.now_ms)
    assert elections(story.written(replace(story.known.node, epoch=6))) == [("b", 8)], "restored"


def test_a_group_whose_node_is_gone_is_not_known() -> None:
    story = Group(group())
    story.detection.on_group_missing(GROUP)
    story.detection.on_group_missing(GROUP)
    with pytest.raises(ReplicaGroupNotFound):
        story.detection.known(GROUP)
    assert not story.detection.is_alive(GROUP, "a", story.now_ms)
    assert story.detection.on_tick(story.now_ms + 9000) == []


# ---- closed sockets


def test_a_killed_master_is_replaced_after_its_slaves_said_so_and_a_probe_of_300_ms() -> None:
    story = Group(group(), ends={"b": 1100})
    story.silent = {"a"}
    assert story.report("b") == [Probe(GROUP, "a", 1)]
    assert story.report("c") == []
    assert elections(story.pass_ms(200)) == []
    (election,) = story.pass_ms(100)
    assert isinstance(election, WriteGroup)
    assert (election.node.master, election.node.in_sync) == ("b", ("b", "c"))
    assert "answers no probe" in election.why


def test_a_probe_that_is_answered_clears_the_master() -> None:
    story = Group(group())
    story.report("b")
    story.report("c")
    story.now_ms += 100
    assert story.detection.on_heartbeat(heartbeat("a", probe=1), story.now_ms) == []
    assert elections(story.pass_ms(5000)) == []
    assert story.report("b") == [Probe(GROUP, "a", 2)], "what it says next is asked anew"
    story.report("c")
    story.silent = {"a"}
    story.detection.on_heartbeat(heartbeat("a", probe=1), story.now_ms)  # the answer to the first one, late
    assert elections(story.pass_ms(300)) == [("b", 7)]


def test_one_slave_is_not_enough_while_another_in_sync_lives() -> None:
    story = Group(group())
    story.report("b")
    story.silent = {"a"}
    assert elections(story.pass_ms(1000)) == []
    assert elections(story.report("c")) == [("b", 7)], "the probe was unanswered all along"


def test_a_slave_that_is_dead_itself_is_not_waited_for() -> None:
    story = Group(group())
    story.silent = {"c"}
    story.pass_ms(2000)
    story.silent = {"a", "c"}
    story.report("b")
    assert elections(story.pass_ms(300)) == [("b", 7)]


def test_one_of_the_eligible_speaks_where_the_master_was_alone_in_sync() -> None:
    story = Group(group(in_sync="a", eligible="b"))
    story.silent = {"a"}
    story.report("c")  # in neither set: cannot be elected, and does not speak for the others
    assert elections(story.pass_ms(400)) == []
    assert elections(story.report("b")) == [("b", 7)]


def test_a_report_counts_only_as_long_as_it_is_repeated() -> None:
    story = Group(group())
    story.report("b")
    story.pass_ms(1500)
    assert story.report("c") == [Probe(GROUP, "a", 2)]
    assert elections(story.pass_ms(1000)) == [], "b has a new session, it seems"


def test_reports_of_an_earlier_master_are_refused() -> None:
    story = Group(group(epoch=2))
    with pytest.raises(StaleEpoch):
        story.detection.on_master_gone(report("b", epoch=1), story.now_ms)
    with pytest.raises(NotGroupMaster):
        story.detection.on_master_gone(report("b", epoch=2, master="c"), story.now_ms)
    with pytest.raises(NotGroupMaster):
        story.detection.on_master_gone(report("a", epoch=2), story.now_ms)
    with pytest.raises(UnknownReplica):
        story.detection.on_master_gone(report("x", epoch=2), story.now_ms)


def test_a_new_epoch_ends_the_suspicion() -> None:
    story = Group(group())
    story.report("b")
    story.report("c")
    story.written(replace(story.known.node, epoch=2, master="b", master_incarnation=life("b")))
    assert elections(story.pass_ms(5000)) == []


# ---- operators


def test_an_operator_names_the_next_master_and_the_old_one_stays_in_sync() -> None:
    story = Group(group())
    choice = story.detection.operator_election(ElectMaster(GROUP, 7, "c"), story.now_ms)
    assert (choice.node.master, choice.node.in_sync, choice.record) == ("c", ("a", "b", "c"), None)


def test_an_operator_who_names_nobody_gets_the_best_but_the_present_master() -> None:
    story = Group(group(), ends={"a": 2000, "c": 1500})
    assert story.detection.operator_election(ElectMaster(GROUP, 7), story.now_ms).node.master == "c"
    story = Group(group("a", in_sync="a", min_in_sync=1))
    assert story.detection.operator_election(ElectMaster(GROUP, 7), story.now_ms).node.master == "a"


def test_what_an_operator_cannot_have() -> None:
    story = Group(group(in_sync="ab"))
    story.silent = {"b"}
    story.pass_ms(2000)
    ask = story.detection.operator_election
    with pytest.raises(ReplicaNotAlive):
        ask(ElectMaster(GROUP, 7, "b"), story.now_ms)
    with pytest.raises(NotElectable):
        ask(ElectMaster(GROUP, 7, "c"), story.now_ms)
    with pytest.raises(UnknownReplica):
        ask(ElectMaster(GROUP, 7, "x"), story.now_ms)
    with pytest.raises(StaleGroupVersion):
        ask(ElectMaster(GROUP, 6, "c"), story.now_ms)
    story.silent = {"a", "b", "c"}
    story.pass_ms(2000)
    with pytest.raises(ReplicaNotAlive, match="'a or b'"):
        ask(ElectMaster(GROUP, 7), story.now_ms)
    story.written(replace(story.known.node, in_sync=(), last="a"))
    with pytest.raises(NotElectable, match="'a' may lack"):
        ask(ElectMaster(GROUP, 8), story.now_ms)
    story.written(replace(story.known.node, in_sync=(), last=None))
    with pytest.raises(NotElectable, match="each replica may lack"):
        ask(ElectMaster(GROUP, 9), story.now_ms)


def test_force_waits_for_the_dead_time_and_names_the_lost_range() -> None:
    story = Group(group(in_sync="a"), ends={"a": 1500, "b": 1200, "c": 900})
    story.silent = {"a"}
    story.pass_ms(1500)
    force = ElectMaster(GROUP, 7, "c", force=True)
    with pytest.raises(MasterStillAlive) as early:
        story.detection.operator_election(force, story.now_ms)
    assert early.value.wait_ms == 500
    story.pass_ms(500)
    choice = story.detection.operator_election(force, story.now_ms)
    assert (choice.node.master, choice.node.in_sync, choice.node.eligible) == ("c", ("c",), ())
    assert choice.record is not None
    assert (choice.record.lost_begin, choice.record.lost_end) == (900, 1500)


def test_a_restored_group_waits_one_dead_time_for_masters_it_does_not_know() -> None:
    """One that has not heard of the restore leads an earlier epoch, and may acknowledge alone."""
    story = Group(group(in_sync="", master=None, epoch=6))
    assert elections(story.pass_ms(1500)) == [], "nobody is electable"
    with pytest.raises(MasterStillAlive) as early:
        story.detection.operator_election(ElectMaster(GROUP, 7, "b", force=True), story.now_ms)
    assert (early.value.master, early.value.wait_ms) == ("", 500)
    story.pass_ms(3500)
    choice = story.detection.operator_election(ElectMaster(GROUP, 7, "b", force=True), story.now_ms)
    assert (choice.node.master, choice.node.epoch, choice.node.in_sync) == ("b", 7, ("b",))


def test_force_on_one_that_holds_all_is_an_election_like_others() -> None:
    story = Group(group())
    choice = story.detection.operator_election(ElectMaster(GROUP, 7, "b", force=True), story.now_ms)
    assert (choice.record, choice.node.in_sync) == (None, ("a", "b", "c"))


# ---- a whole failover


def test_a_failover_from_kill_to_a_full_set() -> None:
    story = Group(group(), ends={"b": 1100})
    story.silent = {"a"}
    story.report("b")
    story.report("c")
    (election,) = [effect for effect in story.pass_ms(300) if isinstance(effect, WriteGroup)]
    assert story.written(election.node) == [TellReplicas(story.known)]
    back: tuple[Replica, ...] = tuple(replica("a", 2) if r.name == "a" else r for r in story.known.node.replicas)
    story.known = KnownGroup(replace(story.known.node, replicas=back), story.known.version + 1)
    assert story.detection.on_registered(story.known, registration("a", 2), story.now_ms) == [TellReplicas(story.known)]
    story.silent = set()
    joined = AlterInSync(GROUP, story.known.version, 2, "b", "store-b", 1, ("a", "b", "c"))
    assert story.written(alter_in_sync(story.known, joined)) == [TellReplicas(story.known)]
    assert elections(story.pass_ms(5000)) == []
    assert story.known.node.in_sync == ("a", "b", "c")


# ---- the dead of a loss of power


def test_who_was_not_heard_within_a_second_is_not_elected() -> None:
    """All lost their power at once, b a moment after a: b is as dead as a when a's dead time is over."""
    story = Group(group("ab", in_sync="ab", min_in_sync=1))
    story.pass_ms(500)
    story.silent = {"a"}
    story.pass_ms(500)
    story.silent = {"a", "b"}
    assert elections(story.pass_ms(20_000)) == []
    story.silent = {"a"}
    assert elections(story.pass_ms(500)) == [("b", 7)], "it is back"


def test_a_leader_that_has_just_begun_listens_before_it_elects() -> None:
    """b registers first and is eligible only; a, which is in sync, beats a moment later."""
    node = group("abc", in_sync="a", eligible="b", master=None, epoch=4)
    detection = Detection()
    detection.on_group(KnownGroup(node, 7), 50_000)
    assert elections(detection.on_heartbeat(heartbeat("b", epoch=4), 50_100)) == []
    assert elections(detection.on_heartbeat(heartbeat("a", epoch=4), 50_200)) == [("a", 7)]


def test_a_leader_that_has_listened_waits_for_nobody() -> None:
    node = group("abc", in_sync="a", eligible="b", master=None, epoch=4)
    detection = Detection()
    detection.on_group(KnownGroup(node, 7), 50_000)
    assert elections(detection.on_heartbeat(heartbeat("b", epoch=4), 50_500)) == []
    assert elections(detection.on_tick(50_000 + HEARD_MS)) == [("b", 7)]


# ---- masters that stall


def elect_and_tell(story: Group, effects: list[Effect]) -> str | None:
    """The one election among the effects is written; whom it made master."""
    (election,) = [effect for effect in effects if isinstance(effect, WriteGroup)]
    story.written(election.node)
    return election.node.master


def test_a_chosen_master_that_does_not_promise_is_passed_over() -> None:
    story = Group(group(in_sync="bc", master="b", epoch=2))
    story.facts = {"b": {"epoch": 1}}
    assert elections(story.pass_ms(DEAD_AFTER_MS - 100)) == []
    (election,) = story.pass_ms(100)
    assert isinstance(election, WriteGroup)
    assert (election.node.master, election.node.epoch, election.node.in_sync) == ("c", 3, ("c",))
    assert election.node.eligible == ("b",)
    assert election.why == "b has not promised epoch 2 in 2000 ms; it is passed over for 15000 ms"


def test_two_that_do_not_promise_are_not_elected_in_turn() -> None:
    story = Group(group(in_sync="bc", master="b", epoch=2))
    story.facts = {"b": {"epoch": 1}, "c": {"epoch": 1}}
    assert elect_and_tell(story, story.pass_ms(DEAD_AFTER_MS)) == "c"
    effects = story.pass_ms(120_000)
    assert effects == [Stalled(GROUP, "c has not promised epoch 3 in 2000 ms")], "told once"
    story.facts = {"c": {"epoch": 1}}  # b has promised all that it heard of since
    assert elect_and_tell(story, story.pass_ms(500)) == "b"
    assert story.pass_ms(60_000) == []


def test_one_that_does_not_promise_is_elected_again_where_the_other_is_dead() -> None:
    """Who died is no better; and the next election needs another death."""
    story = Group(group("bc", in_sync="bc", master="b", epoch=2, min_in_sync=1))
    story.facts = {"b": {"epoch": 1}}
    assert elect_and_tell(story, story.pass_ms(DEAD_AFTER_MS)) == "c"
    node = replace(story.known.node, in_sync=("b", "c"))
    story.written(node)
    story.silent = {"c"}
    assert elect_and_tell(story, story.pass_ms(DEAD_AFTER_MS + 500)) == "b"
    assert [type(effect) for effect in story.pass_ms(30_000)] == [Stalled]


HANGS = {"sync_pending_ms": DEAD_AFTER_MS}


def test_a_master_whose_disk_hangs_gives_up_under_sync() -> None:
    story = Group(group(flush_mode=FlushMode.SYNC))
    story.facts = {"a": {"sync_pending_ms": DEAD_AFTER_MS - 1}}
    assert elections(story.pass_ms(10_000)) == []
    story.facts = {"a": HANGS}
    effects = story.pass_ms(500)
    assert "the disk of a does not finish a sync" in effects[0].why  # type: ignore[union-attr]
    assert elect_and_tell(story, effects) == "b"
    assert story.known.node.in_sync == ("b", "c"), "nobody waits for its disk"
    assert story.pass_ms(60_000) == [], "one that hangs is no candidate, and the others serve"


def test_under_async_nobody_waits_for_a_disk_that_hangs() -> None:
    story = Group(group())
    story.facts = {"a": HANGS}
    assert story.pass_ms(60_000) == []


def test_disks_that_all_hang_are_no_reason_to_change_the_master() -> None:
    story = Group(group(flush_mode=FlushMode.SYNC))
    story.facts = {"b": HANGS}
    story.beat()
    story.facts = {"a": HANGS, "b": HANGS}
    told = Stalled(GROUP, "the disk of a does not finish a sync")
    assert story.pass_ms(60_000) == [told], "c alone is below the minimum"


def test_a_full_master_gives_up_where_enough_others_have_room() -> None:
    story = Group(group())
    story.facts = {"b": {"no_room_ms": 1}}
    story.beat()
    story.facts = {"a": {"no_room_ms": DEAD_AFTER_MS}, "b": {"no_room_ms": 1}}
    assert story.pass_ms(60_000) == [Stalled(GROUP, "the disk of a is full")]
    story.facts = {"a": {"no_room_ms": DEAD_AFTER_MS}}
    assert elect_and_tell(story, story.pass_ms(500)) == "b"


CUT_OFF = {"cut_off_ms": DEAD_AFTER_MS}


def test_a_master_that_no_slave_reaches_gives_up() -> None:
    story = Group(group(in_sync="a", eligible="bc"), ends={"c": 1500})
    story.facts = {"a": CUT_OFF, "b": CUT_OFF, "c": CUT_OFF}
    assert elect_and_tell(story, story.pass_ms(500)) == "c"
    assert (story.known.node.in_sync, story.known.node.eligible) == (("c",), ("a", "b"))


@pytest.mark.parametrize(
    "facts",
    [
        {"b": CUT_OFF, "c": CUT_OFF},
        {"a": CUT_OFF, "b": CUT_OFF},
        {"a": CUT_OFF, "b": CUT_OFF, "c": {"cut_off_ms": DEAD_AFTER_MS - 1}},
        {"a": CUT_OFF, "b": CUT_OFF, "c": CUT_OFF | {"no_room_ms": 1}},
        {"a": CUT_OFF, "b": CUT_OFF, "c": CUT_OFF | {"epoch": 0}},
    ],
    ids=["the master serves", "c has a session", "not for long", "c is full", "c speaks of another term"],
)
def test_a_master_keeps_its_term_where_nobody_would_do_better(facts: dict[str, dict[str, int]]) -> None:
    story = Group(group(in_sync="a", eligible="bc"))
    story.facts = facts
    assert story.pass_ms(60_000) == []


def test_links_that_are_cut_everywhere_change_the_master_once_each_while_they_are_passed_over() -> None:
    story = Group(group(in_sync="a", eligible="bc"))
    story.facts = {"a": CUT_OFF, "b": CUT_OFF, "c": CUT_OFF}
    elected = []
    for _ in range(PASSED_OVER_MS // 500 - 2):
        effects = story.pass_ms(500)
        if elections(effects):
            elected.append(elect_and_tell(story, effects))
    assert elected == ["b", "c"]
    changes = 0
    for _ in range(1200):
        effects = story.pass_ms(500)
        if elections(effects):
            changes += 1
            elect_and_tell(story, effects)
    assert changes < 20, "in ten minutes: each is passed over for twice as long as the last time"


def test_one_that_was_passed_over_comes_back_after_a_while() -> None:
    story = Group(group(flush_mode=FlushMode.SYNC))
    story.facts = {"a": HANGS}
    elect_and_tell(story, story.pass_ms(500))
    story.facts = {}
    story.written(replace(story.known.node, in_sync=("a", "b")))
    story.ends = {"a": 5000}
    story.pass_ms(PASSED_OVER_MS)
    story.silent = {"b"}
    assert elect_and_tell(story, story.pass_ms(DEAD_AFTER_MS + 500)) == "a"


# ---- replicas that drain


def test_a_master_that_drains_is_replaced_by_the_longest_log_in_sync_and_stays_in_sync() -> None:
    story = Group(group(), ends={"a": 2000, "b": 1500, "c": 2000})
    story.facts["a"] = {"drains": True}
    effects = story.beat()
    assert elections(effects) == [("c", 7)]
    (write,) = [effect for effect in effects if isinstance(effect, WriteGroup)]
    assert (write.why, write.node.epoch, write.node.in_sync) == ("master a drains", 2, ("a", "b", "c"))
    story.written(write.node)
    assert elections(story.pass_ms(20_000)) == []


def test_two_that_drain_do_not_pass_the_group_to_and_fro() -> None:
    story = Group(group(in_sync="ab"))
    story.facts["b"] = {"drains": True}
    story.beat()
    story.facts["a"] = {"drains": True}
    assert elections(story.pass_ms(20_000)) == []
    del story.facts["b"]
    assert elections(story.pass_ms(500)) == [("b", 7)]


@pytest.mark.parametrize("hindered", [{"no_room_ms": 1}, {"sync_pending_ms": 1000}, {"drains": True}])
def test_who_could_not_do_better_does_not_take_over_from_a_master_that_drains(hindered: dict[str, int]) -> None:
    story = Group(group(in_sync="ab"))
    story.facts["b"] = hindered
    story.beat()
    story.facts["a"] = {"drains": True}
    assert elections(story.pass_ms(5_000)) == []


def test_a_replica_that_drains_is_elected_if_nobody_else_can_be() -> None:
    story = Group(group(), ends={"b": 900, "c": 2000})
    story.facts["c"] = {"drains": True}
    story.silent = {"a"}
    assert elections(story.pass_ms(3000)) == [("b", 7)]
    story = Group(group(), ends={"c": 2000})
    story.facts["c"] = {"drains": True}
    story.silent = {"a", "b"}
    assert elections(story.pass_ms(3000)) == [("c", 7)]


def test_an_operator_elects_a_replica_that_drains_by_force_only() -> None:
    story = Group(group(), ends={"b": 2000})
    story.facts["b"] = {"drains": True}
    story.beat()
    with pytest.raises(ReplicaDrains, match="--undo"):
        story.detection.operator_election(ElectMaster(GROUP, 7, "b"), story.now_ms)
    assert story.detection.operator_election(ElectMaster(GROUP, 7), story.now_ms).node.master == "c"
    assert story.detection.operator_election(ElectMaster(GROUP, 7, "b", True), story.now_ms).node.master == "b"


def test_a_process_that_was_started_anew_does_not_drain_any_more() -> None:
    story = Group(group())
    story.facts["b"] = {"drains": True}
    story.beat()
    again = replace(story.known.node, replicas=(replica("a"), replica("b", starts=2), replica("c")))
    story.facts.clear()
    story.written(again)
    story.beat()
    assert story.detection.operator_election(ElectMaster(GROUP, 8, "b"), story.now_ms).node.master == "b"
