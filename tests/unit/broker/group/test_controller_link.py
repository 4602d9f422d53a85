"""What a replica says to controllers and what it makes of their answers: stories on a clock that the test moves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from link_kit import FakeClient, ManualLoop
from sim.group_kit import GROUP, group, life

from zenitmq.broker.group.controller_link import HEARTBEAT_MS, REPORT_ENDS_MS, ControllerLink, HeartbeatFacts, Life
from zenitmq.model.errors import (
    BrokerBusy,
    BufferFull,
    ConnectionLost,
    IncarnationUnknown,
    NotLeadingController,
    RequestTimeout,
    StaleGroupVersion,
    StartCounterBehind,
    UnknownReplica,
    WrongCluster,
    ZenitError,
    ZooKeeperUnavailable,
)
from zenitmq.model.groups.group import NO_VERSION, GroupNode, KnownGroup
from zenitmq.model.groups.group_codec import encode_node
from zenitmq.remoting.commands import (
    AlterInSync,
    GetGroup,
    GroupChanged,
    ProbeReplica,
    RegisterReplica,
    ReplicaHeartbeat,
    ReportMasterGone,
)

LIFE = Life(
    address="host-b:10911",
    replication_address="host-b:10912",
    incarnation=life("b", 3),
    clean_marker=True,
    marker_end=900,
    same_boot=True,
    ran_async=False,
)


class Story:
    def __init__(self, *, on_start_counter_behind: Callable[[int], None] | None = None, **wired: Any) -> None:
        self.loop = ManualLoop()
        self.client = FakeClient()
        self.heard: list[KnownGroup] = []
        self.facts = HeartbeatFacts(5, 950, 940)
        self.link = ControllerLink(
            self.client,  # type: ignore[arg-type]
            self.loop,
            self.loop,  # type: ignore[arg-type]
            addresses=("a:1", "b:1"),
            broker_name=GROUP,
            replica_name="b",
            on_group=self.heard.append,
            heartbeat_facts=lambda: self.facts,
            on_start_counter_behind=on_start_counter_behind,
            **wired,
        )
        self.link.start(LIFE)

    def registered(self, version: int = 7, node: GroupNode | None = None) -> Story:
        self.client.one(RegisterReplica).answer(version, node or group())
        return self

    def pass_ms(self, duration_ms: int) -> None:
        self.loop.pass_ms(duration_ms)


# ---- registering


def test_it_registers_with_all_that_the_controller_must_know() -> None:
    sent = Story().client.one(RegisterReplica)
    assert sent.address == "a:1"
    assert sent.request == RegisterReplica(
        GROUP,
        "b",
        "host-b:10911",
        "host-b:10912",
        "store-b",
        3,
        sent.request.life,
        5,
        950,
        True,
        900,
        True,
        False,
        False,
    )
    assert len(sent.request.life) == 16


def test_a_controller_of_another_cluster_is_told_of_in_the_brokers_words_and_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[tuple[str, WrongCluster]] = []
    story = Story(on_other_cluster=lambda address, error: told.append((address, error)))
    wrong = WrongCluster("zenit", "held", "ours")
    with caplog.at_level(logging.INFO):
        asked = story.client.one(RegisterReplica)
        asked.fail(wrong)
        story.pass_ms(10_000)
    assert told[0] == (asked.address, wrong)
    assert "make a new client" not in caplog.text
    assert story.client.take(RegisterReplica), "it may be another one's address by mistake only"


def test_it_tells_which_group_it_belongs_to_from_its_first_answer_on() -> None:
    """Controllers of another cluster may have come to the addresses of ours."""
    story = Story()
    assert story.client.one(RegisterReplica).request.group_id == "", "in none yet"
    story = Story().registered(7, replace(group(), group_id="store-a"))
    story.pass_ms(HEARTBEAT_MS)
    story.client.one(ReplicaHeartbeat).fail(UnknownReplica(GROUP, "b"))
    story.pass_ms(1_000)
    registering = story.client.one(RegisterReplica)
    assert registering.request.group_id == "store-a"
    registering.answer(8, group())  # begun anew by an operator: whose group it is, its replicas tell
    story.pass_ms(HEARTBEAT_MS)
    story.client.one(ReplicaHeartbeat).fail(UnknownReplica(GROUP, "b"))
    story.pass_ms(1_000)
    assert story.client.one(RegisterReplica).request.group_id == "store-a"


def test_two_lives_draw_two_tokens() -> None:
    lives = {Story().client.one(RegisterReplica).request.life for _ in range(2)}
    assert len(lives) == 2


def test_the_same_life_is_registered_until_it_is_answered_by_whoever_leads() -> None:
    story = Story()
    first = story.client.one(RegisterReplica)
    first.fail(ConnectionLost("a:1"))
    story.pass_ms(50)
    second = story.client.one(RegisterReplica)
    second.fail(NotLeadingController("c:1"))
    story.pass_ms(0)
    third = story.client.one(RegisterReplica)
    assert (second.address, third.address) == ("b:1", "c:1")
    assert first.request == second.request == third.request
    assert not story.link.is_registered
    third.answer(7, group())
    assert story.link.is_registered
    assert [known.version for known in story.heard] == [7]


def test_it_outlives_the_absence_of_all_controllers() -> None:
    story = Story()
    tried = 0
    for _ in range(600):
        for sent in story.client.take(RegisterReplica):
            tried += 1
            sent.fail(RequestTimeout("x", 3000) if tried % 2 else ConnectionLost("x"))
        story.pass_ms(100)
    assert 55 <= tried <= 70, "once a second in the end"
    story.pass_ms(1000)
    story.registered()
    assert story.link.is_linked


def test_a_client_that_cannot_send_is_tried_again() -> None:
    story = Story()
    story.client.take(RegisterReplica)[0].fail(ConnectionLost("a:1"))
    story.client.refuses = BufferFull(1)
    story.pass_ms(3000)
    assert not story.client.sent
    assert not story.link.is_linked
    story.client.refuses = None
    story.pass_ms(1000)
    story.registered()


@pytest.mark.parametrize("error", [ZooKeeperUnavailable("write", "slow"), BrokerBusy(500, "x")])
def test_a_leader_that_cannot_write_now_is_asked_again(error: ZenitError) -> None:
    story = Story()
    story.client.one(RegisterReplica).fail(error)
    assert not story.client.sent
    story.pass_ms(50)
    assert story.client.one(RegisterReplica).address == "a:1"


def test_a_disk_that_was_set_back_is_told_to_the_broker_which_starts_anew() -> None:
    counters: list[int] = []
    story = Story(on_start_counter_behind=counters.append)
    story.client.one(RegisterReplica).fail(StartCounterBehind(GROUP, "b", 3, 9))
    story.pass_ms(5000)
    assert counters == [9]
    assert not story.client.sent, "it waits for the new life"
    story.link.start(replace(LIFE, incarnation=life("b", 10), set_back=True))
    request = story.client.one(RegisterReplica).request
    assert (request.starts, request.set_back) == (10, True)


# ---- news


def test_nothing_is_handed_on_before_the_life_was_registered() -> None:
    story = Story()
    story.client.push("a:1", GroupChanged(GROUP, 6, encode_node(group())))
    assert story.heard == []
    assert story.link.known is None
    story.registered(7)
    assert [known.version for known in story.heard] == [7]


def test_news_are_handed_on_once_and_only_newer_ones() -> None:
    story = Story().registered(7)
    for version, epoch in ((6, 1), (8, 2), (8, 2), (7, 2), (10, 3), (99, 2), (9, 3)):
        story.client.push("a:1", GroupChanged(GROUP, version, encode_node(group(epoch=epoch))))
    assert [(known.version, known.node.epoch) for known in story.heard] == [(7, 1), (8, 2), (10, 3)]
    story.client.push("a:1", GroupChanged("broker-z", 99, encode_node(replace(group(), broker_name="broker-z"))))
    story.client.push("a:1", GroupChanged(GROUP, 99, b"nonsense"))
    assert story.heard[-1].version == 10
    assert story.link.known == story.heard[-1]


def test_a_later_epoch_is_news_at_any_version() -> None:
    """ZooKeeper's data was lost, and its versions begin anew; no epoch does."""
    story = Story().registered(7, group(epoch=4))
    story.client.push("a:1", GroupChanged(GROUP, 0, encode_node(group(epoch=6))))
    assert [(known.version, known.node.epoch) for known in story.heard] == [(7, 4), (0, 6)]
    story.pass_ms(HEARTBEAT_MS)
    assert story.client.one(ReplicaHeartbeat).request.version == 0
    story.client.take(ReplicaHeartbeat)


