"""Finding the controller that leads: who is asked, in which order, and when it is given up."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sim.group_kit import GROUP, group

from zenitmq.client.connection import controller_calls
from zenitmq.client.connection.controller_calls import HEARD_MS, PAUSE_MS, ControllerCalls, controllers_of
from zenitmq.model.errors import (
    ConnectionLost,
    GroupNodeLost,
    InvalidParameter,
    MasterStillAlive,
    NotLeadingController,
    ReplicaGroupNotFound,
    ReplicaNotAlive,
    RequestTimeout,
    StaleGroupVersion,
    UnknownReplica,
    ZenitError,
)
from zenitmq.model.groups.group import NO_VERSION, KnownGroup
from zenitmq.model.groups.group_codec import encode_node
from zenitmq.remoting.commands import (
    ChangeGroup,
    ControllerReply,
    ElectMaster,
    GetBrokerConfig,
    GetClusterInfo,
    GetController,
    GetGroup,
    GroupReply,
    JsonReply,
    RemoveReplica,
    Reply,
    Request,
    RestoreGroup,
)

Answer = Callable[[Request], Reply | ZenitError]


class FakeRemoting:
    """Answers by address, and moves the clock: a call takes 10 ms, one that is not answered all its time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: Answer) -> None:
        self.now_ms = 0
        self.asked: list[tuple[str, type[Request]]] = []
        self.documents: dict[tuple[str, type[Request]], Any] = {}
        self._answers = answers
        monkeypatch.setattr(controller_calls, "monotonic_ms", lambda: self.now_ms)
        monkeypatch.setattr(controller_calls, "sleep_ms", self._sleep_ms)

    def _sleep_ms(self, duration_ms: int) -> None:
        self.now_ms += duration_ms

    def call(self, address: str, request: Request, payload: None = None, *, timeout_ms: int) -> tuple[Reply, bytes]:
        self.asked.append((address, type(request)))
        if (address, type(request)) in self.documents:
            return JsonReply(), json.dumps(self.documents[address, type(request)]).encode()
        name = address.partition(":")[0]
        answer = self._answers[name](request) if name in self._answers else ConnectionLost(address)
        self.now_ms += timeout_ms if isinstance(answer, RequestTimeout) else 10
        if isinstance(answer, ZenitError):
            raise answer
        return answer, b""

    def addresses(self) -> list[str]:
        return [address for address, _ in self.asked]


def leads(request: Request) -> Reply | ZenitError:
    if isinstance(request, GetController):
        return ControllerReply("b:1", ("a:1", "b:1"), (GROUP,))
    elected = isinstance(request, ElectMaster)
    return GroupReply(
        8 if elected else 7, encode_node(group(master="c" if elected else "a", epoch=2 if elected else 1))
    )


def follows(request: Request) -> Reply | ZenitError:
    if isinstance(request, GetController):
        return ControllerReply("b:1", ("a:1", "b:1"), ())
    return NotLeadingController("b:1")


def silent(request: Request) -> ZenitError:
    return RequestTimeout("x", 1)


def calls(remoting: FakeRemoting, *addresses: str) -> ControllerCalls:
    return ControllerCalls(remoting, addresses)  # type: ignore[arg-type]


def test_whoever_does_not_lead_names_the_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    remoting = FakeRemoting(monkeypatch, a=follows, b=leads)
    known = calls(remoting, "a:1").group(GROUP, timeout_ms=1000)
    assert (known.version, known.node) == (7, group())
    assert remoting.addresses() == ["a:1", "b:1"]


def test_the_groups_are_those_that_the_leader_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    remoting = FakeRemoting(monkeypatch, a=follows, b=leads)
    assert calls(remoting, "z:1", "a:1").metadata(timeout_ms=1000).broker_names == (GROUP,)


def test_an_election_names_the_version_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    remoting = FakeRemoting(monkeypatch, a=follows, b=leads)
    known = calls(remoting, "b:1", "a:1").elect(GROUP, "c", force=False, timeout_ms=1000)
    assert (known.version, known.node.master) == (8, "c")
    assert remoting.asked == [("b:1", GetGroup), ("b:1", ElectMaster)]


