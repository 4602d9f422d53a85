"""A term over the model of ZooKeeper: what is written, answered and pushed, in which order, and what goes wrong.

Nothing happens by itself: the worker does its next job when the story says so (`work`), the clock moves by `pass_ms`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from sim.group_kit import GROUP, group, heartbeat, registration, replica, report
from sim.group_kit import proposal as plain_proposal
from sim.model_zookeeper import Content, Loss, ModelZooKeeper

from zenitmq.broker.group.controller_link import WRITE_TIMEOUT_MS
from zenitmq.broker.group.leader_search import PAUSE_MS_MAX
from zenitmq.controller.cluster_naming import ClusterNaming
from zenitmq.controller.group.detection import Detection
from zenitmq.controller.group.founding import FOUND_LISTEN_MS
from zenitmq.controller.group_store import StoreEvent, Touched
from zenitmq.controller.hearing import SEEN_GROUPS_MAX
from zenitmq.controller.leadership_term import TICK_MS, LeadershipTerm
from zenitmq.controller.store_worker import StoreWorker
from zenitmq.model.errors import (
    BrokerBusy,
    ConfigError,
    GroupIdUnclear,
    GroupNodeDamaged,
    GroupNodeLost,
    InvalidParameter,
    MasterStillAlive,
    NotFlushed,
    NotLeadingController,
    ReplicaGroupNotFound,
    SightingsDamaged,
    StaleEpoch,
    StaleGroupVersion,
    TooManyLostGroups,
    WrongCluster,
    ZenitError,
    ZooKeeperUnavailable,
)
from zenitmq.model.groups.group import FlushMode, GroupNode, GroupSettings, KnownGroup, Seen, Sighting
from zenitmq.model.groups.group_codec import decode_node, encode_node, encode_seen
from zenitmq.remoting.commands import (
    SEEN_DAMAGED,
    ChangeGroup,
    ElectMaster,
    GetGroup,
    GroupChanged,
    GroupReply,
    ProbeReplica,
    RemoveReplica,
    Reply,
    Request,
    RestoreGroup,
)
from zenitmq.remoting.timers import Timer

WALL_MS = 1_700_000_000_000
CALL_MS = 9000


@dataclass(eq=False)
class Asked:
    """A request, and what came of it."""

    request: Request
    identity: bytes
    deadline_ms: int = 0
    reply: GroupReply | None = None
    error: ZenitError | None = None
    user: str = "eva"

    def node(self) -> GroupNode:
        assert self.error is None, self.error
        assert self.reply is not None
        return decode_node(self.reply.node, GROUP)


@dataclass(frozen=True)
class Round:
    """Replicas that were asked to flush; `then` ends it."""

    node: GroupNode
    names: frozenset[str]
    timeout_ms: int
    then: Callable[[frozenset[str]], None]


class HandLoop:
    """Keeps what is sent; its timers run when time passes. Its own clock and executor, too."""

    def __init__(self) -> None:
        self.time_ms = 10_000
        self.pushed: list[tuple[bytes, Request]] = []
        self.gone: set[bytes] = set()
        self.jobs: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._timers: list[tuple[int, Timer]] = []

    # the clock
    def monotonic_ms(self) -> int:
        return self.time_ms

    def now_ms(self) -> int:
        return WALL_MS + self.time_ms

    # the executor
    def submit(self, work: Callable[..., None], *arguments: Any) -> None:
        self.jobs.append((work, arguments))

    # the loop
    def post(self, callback: Callable[[], None]) -> None:
        callback()

    def reply(self, call: Any, reply: Reply, payload: Sequence[bytes | memoryview] = ()) -> None:
        assert isinstance(reply, GroupReply)
        assert call.reply is None
        call.reply = reply

    def fail(self, call: Any, error: ZenitError) -> None:
        assert call.error is None
        call.error = error

    def send_to(self, identity: bytes, request: Request, payload: Sequence[bytes | memoryview] = ()) -> bool:
        if identity not in self.gone:
            self.pushed.append((identity, request))
        return identity not in self.gone

    def every(self, interval_ms: int, callback: Callable[[], None]) -> Timer:
        self._timers.append((interval_ms, Timer(callback, interval_ms)))
        return self._timers[-1][1]

    def pass_ms(self, duration_ms: int) -> None:
        for _ in range(duration_ms // TICK_MS):
            self.time_ms += TICK_MS
            for _, timer in self._timers:
                if not timer.cancelled:
                    timer.callback()


def _never() -> None:
    """The loop has room for every answer."""
    raise AssertionError("an answer was dropped")


class Story:
    """One term; replica "a" speaks on connection b"a", and so on."""

    def __init__(
        self,
        node: GroupNode | None = None,
        *,
        waiting_max: int = 100,
        begin: bool = True,
        listen_ms: int = 0,
        replicas: int = 0,
        zookeeper: ModelZooKeeper | None = None,
    ) -> None:
        self.zookeeper = zookeeper or ModelZooKeeper()
        if node is not None:
            self.zookeeper.apply(GROUP, encode_node(node), None)
        self.loop = HandLoop()
        self.rounds: list[Round] = []
        self.store = self.zookeeper.store(self._on_event)
        self.naming = ClusterNaming(cluster="zenit")
        self.naming.on_read(self.zookeeper.cluster_id)
        self.term = LeadershipTerm(
            self.store,
            StoreWorker(self.loop, self.loop, waiting_max=waiting_max, on_dropped=_never),  # type: ignore[arg-type]
            self.loop,
            self.loop,  # type: ignore[arg-type]
            detection=Detection(),
            new_group=GroupSettings(min_in_sync=2),
            listen_ms=listen_ms,
            found_listen_ms=listen_ms,
            new_group_replicas=replicas,
            naming=self.naming,
        )
        if begin:
            self.term.begin()
            self.work()

    def _on_event(self, event: StoreEvent) -> None:
        if isinstance(event, Touched):
            self.term.on_touched(event.broker_name)

    def work(self, count: int | None = None) -> None:
        """The worker does its next jobs; all of them, and those that follow, for None."""
        while self.loop.jobs and count != 0:
            work, arguments = self.loop.jobs.popleft()
            work(*arguments)
            count = None if count is None else count - 1

    def ask(self, handler: Callable[[Any], Reply | None], request: Request, name: str = "x") -> Asked:
        """As the request loop does it: what a handler raises or returns is the answer."""
        asked = Asked(request, name.encode(), self.loop.time_ms + CALL_MS)
        try:
            reply = handler(asked)
        except ZenitError as error:
            self.loop.fail(asked, error)
        else:
            if reply is not None:
                self.loop.reply(asked, reply)
        return asked

    def register(self, name: str, starts: int = 1, **facts: Any) -> Asked:
        return self.ask(self.term.on_register, registration(name, starts, **facts), name)

    def beat(self, names: str = "abc", **changed: Any) -> list[Asked]:
        return [self.ask(self.term.on_heartbeat, heartbeat(name, **changed), name) for name in names]

    def change(self, version: int, name: str, value: str) -> Asked:
        """One setting."""
        handler = partial(self.term.on_change_group, flush=lambda *round_: self.rounds.append(Round(*round_)))
        return self.ask(handler, ChangeGroup(GROUP, version, ((name, value),)))

    def propose(self, in_sync: str, version: int, **changed: Any) -> Asked:
        return self.ask(self.term.on_alter_in_sync, plain_proposal(in_sync, version=version, **changed), "a")

    def known(self) -> KnownGroup:
        asked = self.ask(self.term.on_get_group, GetGroup(GROUP))
        return KnownGroup(asked.node(), asked.reply.version)  # type: ignore[union-attr]

    def stored(self) -> GroupNode:
        return decode_node(self.zookeeper.groups[GROUP].data, GROUP)

    def pushes(self, kind: type[Request] = GroupChanged) -> dict[str, list[Any]]:
        """{replica: what was pushed to it}, of a kind; forgotten then."""
        found: dict[str, list[Any]] = {}
        for identity, request in self.loop.pushed:
            if isinstance(request, kind):
                found.setdefault(identity.decode(), []).append(request)
        self.loop.pushed = [(to, request) for to, request in self.loop.pushed if not isinstance(request, kind)]
        return found


# ---- beginning


def test_it_is_ready_once_every_group_was_read() -> None:
    story = Story(group(), begin=False)
    story.term.begin()
    assert not story.term.is_ready
    story.work()
    assert story.term.is_ready
    assert story.term.broker_names == (GROUP,)
    assert story.known() == KnownGroup(group(), 0)


def test_zookeeper_that_does_not_answer_is_asked_again() -> None:
    story = Story(group(), begin=False)
    story.zookeeper.suspend(story.store)
    story.term.begin()
    story.work()
    story.loop.pass_ms(400)
    assert not story.loop.jobs
    story.loop.pass_ms(200)
    story.zookeeper.resume(story.store)
    story.work()
    assert story.term.is_ready


def test_a_node_that_makes_no_sense_stops_its_group_alone() -> None:
    story = Story(group(), begin=False)
    story.zookeeper.apply("broker-z", b"{}", None)
    story.term.begin()
    story.work()
    assert story.term.broker_names == (GROUP, "broker-z")
    assert isinstance(story.ask(story.term.on_get_group, GetGroup("broker-z")).error, GroupNodeDamaged)
    asked = story.ask(story.term.on_register, registration("a", broker_name="broker-z", epoch=5))
    assert isinstance(asked.error, GroupNodeDamaged), "it is not lost"
    mended = encode_node(replace(group(), broker_name="broker-z"))
    story.zookeeper.apply("broker-z", mended, 0)
    story.work()
    assert story.ask(story.term.on_get_group, GetGroup("broker-z")).error is None


# ---- registering


def test_the_first_founds_its_group_and_is_elected() -> None:
    story = Story()
    asked = story.register("a")
    assert asked.reply is None, "not before it was written"
    story.work(1)
    assert asked.node() == replace(group("a", in_sync="a", master=None, epoch=0), group_id="store-a", cluster_id="c1")
    assert story.stored().master is None
    story.work()
    assert (story.stored().master, story.stored().epoch) == ("a", 1)
    assert [push.version for push in story.pushes()["a"]] == [0, 1]


def test_the_same_life_asked_twice_is_written_once() -> None:
    story = Story()
    story.register("a")
    story.work()
    version = story.known().version
    again = story.register("a")
    assert (again.reply.version, story.loop.jobs) == (version, deque())  # type: ignore[union-attr]


def test_a_group_that_zookeeper_forgot_is_not_founded_again() -> None:
    story = Story()
    asked = story.register("a", epoch=4)
    assert isinstance(asked.error, GroupNodeLost)
    assert story.zookeeper.groups == {}


def test_a_registration_built_on_an_old_node_is_decided_anew() -> None:
    """Somebody else wrote the node, and nobody has told us yet."""
    story = Story(group("a", in_sync="a"))
    story.zookeeper.hold_events = True
    story.zookeeper.apply(GROUP, encode_node(group("ab", in_sync="ab")), 0)
    asked = story.register("c", log_end=0)
    story.work()
    assert [one.name for one in asked.node().replicas] == ["a", "b", "c"]
    assert asked.node().in_sync == ("a", "b")


@pytest.mark.parametrize(("confirm", "in_sync"), [(1000, ("a", "b", "c")), (1001, ("a", "c"))])
def test_who_comes_back_without_what_the_master_told_to_be_confirmed_leaves(
    confirm: int, in_sync: tuple[str, ...]
) -> None:
    """Its log ends at 1000; nothing else about it is odd."""
    story = Story(group())
    story.beat("a", confirm_offset=confirm)
    asked = story.register("b", 2, clean_marker=False, marker_end=-1)
    story.work()
    assert asked.node().in_sync == in_sync


def test_one_that_others_write_all_the_time_is_told_to_come_again() -> None:
    story = Story(group("a", in_sync="a"))
    story.zookeeper.hold_events = True
    asked = story.register("c", log_end=0)
    while asked.error is None:
        content = story.zookeeper.groups[GROUP]
        story.zookeeper.apply(GROUP, content.data, content.version)
        assert story.loop.jobs
        story.work(1)
    assert isinstance(asked.error, BrokerBusy)


# ---- the in-sync set


def led() -> Story:
    """Three replicas in sync under "a", all heard; nothing pushed yet."""
    story = Story(group())
    story.beat()
    story.loop.pushed.clear()
    return story


def test_a_proposal_is_written_then_answered_then_told_to_all() -> None:
    story = led()
    asked = story.propose("ab", 0)
    assert (asked.reply, story.pushes()) == (None, {})
    story.work()
    assert asked.node().in_sync == ("a", "b")
    assert {name: [push.version for push in pushes] for name, pushes in story.pushes().items()} == {
        name: [1] for name in "abc"
    }


def test_proposals_take_turns_and_the_second_is_too_late() -> None:
    story = led()
    first, second = story.propose("ab", 0), story.propose("ac", 0)
    assert len(story.loop.jobs) == 1
    story.work()
    assert first.node().in_sync == ("a", "b")
    assert isinstance(second.error, StaleGroupVersion)


def test_a_proposal_that_waited_behind_an_election_is_of_an_old_epoch() -> None:
    story = led()
    story.ask(story.term.on_elect, ElectMaster(GROUP, 0, "b"))
    asked = story.propose("ab", 0)
    story.work()
    assert story.stored().master == "b"
    assert isinstance(asked.error, StaleEpoch)


@pytest.mark.parametrize("loss", [Loss.BEFORE, Loss.AFTER, Loss.LATER])
def test_a_lost_answer_settles_nothing_and_what_is_true_is_read(loss: Loss) -> None:
    story = led()
    story.store.next_write = loss
    asked = story.propose("ab", 0)
    story.work()
    assert isinstance(asked.error, ZooKeeperUnavailable)
    assert (story.known().version, story.known().node) == (0 if loss is not Loss.AFTER else 1, story.stored())
    story.zookeeper.carry_out_late()
    story.work()
    assert story.known().node == story.stored()
    assert story.known().version == (0 if loss is Loss.BEFORE else 1)


# ---- elections


def test_a_silent_master_is_replaced() -> None:
    story = led()
    for _ in range(5):
        story.loop.pass_ms(450)
        story.beat("bc")
    assert len(story.loop.jobs) == 1, "one election, whatever happens meanwhile"
    story.work()
    assert (story.stored().master, story.stored().epoch, story.stored().in_sync) == ("b", 2, ("b", "c"))
    pushed = story.pushes()
    assert decode_node(pushed["c"][-1].node, GROUP).master == "b"


def test_a_master_that_its_slaves_lost_is_probed_on_its_connection() -> None:
    story = led()
    for name in "bc":
        assert story.ask(story.term.on_master_gone, report(name), name).error is None
    assert story.pushes(ProbeReplica) == {"a": [ProbeReplica(GROUP, 1)]}
    story.loop.pass_ms(250)
    assert not story.loop.jobs
    story.loop.pass_ms(100)
    story.work()
    assert story.stored().epoch == 2


def test_a_probe_that_is_answered_ends_the_suspicion() -> None:
    story = led()
    for name in "bc":
        story.ask(story.term.on_master_gone, report(name), name)
    story.loop.pass_ms(250)
    story.beat("a", probe=1)
    story.loop.pass_ms(200)
    assert not story.loop.jobs


@pytest.mark.parametrize("loss", [Loss.BEFORE, Loss.AFTER, Loss.LATER])
def test_an_election_without_an_answer_is_decided_anew(loss: Loss) -> None:
    story = led()
    story.store.next_write = loss
    for _ in range(5):
        story.loop.pass_ms(450)
        story.beat("bc")
    story.work()
    story.zookeeper.carry_out_late()
    story.work()
    assert (story.stored().master, story.stored().epoch) == ("b", 2)
    assert story.known().node == story.stored()


def test_an_election_goes_before_those_that_wait() -> None:
    story = led()
    story.propose("abc", 0)
    waits = story.propose("ab", 1)
    for _ in range(5):
        story.loop.pass_ms(450)
        story.beat("bc")
    story.work()
    assert story.stored().master == "b"
    assert isinstance(waits.error, StaleEpoch)


def test_while_zookeeper_is_away_it_is_read_until_it_answers() -> None:
    story = led()
    story.zookeeper.suspend(story.store)
    for _ in range(8):
        story.loop.pass_ms(450)
        story.beat("bc")
        story.work()
    assert story.stored().epoch == 1
    story.zookeeper.resume(story.store)
    for _ in range(3):
        story.loop.pass_ms(450)
        story.beat("bc")
        story.work()
    assert story.stored().epoch == 2


def test_a_connection_that_is_gone_is_not_pushed_to_again() -> None:
    story = led()
    story.loop.gone.add(b"c")
    story.propose("abc", 0)
    story.work()
    assert set(story.pushes()) == {"a", "b"}
    story.loop.gone.clear()
    story.propose("abc", 1)
    story.work()
    assert set(story.pushes()) == {"a", "b"}
    story.beat("c")
    story.propose("abc", 2)
    story.work()
    assert set(story.pushes()) == {"a", "b", "c"}


# ---- heartbeats


def test_a_heartbeat_is_answered_with_the_node_unless_it_has_it() -> None:
    story = Story(group())
    has, has_not = story.beat("a", version=0)[0], story.beat("a", version=-1)[0]
    assert has.reply == GroupReply(0, b"")
    assert has_not.node() == group()


def test_a_replica_that_knows_more_makes_us_read() -> None:
    story = Story(group())
    story.zookeeper.hold_events = True
    story.zookeeper.apply(GROUP, encode_node(group(in_sync="ab")), 0)
    story.beat("a", version=1)
    story.loop.pass_ms(500)
    story.work()
    assert story.known().version == 1


def test_a_group_that_is_not_known_must_register() -> None:
    assert isinstance(Story().beat("a")[0].error, ReplicaGroupNotFound)


# ---- operators


def test_a_forced_election_keeps_its_record_first() -> None:
    story = Story(group(in_sync="a"))
    story.loop.pass_ms(2000)
    story.beat("c", log_end=500)
    story.store.next_write = Loss.BEFORE
    asked = story.ask(story.term.on_elect, ElectMaster(GROUP, 0, "c", force=True))
    story.work()
    assert isinstance(asked.error, ZooKeeperUnavailable)
    (record,) = map(json.loads, story.zookeeper.kept_records)
    assert (record["elected"], record["epoch"], record["in_sync"]) == ("c", 2, ["a"])
    assert (record["at_ms"], record["by"]) == (WALL_MS + 12_000, "eva")
    story.beat("c", log_end=500)
    done = story.ask(story.term.on_elect, ElectMaster(GROUP, 0, "c", force=True))
    story.work()
    assert (done.node().master, done.node().epoch) == ("c", 2)


def test_without_its_record_nothing_is_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(group(in_sync="a"))
    story.loop.pass_ms(2000)
    story.beat("c")

    def refuse(record: bytes) -> str:
        raise ZooKeeperUnavailable("keep a record", "no answer")

    monkeypatch.setattr(story.store, "append_record", refuse)
    asked = story.ask(story.term.on_elect, ElectMaster(GROUP, 0, "c", force=True))
    story.work()
    assert isinstance(asked.error, ZooKeeperUnavailable)
    assert story.stored() == group(in_sync="a")


def test_settings_are_changed_on_the_version_that_was_named() -> None:
    story = led()
    asked = story.change(0, "min_in_sync", "3")
    late = story.change(0, "min_in_sync", "1")
    wrong = story.change(1, "colour", "red")
    story.work()
    assert asked.node().settings.min_in_sync == 3
    assert isinstance(late.error, StaleGroupVersion)
    assert isinstance(wrong.error, InvalidParameter)
    assert story.rounds == []


def test_a_group_goes_over_to_sync_once_all_that_may_be_elected_have_flushed() -> None:
    story = Story(group(in_sync="a", eligible="b"))
    asked = story.change(0, "flush_mode", "sync")
    (round_,) = story.rounds
    assert (round_.node, round_.names, round_.timeout_ms) == (group(in_sync="a", eligible="b"), {"a", "b"}, 6000)
    assert not story.loop.jobs
    assert asked.reply is None
    round_.then(frozenset("ab"))
    story.work()
    assert asked.node().settings.flush_mode is FlushMode.SYNC
    assert story.stored() == asked.node()
    assert len(story.rounds) == 1


@pytest.mark.parametrize("flushed", ["", "ab"])
def test_where_one_does_not_flush_nothing_is_written(flushed: str) -> None:
    story = led()
    asked = story.change(0, "flush_mode", "sync")
    story.rounds[0].then(frozenset(flushed))
    story.work()
    assert isinstance(asked.error, NotFlushed)
    assert asked.error.replicas == ("c" if flushed else "a, b, c")
    assert story.stored() == group()


def test_other_changes_go_on_while_replicas_flush_and_outdate_it() -> None:
    """Who has to have flushed may be others then."""
    story = led()
    asked = story.change(0, "flush_mode", "sync")
    proposed = story.propose("ab", 0)
    story.work()
    assert proposed.node().in_sync == ("a", "b")
    story.rounds[0].then(frozenset("abc"))
    story.work()
    assert isinstance(asked.error, StaleGroupVersion)
    assert story.stored().settings.flush_mode is FlushMode.ASYNC


def test_a_flush_that_ends_after_the_term_changes_nothing() -> None:
    story = led()
    asked = story.change(0, "flush_mode", "sync")
    story.term.end()
    assert asked.error is None
    story.rounds[0].then(frozenset("abc"))
    story.work()
    assert isinstance(asked.error, NotLeadingController)
    assert story.stored() == group()


def test_going_over_to_async_needs_no_flush() -> None:
    story = Story(group(flush_mode=FlushMode.SYNC))
    asked = story.change(0, "flush_mode", "async")
    story.work()
    assert asked.node().settings.flush_mode is FlushMode.ASYNC
    assert story.rounds == []


def test_a_replica_is_removed() -> None:
    story = led()
    asked = story.ask(story.term.on_remove_replica, RemoveReplica(GROUP, 0, "c"))
    story.work()
    assert asked.node().replicas == (replica("a"), replica("b"))


# ---- ZooKeeper lost data, or was set back


def restored(story: Story, version: int, epoch: int, group_id: str = "") -> Asked:
    asked = story.ask(story.term.on_restore, RestoreGroup(GROUP, version, epoch, group_id))
    story.work()
    return asked


def elected(story: Story) -> tuple[str | None, int]:
    return story.stored().master, story.stored().epoch


def test_a_lost_group_is_restored_above_what_replicas_have_seen() -> None:
    story = Story()
    assert isinstance(story.register("a", epoch=7).error, GroupNodeLost)
    asked = restored(story, -1, 7)
    assert (asked.node().epoch, asked.node().master, asked.node().settings.min_in_sync) == (8, None, 2)
    assert asked.node().group_id == "store-a"
    assert story.register("a", epoch=7).error is None
    story.work()
    assert story.stored().master is None, "nobody is electable"
    story.loop.pass_ms(2000)
    story.beat("a", epoch=7)
    version = story.known().version
    early = story.ask(story.term.on_elect, ElectMaster(GROUP, version, "a", True))
    assert isinstance(early.error, MasterStillAlive), "it has not promised the epoch of the restore"
    story.beat("a", epoch=8)
    forced = story.ask(story.term.on_elect, ElectMaster(GROUP, version, "a", True))
    story.work()
    assert (forced.error, elected(story)) == (None, ("a", 9))


def test_a_refused_epoch_is_remembered_and_stops_elections() -> None:
    """b has led epoch 7; ZooKeeper was set back to epoch 5, in which a was in sync too."""
    story = Story(group("ab", in_sync="ab", epoch=5, min_in_sync=1))
    assert isinstance(story.register("b", 2, epoch=7, log_end=9000).error, GroupNodeLost)
    story.work()
    assert story.zookeeper.seen[GROUP] == encode_seen(Seen(GROUP, (Sighting("store-a", 7),)))
    asked = story.register("a", 2, epoch=5)
    story.work()
    assert isinstance(asked.error, GroupNodeLost)
    for _ in range(40):
        story.beat("a", epoch=5)
        story.loop.pass_ms(500)
        story.work()
    assert elected(story) == ("a", 5)
    for name in ("", "a"):
        refused = story.ask(story.term.on_elect, ElectMaster(GROUP, 0, name, True))
        assert isinstance(refused.error, GroupNodeLost)
    assert isinstance(story.propose("a", 0, epoch=5).error, GroupNodeLost)
    assert isinstance(story.change(0, "min_in_sync", "1").error, GroupNodeLost)
    assert isinstance(story.ask(story.term.on_remove_replica, RemoveReplica(GROUP, 0, "b")).error, GroupNodeLost)
    assert story.ask(story.term.on_get_group, GetGroup(GROUP)).reply.seen_epoch == 7  # type: ignore[union-attr]


def test_where_there_is_no_node_a_remembered_epoch_stops_founding() -> None:
    story = Story()
    assert isinstance(story.register("b", 2, epoch=7).error, GroupNodeLost)
    story.work()
    wiped = story.register("c", store_id="new", epoch=0, log_end=0, group_id="")
    story.work()
    assert isinstance(wiped.error, GroupNodeLost)
    assert story.zookeeper.groups == {}
    assert story.term.broker_names == (GROUP,), "an operator is told"
    assert isinstance(story.ask(story.term.on_get_group, GetGroup(GROUP)).error, GroupNodeLost)
    for is_forced in (False, True):
        elected = story.ask(story.term.on_elect, ElectMaster(GROUP, -1, "b", is_forced))
        assert isinstance(elected.error, GroupNodeLost)
    unknown = story.ask(story.term.on_get_group, GetGroup("broker-z")).error
    assert isinstance(unknown, ReplicaGroupNotFound)


def test_what_was_seen_and_cannot_be_read_stops_its_group_until_it_is_restored() -> None:
    story = Story(group("ab", in_sync="ab", epoch=5))
    story.term.end()
    story.zookeeper.seen[GROUP] = b"{no"
    story = Story(zookeeper=story.zookeeper)
    story.beat("ab", epoch=5)
    assert isinstance(story.propose("a", 0, epoch=5).error, SightingsDamaged)
    assert "controller restore" in str(story.propose("a", 0, epoch=5).error)
    reply = story.ask(story.term.on_get_group, GetGroup(GROUP)).reply
    assert reply is not None
    assert (reply.version, reply.seen_epoch) == (0, SEEN_DAMAGED), "its version, for who restores it"
    assert isinstance(restored(story, 0, 5, "store-z").error, InvalidParameter)
    assert isinstance(restored(story, 9, 5).error, StaleGroupVersion)
    assert story.zookeeper.seen[GROUP] == b"{no"
    assert restored(story, 0, 7).node().epoch == 8
    assert story.zookeeper.seen[GROUP] == encode_seen(Seen(GROUP, (Sighting("store-a", 7),)))
    assert isinstance(story.register("b", 2, epoch=9).error, GroupNodeLost), "the operator's word was too low"


def test_a_group_without_a_node_whose_sightings_cannot_be_read_is_restored_by_its_id() -> None:
    story = Story()
    story.term.end()
    story.zookeeper.seen[GROUP] = b""
    story = Story(zookeeper=story.zookeeper)
    assert isinstance(story.register("a", epoch=5).error, GroupNodeLost)
    assert isinstance(story.ask(story.term.on_get_group, GetGroup(GROUP)).error, SightingsDamaged)
    assert isinstance(restored(story, -1, 5).error, GroupIdUnclear)
    assert restored(story, -1, 5, "store-a").node().group_id == "store-a"
    assert story.register("a", 2, epoch=5).error is None


def test_of_unknown_groups_so_many_are_remembered_and_then_none_is_founded() -> None:
    story = Story()
    for number in range(SEEN_GROUPS_MAX + 5):
        story.register("x", 1, broker_name=f"g{number}", group_id="g", epoch=1)
        story.work()
    assert len(story.zookeeper.seen) == SEEN_GROUPS_MAX
    story.loop.pass_ms(10_000)
    founder = story.register("a", group_id="", log_end=0)
    story.work()
    assert isinstance(founder.error, TooManyLostGroups)


def test_the_next_term_knows_what_was_seen() -> None:
    first = Story(group("ab", in_sync="ab", epoch=5))
    first.register("b", 2, epoch=7)
    first.work()
    first.term.end()
    second = Story(zookeeper=first.zookeeper)
    assert isinstance(second.register("a", 2, epoch=5).error, GroupNodeLost)
    assert restored(second, 0, 7).error is None
    third = Story(zookeeper=first.zookeeper)
    assert third.register("b", 2, epoch=7).error is None
    third.work()
    assert third.known().node.epoch == 8


def test_what_was_seen_is_kept_once_zookeeper_answers_again() -> None:
    story = Story(group("ab", in_sync="ab", epoch=5))
    story.store.connected = False
    story.register("b", 2, epoch=7)
    story.work()
    assert story.zookeeper.seen == {}
    assert isinstance(story.register("a", 2, epoch=5).error, GroupNodeLost), "it counts already"
    story.store.connected = True
    story.register("b", 2, epoch=7)
    story.work()
    assert GROUP in story.zookeeper.seen
    story.register("b", 2, epoch=7)
    assert not story.loop.jobs, "and is written once"


def test_a_heartbeat_shows_a_node_that_was_set_back_within_its_epoch() -> None:
    """Its master has adopted a later version of the node, in which c was not in sync any more."""
    story = Story(group(epoch=5))
    story.beat("a", epoch=5, version=4)
    story.work()
    assert story.known() == KnownGroup(group(epoch=5), 0)
    assert isinstance(story.register("c", 2, epoch=5).error, GroupNodeLost)
    story.loop.pass_ms(3000)
    story.work()
    assert elected(story) == ("a", 5)
    assert restored(story, 0, 5).node().in_sync == ()


def test_a_node_that_is_set_back_under_the_leading_controller_stops_its_group_before_any_replica_speaks() -> None:
    """Otherwise an operator's election in the next half second gives an epoch a second time."""
    story = Story(group(epoch=5))
    story.beat(epoch=5)
    story.zookeeper.groups[GROUP] = Content(encode_node(group(epoch=4)), 1)
    story.term.on_touched(GROUP)
    story.work()
    assert story.known() == KnownGroup(group(epoch=4), 1)
    asked = story.ask(story.term.on_elect, ElectMaster(GROUP, 1, "b", False))
    story.work()
    assert isinstance(asked.error, GroupNodeLost)
    assert story.zookeeper.seen[GROUP] == encode_seen(Seen(GROUP, (Sighting("store-a", 5, 0),)))


