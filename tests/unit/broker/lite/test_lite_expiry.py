"""Lite topics that are idle are collected, unless somebody has something of them left to receive."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from lite_scene import PARENT, LiteScene
from store_kit import StillClock

from zenitmq.broker.lite.expiry import LiteScan, LiteState, is_over
from zenitmq.model.topics.light_queues import lite_queue

MINUTE_MS = 60_000


@pytest.fixture(params=["file", "rocksdb"])
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LiteScene]:
    with LiteScene(tmp_path, StillClock(), consume_queue=request.param) as scene:
        scene.create_parent(**{"lite.topic.expiration": "15"})
        scene.turn()
        yield scene


def scan(scene: LiteScene) -> None:
    """One scan, as of now."""
    scene.clock.time_ms += scene.parts.config.lite_scan_interval_ms
    scene.lite.collector.on_tick(scene.clock.time_ms)
    scene.turn()


def pass_minutes(scene: LiteScene, minutes: int) -> None:
    scene.clock.time_ms += minutes * MINUTE_MS


def receive_all(scene: LiteScene, name: str) -> list[bytes]:
    asked = scene.receive()
    scene.turn()
    if asked.bodies:
        scene.ack_lite(asked, name)
        scene.turn()
    return asked.bodies


def has(scene: LiteScene, name: str) -> bool:
    queue = lite_queue(PARENT, name)
    return bool(scene.store.max_offset(queue, 0) > scene.store.min_offset(queue, 0))


def test_an_idle_lite_topic_goes_with_what_its_group_received(scene: LiteScene) -> None:
    scene.subscribe("a")
    scene.say("a", b"0")
    scene.turn()
    assert receive_all(scene, "a") == [b"0"]
    pass_minutes(scene, 12)
    scan(scene)
    assert has(scene, "a")
    pass_minutes(scene, 2)
    scan(scene)
    assert not has(scene, "a")
    assert scene.state.pop_table.queue(("g", lite_queue(PARENT, "a"), 0)) is None
    assert dict(scene.state.pop_table.lite_counts(PARENT)) == {}
    assert scene.lite.collector.collected == 1
    scan(scene)
    assert scene.lite.collector.collected == 1


def test_one_that_comes_again_is_received_from_its_first_new_message(scene: LiteScene) -> None:
    scene.subscribe("a")
    scene.say("a", b"0")
    scene.turn()
    receive_all(scene, "a")
    pass_minutes(scene, 16)
    scan(scene)
    scene.say("a", b"1")
    scene.turn()
    assert receive_all(scene, "a") == [b"1"]


@pytest.mark.parametrize("what", ["unread", "leased", "available", "never received"])
def test_one_that_a_group_wants_stays(scene: LiteScene, what: str) -> None:
    scene.subscribe("a")
    scene.say("a", b"0", b"1")
    scene.turn()
    if what == "unread":
        asked = scene.receive(1)
        scene.turn()
        scene.ack_lite(asked, "a")
    elif what != "never received":
        scene.receive(invisible_ms=3_600_000 if what == "leased" else 1000)
    scene.turn()
    pass_minutes(scene, 16)
    if what == "available":
        scene.tick(200)
    scan(scene)
    assert has(scene, "a")


def test_one_that_nobody_receives_goes(scene: LiteScene) -> None:
    scene.say("a", b"0")
    scene.turn()
    pass_minutes(scene, 16)
    scan(scene)
    assert not has(scene, "a")


def test_what_retention_took_is_not_left_to_anybody(scene: LiteScene) -> None:
    scene.subscribe("a")
    scene.say("a", b"0")
    scene.turn()
    scene.receive()
    scene.turn()
    table, key = scene.state.pop_table, ("g", lite_queue(PARENT, "a"), 0)
    assert table.has_left(key, 0, 1)
    assert not table.has_left(key, 1, 1)
    assert not table.has_left(("other", key[1], 0), 1, 1)
    assert table.has_left(("other", key[1], 0), 0, 1)


def test_nothing_is_remembered_of_lite_topics_that_were_popped_once(scene: LiteScene) -> None:
    scene.subscribe("a", "b")
    scene.say("a", b"0")
    scene.say("b", b"0")
    scene.turn()
    scene.receive()
    assert len(scene.lite.pops._closed) == 2
    scene.turn()
    scene.tick(100)
    assert not scene.lite.pops._closed


def test_without_an_expiration_it_stays(tmp_path: Path) -> None:
    with LiteScene(tmp_path, StillClock()) as scene:
        scene.create_parent()
        scene.turn()
        scene.say("a", b"0")
        scene.turn()
        pass_minutes(scene, 100_000)
        scan(scene)
        assert has(scene, "a")


def test_a_restart_does_not_bring_it_back(tmp_path: Path) -> None:
    clock = StillClock()
    with LiteScene(tmp_path, clock) as scene:
        scene.create_parent(**{"lite.topic.expiration": "15"})
        scene.turn()
        scene.subscribe("a", "b")
        for name in ("a", "b"):
            scene.say(name, b"0")
            scene.turn()
            assert receive_all(scene, name) == [b"0"]
        pass_minutes(scene, 16)
        scene.say("b", b"1")
        scene.turn()
        scan(scene)
    with LiteScene(tmp_path, clock) as scene:
        assert (has(scene, "a"), has(scene, "b")) == (False, True)
        scene.subscribe("a", "b")
        assert receive_all(scene, "b") == [b"1"]
        scene.say("a", b"2")
        scene.turn()
        assert receive_all(scene, "a") == [b"2"]


def test_a_store_that_is_built_anew_from_its_log_does_not_bring_it_back(tmp_path: Path) -> None:
    clock = StillClock()
    with LiteScene(tmp_path, clock) as scene:
        scene.create_parent(**{"lite.topic.expiration": "15"})
        scene.turn()
        scene.say("a", b"0")
        scene.turn()
        pass_minutes(scene, 16)
        scan(scene)
        scene.say("a", b"1")
        scene.say("b", b"2")
        scene.turn()
    for folder in ("config", "consumequeue"):
        shutil.rmtree(tmp_path / folder)
    with LiteScene(tmp_path, clock) as scene:
        scene.subscribe("a", "b")
        asked = scene.receive()
        scene.turn()
        assert sorted(asked.bodies) == [b"1", b"2"]


@pytest.mark.parametrize("is_one_chunk", [True, False])
def test_a_replica_follows_and_keeps_what_came_after(tmp_path: Path, is_one_chunk: bool) -> None:
    clock = StillClock()
    ends = []
    with LiteScene(tmp_path / "master", clock) as scene:
        scene.create_parent(**{"lite.topic.expiration": "15"})
        scene.turn()
        scene.subscribe("a")
        scene.say("a", b"0")
        scene.turn()
        receive_all(scene, "a")
        pass_minutes(scene, 16)
        ends.append(int(scene.store.written))
        scan(scene)
        scene.say("a", b"1")
        scene.turn()
        ends.append(int(scene.store.written))
        log = (tmp_path / "master" / "commitlog" / "00000000000000000000").read_bytes()[: ends[-1]]
    with LiteScene(tmp_path / "slave", clock) as slave:
        slave.state.on_lite_collected = slave.store.delete_light_queues
        begin = 0
        for end in ends[is_one_chunk:]:
            slave.store.append_chunk(log[begin:end], begin, end)
            slave.store.confirm(end)
            begin = end
        assert slave.state.pop_table.queue(("g", lite_queue(PARENT, "a"), 0)) is None
        slave.subscribe("a")
        assert receive_all(slave, "a") == [b"1"]


def test_a_deleted_parent_takes_its_lite_topics_with_it(scene: LiteScene) -> None:
    scene.subscribe("a")
    scene.say("a", b"0", b"1")
    scene.turn()
    waiting = scene.receive(1)
    scene.turn()
    assert waiting.bodies == [b"0"]
    scene.delete(PARENT)
    scene.turn()
    assert not has(scene, "a")
    assert list(scene.state.pop_table.all_queues()) == []


@pytest.mark.parametrize(
    ("state", "expiration_ms", "expected"),
    [
        (LiteState(1000, False, True), 500, True),
        (LiteState(1000, False, True), 1000, False),
        (LiteState(1000, True, True), 500, False),
        (LiteState(1000, False, True), None, False),
        (LiteState(None, False, True), None, True),
        (LiteState(None, True, True), None, False),
        (LiteState(None, False, False), 500, False),
    ],
)
def test_what_is_over(state: LiteState, expiration_ms: int | None, expected: bool) -> None:
    assert is_over(state, expiration_ms, 2000) is expected


def test_a_scan_looks_at_some_at_a_time_and_counts_what_stays() -> None:
    names = [lite_queue("p", "a"), "%LMQ%other", lite_queue("p", "b"), lite_queue("q", "c")]
    scan = LiteScan(names)
    assert scan.some(2, lambda parent, name, queue: name == "a") == {"p": [("a", names[0])]}
    assert not scan.is_done
    assert scan.some(9, lambda parent, name, queue: False) == {}
    assert scan.is_done
    assert scan.counts == {"p": 1, "q": 1}