@pytest.mark.parametrize("exists", [True, False])
def test_changes_name_the_version_that_was_read_and_none_where_the_group_is_lost(
    monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    asked: list[Request] = []

    def answers(request: Request) -> Reply | ZenitError:
        if isinstance(request, GetGroup) and not exists:
            return ReplicaGroupNotFound(GROUP)
        asked.append(request)
        return leads(request)

    version = 7 if exists else -1
    made = calls(FakeRemoting(monkeypatch, b=answers), "b:1")
    made.change_settings(GROUP, (("min_in_sync", "1"),), timeout_ms=1000)
    made.remove_replica(GROUP, "c", timeout_ms=1000)
    made.restore(GROUP, 4, timeout_ms=1000)
    assert [request for request in asked if not isinstance(request, GetGroup)] == [
        ChangeGroup(GROUP, version, (("min_in_sync", "1"),)),
        RemoveReplica(GROUP, version, "c"),
        RestoreGroup(GROUP, version, 4),
    ]


def test_settings_and_an_election_are_asked_for_again_where_the_group_changed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But no other change is."""
    stale = 3

    def answers(request: Request) -> Reply | ZenitError:
        nonlocal stale
        if isinstance(request, GetGroup):
            return leads(request)
        stale -= 1
        return StaleGroupVersion(GROUP, 7, 8) if stale > 0 else leads(request)

    remoting = FakeRemoting(monkeypatch, b=answers)
    calls(remoting, "b:1").change_settings(GROUP, (("min_in_sync", "1"),), timeout_ms=1000)
    assert remoting.asked == [("b:1", GetGroup), ("b:1", ChangeGroup)] * 3
    stale, remoting.asked = 3, []
    assert calls(remoting, "b:1").elect(GROUP, "c", force=True, timeout_ms=1000).version == 8
    assert remoting.asked == [("b:1", GetGroup), ("b:1", ElectMaster)] * 3
    stale = 100
    with pytest.raises(StaleGroupVersion):
        calls(remoting, "b:1").change_settings(GROUP, (("min_in_sync", "1"),), timeout_ms=1000)
    assert stale > 85
    stale = 2
    with pytest.raises(StaleGroupVersion):
        calls(remoting, "b:1").remove_replica(GROUP, "c", timeout_ms=1000)


def test_a_change_may_take_all_the_time_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas flush for it."""
    remoting = FakeRemoting(monkeypatch, s=silent, b=leads)
    with pytest.raises(RequestTimeout):
        calls(remoting, "s:1").change(ChangeGroup(GROUP, 7, ()), GROUP, timeout_ms=30_000)
    assert remoting.now_ms == 30_000


def test_one_that_cannot_be_reached_or_is_silent_leaves_a_question_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    remoting = FakeRemoting(monkeypatch, s=silent, b=leads)
    assert calls(remoting, "gone:1", "s:1", "b:1").group(GROUP, timeout_ms=9000).version == 7


def test_a_change_whose_answer_is_late_is_not_asked_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    remoting = FakeRemoting(monkeypatch, s=silent, b=leads)
    with pytest.raises(RequestTimeout):
        calls(remoting, "s:1", "b:1").change(ElectMaster(GROUP, 7, "c"), GROUP, timeout_ms=9000)
    assert remoting.addresses() == ["s:1"]


def test_without_a_leader_it_waits_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is named is gone, too."""
    for answer in (lambda _: NotLeadingController(""), lambda _: NotLeadingController("gone:1")):
        remoting = FakeRemoting(monkeypatch, a=answer)
        with pytest.raises(NotLeadingController):
            calls(remoting, "a:1").group(GROUP, timeout_ms=1000)
        assert 800 <= remoting.now_ms <= 1100
        assert len(remoting.asked) <= 25, "it pauses in between"


def test_a_last_try_without_time_does_not_hide_that_nobody_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request) -> Reply | ZenitError:
        return NotLeadingController("") if remoting.now_ms < 1900 else RequestTimeout("GetGroup at a:1", 9)

    remoting = FakeRemoting(monkeypatch, a=answer)
    with pytest.raises(NotLeadingController):
        calls(remoting, "a:1").group(GROUP, timeout_ms=2050)


def test_nor_does_it_where_the_leader_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request) -> Reply | ZenitError:
        return (
            ControllerReply("", ("a:1",), ()) if remoting.now_ms < 1900 else RequestTimeout("GetController at a:1", 9)
        )

    remoting = FakeRemoting(monkeypatch, a=answer)
    with pytest.raises(NotLeadingController):
        calls(remoting, "a:1").metadata(timeout_ms=2050)


def test_nobody_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    remoting = FakeRemoting(monkeypatch)
    with pytest.raises(ConnectionLost):
        calls(remoting, "a:1", "b:1").metadata(timeout_ms=1000)


def test_controllers_are_those_that_brokers_run_with(monkeypatch: pytest.MonkeyPatch) -> None:
    remoting = FakeRemoting(monkeypatch)
    brokers = [{"address": "gone:1"}, {"address": "alone:1"}, {"address": "replica:1"}]
    remoting.documents["ns:1", GetClusterInfo] = {"brokers": brokers}
    remoting.documents["alone:1", GetBrokerConfig] = {"controllers": []}
    remoting.documents["replica:1", GetBrokerConfig] = {"controllers": ["a:1", "b:1"]}
    assert controllers_of(remoting, ("ns:1",), timeout_ms=1000) == ("a:1", "b:1")  # type: ignore[arg-type]
    remoting.documents["replica:1", GetBrokerConfig] = {}
    with pytest.raises(InvalidParameter, match="controllers"):
        controllers_of(remoting, ("ns:1",), timeout_ms=1000)  # type: ignore[arg-type]


def test_a_group_that_replicas_know_more_of_is_told_with_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request) -> Reply | ZenitError:
        return GroupReply(3, encode_node(group(epoch=5)), 7)

    state = ControllerCalls(FakeRemoting(monkeypatch, a=answer), ("a",)).state(GROUP, timeout_ms=5000)  # type: ignore[arg-type]
    assert state.known == KnownGroup(group(epoch=5), 3)
    assert state.lost is not None
    assert (state.lost.epoch, state.lost.persisted) == (5, 7)


def test_a_group_whose_node_is_gone_can_be_told_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> Reply | ZenitError:
        asked.append(request)
        return (
            GroupNodeLost(GROUP, 0, 7) if isinstance(request, GetGroup) else GroupReply(0, encode_node(group(epoch=8)))
        )

    calls = ControllerCalls(FakeRemoting(monkeypatch, a=answer), ("a",))  # type: ignore[arg-type]
    state = calls.state(GROUP, timeout_ms=5000)
    assert state.known is None
    assert state.lost is not None
    assert calls.restore(GROUP, 7, group_id="id-1", timeout_ms=5000).node.epoch == 8
    assert asked[-1] == RestoreGroup(GROUP, NO_VERSION, 7, "id-1")


def test_a_forced_election_after_a_restore_is_asked_for_again_once_the_dead_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elections: list[Reply | ZenitError] = [
        MasterStillAlive(GROUP, "", 1500),
        GroupReply(2, encode_node(group(epoch=9))),
    ]

    def answer(request: Request) -> Reply | ZenitError:
        return elections.pop(0) if isinstance(request, ElectMaster) else GroupReply(1, encode_node(group(epoch=8)))

    remoting = FakeRemoting(monkeypatch, a=answer)
    calls = ControllerCalls(remoting, ("a",))  # type: ignore[arg-type]
    assert calls.elect(GROUP, "a", force=True, timeout_ms=5000).node.epoch == 9
    assert remoting.now_ms >= 1500
    elections.append(MasterStillAlive(GROUP, "b", 1500))
    with pytest.raises(MasterStillAlive):
        calls.elect(GROUP, "a", force=True, timeout_ms=5000)
    assert remoting.now_ms < 3000, "an old master that is known is for the operator to stop"


@pytest.mark.parametrize("silent", [ReplicaNotAlive(GROUP, "a"), UnknownReplica(GROUP, "a")])
def test_a_forced_election_waits_for_replicas_that_register_again_after_a_restore(
    monkeypatch: pytest.MonkeyPatch, silent: ZenitError
) -> None:
    elected = GroupReply(2, encode_node(group(epoch=9)))
    elections: list[Reply | ZenitError] = [silent, silent, elected]

    def answer(request: Request) -> Reply | ZenitError:
        if not isinstance(request, ElectMaster):
            return GroupReply(1, encode_node(group(epoch=8)))
        return elections.pop(0) if elections else silent

    remoting = FakeRemoting(monkeypatch, a=answer)
    calls = ControllerCalls(remoting, ("a",))  # type: ignore[arg-type]
    assert calls.elect(GROUP, "a", force=True, timeout_ms=60_000).node.epoch == 9
    began_ms = remoting.now_ms
    with pytest.raises(type(silent)):
        calls.elect(GROUP, "a", force=False, timeout_ms=60_000)
    assert remoting.now_ms < began_ms + PAUSE_MS, "an ordinary election has others to choose from"
    with pytest.raises(type(silent)):
        calls.elect(GROUP, "a", force=True, timeout_ms=60_000)
    assert remoting.now_ms <= began_ms + HEARD_MS + PAUSE_MS