def test_sightings_that_make_no_sense_stop_their_group() -> None:
    zookeeper = ModelZooKeeper()
    zookeeper.seen[GROUP] = b"{}"
    story = Story(group(), zookeeper=zookeeper)
    asked = story.register("a", 2)
    story.work()
    assert isinstance(asked.error, GroupNodeDamaged)
    story.beat()
    story.loop.pass_ms(5000)
    story.work()
    assert elected(story) == ("a", 1)


def test_a_new_term_listens_before_it_writes() -> None:
    """A replica that lives and knows more is heard, whoever registers first."""
    story = Story(group("ab", in_sync="ab", epoch=5, min_in_sync=1), listen_ms=1000)
    asked = story.register("a", 2, epoch=5)
    story.work()
    assert (asked.reply, asked.error) == (None, None)
    story.loop.pass_ms(500)
    assert isinstance(story.register("b", 2, epoch=7).error, GroupNodeLost)
    story.work()
    assert isinstance(asked.error, GroupNodeLost)


def test_once_all_were_heard_or_time_has_passed_changes_take_their_turns() -> None:
    story = Story(group("ab", in_sync="ab"), listen_ms=1000)
    asked = story.register("b", 2)
    assert asked.reply is None
    story.beat("a")
    story.work()
    assert asked.error is None
    assert asked.reply is not None
    story = Story(group("ab", in_sync="ab"), listen_ms=1000)
    asked = story.register("a", 2)
    story.loop.pass_ms(900)
    story.work()
    assert (asked.reply, elected(story)) == (None, ("a", 1))
    story.loop.pass_ms(100)
    story.work()
    assert (asked.error, elected(story)) == (None, ("a", 2)), "a master that was started anew is elected again"


