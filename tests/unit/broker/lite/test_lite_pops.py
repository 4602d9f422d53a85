"""Lite topics at one broker: what goes out to whom, in which order, and what a restart knows of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lite_scene import PARENT, LiteScene
from pop_scene import Asked
from store_kit import StillClock, light, read_queue, stage

from zenitmq.broker.lite import lite_pops
from zenitmq.broker.lite.lite_sends import LiteWriters
from zenitmq.model.errors import (
    InvalidParameter,
    LeaseExpired,
    LiteQuotaExceeded,
    LiteSubscriptionUnknown,
    NotLiteParent,
    TopicNotFound,
)
from zenitmq.model.topics.light_queues import lite_queue

SHORT_MS = 1000


@pytest.fixture(params=["file", "rocksdb"])
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LiteScene]:
    with LiteScene(tmp_path, StillClock(), consume_queue=request.param) as scene:
        scene.create_parent()
        scene.turn()
        yield scene


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look ends when its time is over, which on a busy machine may be after any lite topic."""
    monkeypatch.setattr(lite_pops, "LOOK_NS", 60_000_000_000)


def received(scene: LiteScene, count: int = 32, **fields: object) -> Asked:
    asked = scene.receive(count, **fields)  # type: ignore[arg-type]
    scene.turn()
    assert asked.error is None
    assert asked.is_answered
    return asked


def lites(asked: Asked) -> list[tuple[str, int]]:
    return [(part[0], part[1]) for part in asked.reply.parts]


def test_one_answer_has_messages_of_many_lite_topics(scene: LiteScene) -> None:
    scene.subscribe("a", "b", "c")
    scene.say("a", b"a0", b"a1")
    scene.say("b", b"b0")
    scene.say("other", b"o0")
    scene.turn()
    asked = received(scene)
    assert (lites(asked), asked.bodies) == ([("a", 2), ("b", 1)], [b"a0", b"a1", b"b0"])


def test_what_was_there_before_the_subscription_is_received(scene: LiteScene) -> None:
    scene.say("a", b"0")
    scene.turn()
    scene.subscribe("a")
    assert received(scene).bodies == [b"0"]


def test_one_part_of_a_lite_topic_is_out_at_a_time(scene: LiteScene) -> None:
    scene.subscribe("a", "b")
    scene.say("a", b"0", b"1", b"2")
    scene.turn()
    first = received(scene, 1)
    scene.say("b", b"x")
    scene.turn()
    second = received(scene)
    assert (first.bodies, second.bodies) == ([b"0"], [b"x"])
    assert received(scene).bodies == []
    scene.ack_lite(first, "a")
    scene.turn()
    assert received(scene).bodies == [b"1", b"2"]


def test_single_messages_are_acknowledged_and_the_others_come_again_first(scene: LiteScene) -> None:
    scene.subscribe("a")
    scene.say("a", *(b"%d" % number for number in range(4)))
    scene.turn()
    first = received(scene, 3, invisible_ms=SHORT_MS)
    scene.ack_lite(first, "a", 0b010)
    scene.turn()
    assert received(scene).bodies == []
    scene.tick(SHORT_MS + 200)
    again = received(scene, 32)
    assert (again.bodies, again.reply.parts[0][3]) == ([b"0", b"2"], (1, 1))
    scene.ack_lite(again, "a")
    scene.turn()
    assert received(scene).bodies == [b"3"]


def test_a_pop_waits_for_any_of_its_lite_topics(scene: LiteScene) -> None:
    scene.subscribe("a", "b")
    waiting = scene.receive(wait_ms=5000)
    scene.turn()
    assert not waiting.is_answered
    scene.say("b", b"0")
    scene.turn()
    assert waiting.bodies == [b"0"]


def test_a_pop_that_waits_ends_with_its_time(scene: LiteScene) -> None:
    scene.subscribe("a")
    waiting = scene.receive(wait_ms=SHORT_MS)
    scene.tick(SHORT_MS + 200)
    assert waiting.reply.parts == ()


def test_it_goes_on_once_what_is_out_is_acknowledged(scene: LiteScene) -> None:
    scene.subscribe("a")
    scene.say("a", b"0", b"1")
    scene.turn()
    first, waiting = received(scene, 1), scene.receive(wait_ms=5000)
    scene.turn()
    assert not waiting.is_answered
    scene.ack_lite(first, "a")
    scene.turn()
    assert waiting.bodies == [b"1"]