def test_it_tells_the_newest_node_it_has_adopted_and_the_last_row_of_its_epochs() -> None:
    story = Story()
    first = story.client.one(RegisterReplica)
    assert (first.request.version, first.request.newest_epoch, first.request.newest_begin) == (NO_VERSION, 0, 0)
    story.facts = HeartbeatFacts(5, 950, 940, newest_epoch=4, newest_begin=900)
    first.answer(7, group())
    story.pass_ms(HEARTBEAT_MS)
    beat = story.client.one(ReplicaHeartbeat)
    assert (beat.request.version, beat.request.newest_epoch, beat.request.newest_begin) == (7, 4, 900)
    beat.fail(UnknownReplica(GROUP, "b"))
    story.pass_ms(HEARTBEAT_MS)
    assert story.client.one(RegisterReplica).request.version == 7


def test_every_answer_may_bring_news() -> None:
    story = Story().registered(7)
    story.pass_ms(HEARTBEAT_MS)
    story.client.one(ReplicaHeartbeat).answer(8, group(epoch=2))
    story.link.ask()
    story.client.one(GetGroup).answer(9, group(epoch=3))
    assert [known.version for known in story.heard] == [7, 8, 9]


def test_once_stopped_it_says_and_hands_on_nothing() -> None:
    story = Story().registered(7)
    story.pass_ms(HEARTBEAT_MS)
    beat = story.client.one(ReplicaHeartbeat)
    story.link.stop()
    beat.answer(8, group())
    story.client.push("a:1", GroupChanged(GROUP, 9, encode_node(group())))
    story.link.report_master_gone("a", 1)
    story.link.ask()
    story.pass_ms(10_000)
    assert story.client.sent == []
    assert [known.version for known in story.heard] == [7]