def test_no_group_is_founded_before_a_term_has_listened() -> None:
    """ZooKeeper was emptied, and the wiped replica is the first to register."""
    story = Story(listen_ms=1000)
    wiped = story.register("c", store_id="new", epoch=0, log_end=0, group_id="")
    story.loop.pass_ms(500)
    refused = story.register("a", 7, epoch=41)
    story.loop.pass_ms(600)
    story.work()
    assert isinstance(refused.error, GroupNodeLost)
    assert isinstance(wiped.error, GroupNodeLost)
    assert story.zookeeper.groups == {}


def test_a_group_is_founded_once_a_term_has_listened_and_at_once_later() -> None:
    for early in (True, False):
        story = Story(listen_ms=1000)
        if not early:
            story.loop.pass_ms(50)  # a tick: all was read
            story.loop.pass_ms(1000)
        asked = story.register("a")
        story.work()
        assert (asked.reply is None) is early
        story.loop.pass_ms(1000)
        story.work()
        assert asked.error is None
        assert elected(story) == ("a", 1)


def empty(story: Story, name: str, **facts: Any) -> Asked:
    """A replica on a new store."""
    return story.register(name, **{"epoch": 0, "log_end": 0, "group_id": "", "clean_marker": False} | facts)


def test_a_new_group_is_founded_once_all_its_replicas_are_known_to_know_nothing() -> None:
    story = Story(listen_ms=4500, replicas=3)
    asked = [empty(story, name) for name in "aab"]
    story.work()
    assert [one.reply for one in asked] == [None, None, None], "one asked twice"
    asked.append(empty(story, "c"))
    story.work()
    assert [one.error for one in asked] == [None] * 4
    assert elected(story) == ("a", 1)
    assert story.stored().in_sync == ("a",)