def test_members_of_a_group_share_and_groups_do_not(scene: LiteScene) -> None:
    for client in ("one", "two"):
        scene.subscribe("a", "b", client=client)
    scene.subscribe("a", client="three", group="other")
    scene.say("a", b"a0")
    scene.say("b", b"b0")
    scene.turn()
    one, two = scene.receive(1, client="one"), scene.receive(client="two", wait_ms=100)
    three = scene.receive(client="three", group="other")
    scene.turn()
    assert (one.bodies, two.bodies, three.bodies) == ([b"a0"], [b"b0"], [b"a0"])


def test_a_suspended_message_and_those_behind_it_come_again_in_order_and_that_is_no_attempt(scene: LiteScene) -> None:
    scene.subscribe("a")
    scene.say("a", b"0", b"1", b"2")
    scene.turn()
    first = received(scene)
    scene.suspend(first, "a", 1, 2 * SHORT_MS)
    scene.ack_lite(first, "a", 0b001)
    scene.turn()
    scene.tick(SHORT_MS)
    assert received(scene).bodies == []
    scene.tick(SHORT_MS + 200)
    again = received(scene)
    assert (again.bodies, again.reply.parts[0][3]) == ([b"1", b"2"], ())


def test_suspended_without_a_delay_it_comes_again_at_once(scene: LiteScene) -> None:
    scene.subscribe("a")
    scene.say("a", b"0", b"1")
    scene.turn()
    first = received(scene)
    scene.suspend(first, "a", 0, 0)
    scene.turn()
    again = received(scene)
    assert (again.bodies, again.reply.parts[0][3]) == ([b"0", b"1"], ())


def test_a_suspended_part_cannot_be_acknowledged(scene: LiteScene) -> None:
    scene.subscribe("a")
    scene.say("a", b"0")
    scene.turn()
    first = received(scene)
    scene.suspend(first, "a", 0, SHORT_MS)
    acked = scene.ack_lite(first, "a")
    scene.turn()
    assert [code for code, _ in acked.reply.rows] == [LeaseExpired.code]


def test_what_is_handed_out_too_often_goes_to_the_dead_letters_and_the_rest_goes_on(scene: LiteScene) -> None:
    scene.allow(1)
    scene.subscribe("a")
    scene.say("a", b"0", b"1")
    scene.turn()
    for _ in range(2):
        assert received(scene, 1, invisible_ms=SHORT_MS).bodies == [b"0"]
        scene.tick(SHORT_MS + 200)
    assert received(scene, 1).bodies == []
    scene.tick(200)
    assert received(scene).bodies == [b"1"]
    assert scene.leases.buried == 1


def test_who_does_not_subscribe_any_more_gets_nothing(scene: LiteScene) -> None:
    scene.subscribe("a", "b")
    scene.subscribe("a", action="remove")
    scene.say("a", b"a0")
    scene.say("b", b"b0")
    scene.turn()
    assert received(scene).bodies == [b"b0"]


def test_a_restart_knows_what_is_out_and_asks_for_subscriptions(tmp_path: Path) -> None:
    clock = StillClock()
    with LiteScene(tmp_path, clock) as scene:
        scene.create_parent()
        scene.turn()
        scene.subscribe("a")
        scene.say("a", b"0", b"1", b"2")
        scene.turn()
        first = received(scene, 1)
        scene.ack_lite(first, "a")
        scene.turn()
        second = received(scene, 1, invisible_ms=SHORT_MS)
    with LiteScene(tmp_path, clock) as scene:
        scene.versions["g", "client"] = 1
        assert isinstance(scene.receive().error, LiteSubscriptionUnknown)
        scene.versions.clear()
        scene.subscribe("a")
        assert received(scene).bodies == []
        scene.tick(SHORT_MS + 200)
        again = received(scene, 1)
        assert (again.bodies, again.reply.parts[0][3], second.bodies) == ([b"1"], (1,), [b"1"])
        scene.ack_lite(again, "a")
        scene.turn()
        assert received(scene).bodies == [b"2"]