# ---- heartbeats and probes


def test_it_beats_each_half_second_with_what_holds_now() -> None:
    story = Story().registered(7)
    story.pass_ms(2 * HEARTBEAT_MS)
    story.facts = HeartbeatFacts(6, 2000, 1900, sync_pending_ms=1, no_room_ms=2, cut_off_ms=3)
    story.pass_ms(HEARTBEAT_MS)
    beats = [sent.request for sent in story.client.take(ReplicaHeartbeat)]
    plain = ReplicaHeartbeat(GROUP, "b", "store-b", 3, 7, 5, 950, 940)
    later = ReplicaHeartbeat(
        *(GROUP, "b", "store-b", 3, 7, 6, 2000, 1900), sync_pending_ms=1, no_room_ms=2, cut_off_ms=3
    )
    assert beats == [plain, plain, later]


def test_a_probe_is_answered_at_once_and_its_number_stays() -> None:
    story = Story().registered(7)
    story.client.push("a:1", ProbeReplica(GROUP, 4))
    assert story.client.one(ReplicaHeartbeat).request.probe == 4
    story.pass_ms(HEARTBEAT_MS)
    assert story.client.one(ReplicaHeartbeat).request.probe == 4
    story.client.push("elsewhere:1", ProbeReplica(GROUP, 5))
    assert story.client.sent == [], "not ours to answer"


@pytest.mark.parametrize(
    ("error", "address", "after_ms"),
    [
        (NotLeadingController("b:1"), "b:1", 0),
        (ConnectionLost("a:1"), "b:1", 50),
        (RequestTimeout("x", 1500), "b:1", 50),
        (IncarnationUnknown(GROUP, "b", 3, 2), "a:1", 50),
    ],
)
def test_a_beat_that_is_not_heeded_leads_to_another_registration(
    error: ZenitError, address: str, after_ms: int
) -> None:
    story = Story().registered(7)
    story.pass_ms(2 * HEARTBEAT_MS)
    for beat in story.client.take(ReplicaHeartbeat):
        beat.fail(error)
    assert not story.link.is_linked
    story.pass_ms(after_ms)
    sent = story.client.one(RegisterReplica)
    assert sent.address == address
    sent.answer(7, group())
    assert story.link.is_linked
    assert [known.version for known in story.heard] == [7], "nothing new"