@pytest.mark.parametrize("facts", [{"epoch": 3}, {"newest_epoch": 3}, {"log_end": 4096}, {"group_id": "id-1"}])
def test_where_one_of_them_knows_something_others_may_too(facts: dict[str, Any]) -> None:
    story = Story(listen_ms=4500, replicas=3)
    asked = [empty(story, "b"), empty(story, "a", **facts), empty(story, "c"), empty(story, "d")]
    story.work()
    story.loop.pass_ms(4000)
    assert asked[0].reply is None
    assert story.zookeeper.groups == {}


def test_who_waits_for_a_lost_answer_is_heard_before_a_group_is_founded() -> None:
    longest_ms = WRITE_TIMEOUT_MS + PAUSE_MS_MAX
    story = Story(listen_ms=FOUND_LISTEN_MS)
    wiped = empty(story, "c")
    story.loop.pass_ms(longest_ms)
    assert wiped.reply is None
    refused = story.register("a", 7, epoch=41)
    story.loop.pass_ms(1000)
    story.work()
    assert isinstance(refused.error, GroupNodeLost)
    assert isinstance(wiped.error, GroupNodeLost)


def test_a_term_listens_from_when_it_can_hear() -> None:
    """ZooKeeper answers so slowly that the time would be over before a broker is answered at all."""
    story = Story(begin=False, listen_ms=1000)
    story.term.begin()
    story.loop.pass_ms(1500)
    story.work()
    wiped = story.register("c", store_id="new", epoch=0, log_end=0, group_id="")
    story.work()
    assert (wiped.reply, wiped.error) == (None, None)
    story.loop.pass_ms(100)
    refused = story.register("a", 7, epoch=41)
    story.loop.pass_ms(1000)
    story.work()
    assert isinstance(refused.error, GroupNodeLost)
    assert isinstance(wiped.error, GroupNodeLost)
    assert story.zookeeper.groups == {}