def test_an_exclusive_group_has_one_subscriber_and_the_one_before_is_told_until_it_has_heard(scene: LiteScene) -> None:
    scene.settle(sub_model="Exclusive")
    scene.turn()
    scene.subscribe("a", "b", client="old")
    waiting = scene.receive(client="old", wait_ms=5000)
    scene.turn()
    scene.subscribe("a", client="new")
    scene.turn()
    assert (waiting.reply.parts, waiting.reply.evicted, waiting.reply.evictions) == ((), ("a",), 1)
    assert received(scene, client="old").reply.evicted == ("a",)
    scene.say("a", b"a0")
    scene.say("b", b"b0")
    scene.turn()
    old = received(scene, client="old", evictions=1)
    assert (old.bodies, old.reply.evicted) == ([b"b0"], ())
    assert received(scene, client="new").bodies == [b"a0"]


def test_a_client_has_a_quota(scene: LiteScene) -> None:
    scene.settle(sub_client_quota="2")
    scene.turn()
    scene.subscribe("a", "b")
    refused = scene.subscribe("c")
    assert isinstance(refused.error, LiteQuotaExceeded)
    assert "at most 2" in str(refused.error)


def test_a_group_is_bound_to_its_parent(scene: LiteScene) -> None:
    scene.settle(bind_topic="forum")
    scene.turn()
    assert isinstance(scene.subscribe("a").error, InvalidParameter)


def test_only_a_parent_has_lite_topics(scene: LiteScene) -> None:
    scene.create("t")
    scene.turn()
    assert isinstance(scene.subscribe("a", topic="t").error, NotLiteParent)
    assert isinstance(scene.subscribe("a", topic="u").error, TopicNotFound)


def test_no_other_topic_writes_into_a_lite_topic_not_even_beside_its_parent(scene: LiteScene) -> None:
    scene.create("t")
    scene.turn()
    queue = lite_queue(PARENT, "a")
    for _ in range(2):
        with pytest.raises(NotLiteParent):
            stage(scene.store, "t", 0, light("t", b"x", queue))
        scene.say("a", b"0")
    stage(scene.store, "t", 0, light("t", b"x", "%LMQ%shared"), light("t", b"y", "%LMQ%shared"))
    scene.say("a", b"1")
    stage(scene.store, "t", 0, light("t", b"z", "%LMQ%shared"))
    scene.turn()
    scene.subscribe("a")
    assert received(scene).bodies == [b"0", b"0", b"1"]
    assert [one.body for one in read_queue(scene.store, "%LMQ%shared", 0)] == [b"x", b"y", b"z"]


def test_a_parent_has_so_many_lite_topics_and_no_more(scene: LiteScene) -> None:
    writers = LiteWriters(scene.state.topic_table, scene.store.has_light_queue, topics_max=2)
    scene.store.check_lights(writers.check)
    scene.say("a", b"0")
    scene.say("b", b"0")
    with pytest.raises(LiteQuotaExceeded, match="at most 2"):
        scene.say("c", b"0")
    scene.turn()
    scene.say("a", b"1")
    scene.turn()
    writers.on_scanned({PARENT: 1})
    scene.say("c", b"0")
    scene.subscribe("a", "b", "c")
    scene.turn()
    assert sorted(received(scene).bodies) == [b"0", b"0", b"0", b"1"]


def test_a_change_that_is_not_the_next_is_not_made(scene: LiteScene) -> None:
    scene.subscribe("a")
    scene.versions["g", "client"] = 5
    assert not scene.subscribe("b").reply.is_known
    assert isinstance(scene.receive().error, LiteSubscriptionUnknown)


def test_an_answer_that_reached_nobody_is_no_attempt(scene: LiteScene) -> None:
    scene.subscribe("a")
    scene.say("a", b"0")
    scene.turn()
    asked = received(scene)
    asked.on_unsent()  # type: ignore[attr-defined]
    scene.turn()
    again = received(scene)
    assert (again.bodies, again.reply.parts[0][3]) == ([b"0"], ())


def test_a_cancelled_pop_is_answered_and_what_went_out_for_one_comes_again(scene: LiteScene) -> None:
    from zenitmq.remoting.commands import CancelPop

    scene.subscribe("a")
    waiting = scene.receive(wait_ms=5000, pop_id=1)
    scene.ask(CancelPop("g", "client", 1))
    assert waiting.reply.parts == ()
    scene.say("a", b"0")
    scene.turn()
    assert received(scene, pop_id=2).bodies == [b"0"]
    scene.ask(CancelPop("g", "client", 2))
    scene.turn()
    assert received(scene).bodies == [b"0"]