def test_a_busy_controller_is_not_lost() -> None:
    story = Story().registered(7)
    story.pass_ms(HEARTBEAT_MS)
    story.client.one(ReplicaHeartbeat).fail(BrokerBusy(100))
    assert story.link.is_linked


def test_answers_of_a_leader_that_was_given_up_settle_nothing() -> None:
    story = Story().registered(7)
    story.pass_ms(2 * HEARTBEAT_MS)
    first, second = story.client.take(ReplicaHeartbeat)
    first.fail(ConnectionLost("a:1"))
    story.pass_ms(50)
    registering = story.client.one(RegisterReplica)
    second.fail(ConnectionLost("a:1"))
    story.pass_ms(500)
    assert story.client.sent == [], "still waiting for the answer of the second"
    registering.answer(7, group())
    assert story.link.is_linked


# ---- proposals and reports


def test_a_proposal_names_the_life_and_the_epoch_of_the_node() -> None:
    story = Story().registered(7, group(epoch=4, master="b"))
    story.link.propose_in_sync(7, ("a", "b"))
    sent = story.client.one(AlterInSync)
    assert sent.request == AlterInSync(GROUP, 7, 4, "b", "store-b", 3, ("a", "b"))
    sent.answer(8, group(epoch=4, master="b", in_sync="ab"))
    assert story.heard[-1].node.in_sync == ("a", "b")


def test_a_proposal_on_an_old_node_is_not_even_sent() -> None:
    story = Story().registered(7)
    story.link.propose_in_sync(6, ("a", "b"))
    assert story.client.sent == []


def test_a_proposal_that_came_too_late_fetches_the_node() -> None:
    story = Story().registered(7)
    story.link.propose_in_sync(7, ("a", "b"))
    story.client.one(AlterInSync).fail(StaleGroupVersion(GROUP, 7, 8))
    story.client.one(GetGroup).answer(8, group(in_sync="ac"))
    assert story.heard[-1].version == 8


def test_a_proposal_of_unknown_outcome_settles_nothing() -> None:
    story = Story().registered(7)
    story.link.propose_in_sync(7, ("a", "b"))
    story.client.one(AlterInSync).fail(ZooKeeperUnavailable("write", "no answer"))
    assert story.client.sent == []
    assert story.link.is_linked
    assert [known.version for known in story.heard] == [7]


def reports(story: Story) -> list[Any]:
    taken = story.client.take(ReportMasterGone)
    for sent in taken:
        sent.answer(7, group())
    return [sent.request for sent in taken]


def test_a_report_is_said_at_once_and_again() -> None:
    story = Story().registered(7)
    story.link.report_master_gone("a", 1)
    said = ReportMasterGone(GROUP, "b", "store-b", 3, 1, "a")
    assert reports(story) == [said]
    story.pass_ms(2 * HEARTBEAT_MS)
    assert reports(story) == [said, said]


def test_a_report_that_is_not_renewed_ends() -> None:
    story = Story().registered(7)
    story.link.report_master_gone("a", 1)
    story.pass_ms(10 * REPORT_ENDS_MS)
    assert len(reports(story)) == REPORT_ENDS_MS // HEARTBEAT_MS


def test_another_epoch_ends_a_report() -> None:
    story = Story().registered(7)
    story.link.report_master_gone("a", 1)
    story.client.push("a:1", GroupChanged(GROUP, 8, encode_node(group(epoch=2, master="c"))))
    reports(story)
    story.pass_ms(2 * HEARTBEAT_MS)
    assert reports(story) == []


def test_a_report_waits_for_the_leader_that_is_being_looked_for() -> None:
    story = Story().registered(7)
    story.pass_ms(HEARTBEAT_MS)
    story.client.one(ReplicaHeartbeat).fail(ConnectionLost("a:1"))
    story.link.report_master_gone("a", 1)
    assert reports(story) == []
    story.pass_ms(50)
    story.registered(7)
    assert len(reports(story)) == 1