def test_a_node_that_vanishes_under_its_controller_is_remembered_by_it() -> None:
    story = Story(group(epoch=5))
    del story.zookeeper.groups[GROUP]
    story.term.on_touched(GROUP)
    story.work()
    wiped = story.register("c", store_id="new", epoch=0, log_end=0, group_id="")
    assert isinstance(wiped.error, GroupNodeLost)
    assert wiped.error.persisted == 5


# ---- the cluster's id


def nameless(listen_ms: int = 0) -> Story:
    return Story(zookeeper=ModelZooKeeper(cluster_id=""), listen_ms=listen_ms)


def test_the_first_registration_makes_the_clusters_id_once() -> None:
    story = nameless()
    first, second = story.register("a", cluster_id="c7"), story.register("b")
    story.work()
    assert (first.error, second.error) == (None, None)
    assert (story.zookeeper.cluster_id, story.naming.cluster_id) == ("c7", "c7")
    assert story.stored().cluster_id == "c7"


def test_an_id_is_drawn_only_once_nobody_brought_one_in_time() -> None:
    story = nameless(listen_ms=1000)
    early = story.register("a")
    story.work()
    assert isinstance(early.error, BrokerBusy)
    story.loop.pass_ms(1000)
    late = story.register("a")
    story.work()
    assert late.error is None
    assert story.stored().cluster_id == story.zookeeper.cluster_id != ""


def test_a_broker_of_another_cluster_is_refused_and_nothing_of_it_is_remembered() -> None:
    story = Story()
    asked = story.register("a", cluster_id="c7", group_id="other", epoch=9)
    story.work()
    assert isinstance(asked.error, WrongCluster)
    assert asked.error.args == ("zenit", "c1", "c7")
    assert not story.zookeeper.groups
    assert not story.zookeeper.seen


def test_a_zookeeper_that_was_emptied_gets_back_what_the_controller_read() -> None:
    story = Story()
    story.zookeeper.cluster_id = ""
    story.naming.on_read("")
    story.register("a", cluster_id="c7")
    story.work()
    assert story.zookeeper.cluster_id == "c1"


def test_the_operators_id_is_refused_where_zookeeper_has_another() -> None:
    naming = ClusterNaming(cluster="zenit", pinned="c7")
    naming.on_read("")
    with pytest.raises(ConfigError, match="c1, which ZooKeeper holds"):
        naming.on_read("c1")


# ---- the end


def test_at_the_end_whoever_waits_is_told_and_late_answers_are_not() -> None:
    story = led()
    first, second = story.propose("ab", 0), story.propose("abc", 0)
    story.term.end()
    assert isinstance(first.error, NotLeadingController)
    assert isinstance(second.error, NotLeadingController)
    story.work()
    assert first.reply is None
    assert story.pushes() == {}
    story.loop.pass_ms(10_000)
    assert not story.loop.jobs


def test_a_desk_that_is_full_refuses() -> None:
    story = Story(group(), waiting_max=1)
    story.beat()
    story.propose("ab", 0)
    refused = story.ask(story.term.on_register, registration("a", broker_name="broker-b"))
    assert isinstance(refused.error, BrokerBusy)
