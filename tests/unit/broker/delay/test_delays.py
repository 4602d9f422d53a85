"""Delivering what is due, over a real store: nothing twice, nothing lost, whatever the store refuses meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from delay_kit import Scene
from store_kit import StillClock, kill, read_queue, rot

from zenitmq.broker.delay.delays import message_recalled
from zenitmq.broker.waiting.waiting_records import DAMAGED_RETRY_MS, IDLE_MS, WAKE_MS
from zenitmq.model.errors import InvalidName, InvalidParameter, StoreNotWriteable, StorePoisoned
from zenitmq.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from zenitmq.record.new_record import NewRecord


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def scene(tmp_path: Path, clock: StillClock):
    made = Scene(tmp_path / "s", clock)
    yield made
    made.close()


def test_messages_are_delivered_when_they_are_due_and_not_before(scene: Scene) -> None:
    scene.delay(b"now", 0)
    scene.delay(b"past", -5)
    for n in range(3):
        scene.delay(b"%d" % n, 100 * (n + 1))
    assert scene.turn() <= WAKE_MS
    assert scene.bodies() == [b"now", b"past"]
    assert [message.properties for message in read_queue(scene.store, "t", 0)] == [{"own": "o"}] * 2
    scene.clock.time_ms += 200
    scene.turn()
    assert scene.bodies()[2:] == [b"0", b"1"]
    scene.clock.time_ms += 3_600_000
    scene.turn()
    scene.clock.time_ms -= 7_200_000
    scene.turn()
    assert scene.bodies()[2:] == [b"0", b"1", b"2"]
    assert scene.delays.document() == {
        "waiting": 0,
        "first_due_ms": None,
        "delivered": 3,
        "discarded": 0,
        "damaged": 0,
        "lost": 0,
    }


@pytest.mark.parametrize("leads", [True, False])
def test_while_nothing_waits_the_clock_is_read_seldom_and_what_comes_is_seen_at_once(
    scene: Scene, *, leads: bool
) -> None:
    scene.leads = leads
    assert scene.turn() == IDLE_MS
    scene.delay(b"soon", 20)
    assert [delay_ms for delay_ms, _ in scene.loop.later] == [0], "the wake that was to come late is none any more"
    assert scene.turn() == (20 if leads else WAKE_MS)
    scene.delay(b"later", 30)
    scene.leads = True
    scene.clock.time_ms += 30
    scene.turn()
    assert scene.bodies() == [b"soon", b"later"]
    assert scene.turn() == IDLE_MS


def test_a_slave_where_something_waits_looks_often_whether_it_leads_now(scene: Scene) -> None:
    scene.leads = False
    scene.delay(b"x", 10)
    assert scene.turn() == WAKE_MS
    scene.leads = True
    scene.clock.time_ms += WAKE_MS
    scene.turn()
    assert scene.bodies() == [b"x"]


def test_the_limits_of_the_door_are_told(scene: Scene) -> None:
    with pytest.raises(InvalidParameter):
        scene.delay(b"x", (1 << 40) + 1)
    with pytest.raises(InvalidName):
        scene.delay(b"x", 5, topic="../x")


def test_who_does_not_lead_delivers_nothing_until_it_does(scene: Scene) -> None:
    scene.delay(b"x", 10)
    scene.turn()
    scene.leads = False
    scene.clock.time_ms += 1000
    scene.turn()
    scene.turn()
    assert scene.bodies() == []
    scene.leads = True
    scene.turn()
    assert scene.bodies() == [b"x"]


def test_a_store_that_takes_nothing_costs_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(6):
        scene.delay(b"%d" % n, 10, queue_id=n % 3)
    scene.clock.time_ms += 1000
    stage, calls = scene.store.stage_own, []

    def refuse(*args, **kwargs):
        calls.append(kwargs["queue_id"])
        if len(calls) == 2:
            raise StoreNotWriteable("full")
        return stage(*args, **kwargs)

    monkeypatch.setattr(scene.store, "stage_own", refuse)
    assert scene.turn() > WAKE_MS, "it comes again later"
    scene.turn()
    assert [scene.bodies(queue_id=queue_id) for queue_id in range(3)] == [[b"0", b"3"], [b"1", b"4"], [b"2", b"5"]]


def test_a_disk_that_failed_ends_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.delay(b"x", 10)
    scene.clock.time_ms += 1000

    def fail(*args, **kwargs):
        raise StorePoisoned("gone")

    monkeypatch.setattr(scene.store, "stage_own", fail)
    assert scene.turn() == -1


def test_one_that_no_limit_lets_in_does_not_keep_back_the_others(scene: Scene) -> None:
    scene.delay(b"a", 10)
    scene.delay(bytes(20_000), 10)
    scene.delay(b"b", 10)
    scene.store._staging._kernel = type(scene.store._staging._kernel)(
        store_host=bytes(8), record_max=10_000, body_max=10_000
    )
    scene.clock.time_ms += 1000
    scene.turn()
    scene.turn()
    assert scene.bodies() == [b"a", b"b"]
    assert scene.delays.discarded == 1


def followed(master: Scene, slave: Scene) -> None:
    """The slave has the master's log, and its index holds what follows from it."""
    while slave.store.written < master.store.written:
        chunk = master.store.chunk(slave.store.written, 1 << 20)
        slave.store.append_chunk(bytes(chunk.data), chunk.begin, chunk.end)
    for scene in (master, slave):
        scene.index.persist()


@pytest.mark.parametrize("why", ["limit", "damage"])
def test_what_a_master_gives_up_holds_no_segment_of_a_slave(tmp_path: Path, scene: Scene, why: str) -> None:
    """Its own log alone says to a slave that a wait is over. Until its segment goes, a higher limit or a replica's bytes may
    yet deliver the message: so nothing ends its wait before."""
    slave = Scene(tmp_path / "slave", scene.clock)
    slave.leads = False
    offset = scene.delay(bytes(20_000), 10)
    at_ms = scene.clock.time_ms + 10
    followed(scene, slave)
    end = scene.store.written
    if why == "limit":
        scene.store._staging._kernel = type(scene.store._staging._kernel)(
            store_host=bytes(8), record_max=10_000, body_max=10_000
        )
    else:
        rot(scene.store, offset)
    scene.clock.time_ms += 1000
    turns(scene)
    followed(scene, slave)
    assert scene.store.written == end
    assert not slave.delays.clear_below(end)
    assert scene.delays.clear_below(end), "a disk that is full takes no end: the segment goes without it"
    turns(scene)
    told = scene.store.written
    assert scene.delays.clear_below(end)
    turns(scene)
    assert scene.store.written == told > end, "once, though the index does not know it durably yet"
    followed(scene, slave)
    assert slave.delays.clear_below(end)
    assert scene.delays.document()["lost"] == 0
    assert [made.delays.document()["waiting"] for made in (scene, slave)] == [0, 0]
    assert not slave.delays.is_waiting(offset, at_ms)
    slave.close()


def test_a_topic_that_is_gone_or_has_fewer_queues(scene: Scene) -> None:
    scene.delay(b"gone", 10, topic="gone")
    scene.delay(b"fewer", 10, topic="u", queue_id=7)
    scene.clock.time_ms += 1000
    scene.turn()
    assert scene.bodies("u") == [b"fewer"]
    assert scene.delays.document()["waiting"] == 0
    assert (scene.delays.delivered, scene.delays.discarded) == (1, 1)


def test_what_waited_for_a_topic_that_was_made_anew_is_not_the_new_ones(scene: Scene) -> None:
    scene.delay(b"old", 10)
    scene.made_at["t"] = scene.store.written
    scene.delay(b"new", 10)
    scene.clock.time_ms += 1000
    scene.turn()
    assert scene.bodies("t") == [b"new"]
    assert scene.delays.document()["waiting"] == 0
    assert (scene.delays.delivered, scene.delays.discarded) == (1, 1)


def test_what_waited_for_a_topic_that_was_made_anew_is_not_carried_behind_it(scene: Scene) -> None:
    """It would pass for a message of the new topic then."""
    scene.delay(b"old", 1 << 20)
    scene.made_at["t"] = scene.store.written
    scene.delay(b"new", 1 << 20)
    scene.index.persist()
    assert not scene.delays.clear_below(scene.store.written)
    scene.turn()
    assert (scene.delays.document()["waiting"], scene.delays.discarded) == (1, 1)
    scene.clock.time_ms += 1 << 21
    scene.turn()
    assert scene.bodies("t") == [b"new"]


def test_a_process_killed_at_any_turn_leaves_a_log_from_which_each_is_delivered_once(
    tmp_path: Path, clock: StillClock
) -> None:
    scene = Scene(tmp_path / "s", clock, per_turn=2)
    sent = [b"%d" % n for n in range(7)]
    for n, body in enumerate(sent):
        scene.delay(body, 10 + n)
    clock.time_ms += 1000
    for killed_after in range(6):
        copy = kill(tmp_path / "s", tmp_path / f"k{killed_after}")
        (copy / "timers" / "LOCK").unlink()
        other = Scene(copy, StillClock(clock.time_ms))
        for _ in range(3):
            other.turn()
        assert other.bodies() == sent
        other.close()
        if killed_after == 3:
            scene.index.persist()
        scene.turn()
    assert scene.bodies() == sent
    scene.close()


def test_what_waits_in_a_segment_that_is_to_go_is_carried_on(scene: Scene) -> None:
    first = scene.delay(b"x", 10_000)
    gone = scene.delay(b"y", 10_000, topic="gone")
    scene.index.persist()
    assert scene.delays.clear_below(0)
    assert not scene.delays.clear_below(scene.store.written)
    end = scene.store.written
    scene.turn()
    assert scene.store.written > end
    assert not scene.delays.clear_below(end), "the index does not know it durably yet"
    scene.turn()
    scene.index.persist()
    assert scene.delays.clear_below(end)
    scene.turn()
    assert not scene.delays.is_waiting(first, scene.clock.time_ms + 10_000)
    assert not scene.delays.is_waiting(gone, scene.clock.time_ms + 10_000)
    scene.clock.time_ms += 10_000
    scene.turn()
    assert scene.bodies() == [b"x"]


@pytest.mark.parametrize("per_turn", [100, 2])
def test_what_falls_due_in_the_turn_that_carries_it_on_is_delivered_once(
    tmp_path: Path, clock: StillClock, per_turn: int
) -> None:
    scene = Scene(tmp_path / "s", clock, per_turn=per_turn)
    sent = [b"%d" % n for n in range(8)]
    for body in sent:
        scene.delay(body, 10_000)
    scene.index.persist()
    scene.turn()
    clock.time_ms += 10_000
    assert not scene.delays.clear_below(scene.store.written)
    for _ in range(12):
        scene.turn()
        scene.index.persist()
    assert sorted(scene.bodies()) == sent
    assert scene.delays.document()["waiting"] == 0
    scene.close()


def test_what_was_taken_back_in_the_turn_in_which_it_falls_due_is_not_delivered(scene: Scene) -> None:
    at_ms = scene.clock.time_ms + 10
    offset = scene.delay(b"x", 10)
    scene.turn()
    scene.clock.time_ms += 10
    scene.delays.stage_end(offset, "t", "A", at_ms)
    assert not scene.delays.is_waiting(offset, at_ms)
    scene.turn()
    assert (scene.bodies(), scene.delays.delivered, scene.delays.document()["waiting"]) == ([], 0, 0)


def test_rocketmq_s_are_delivered_unless_their_copy_is_there(scene: Scene) -> None:
    def schedule(unique: str, body: bytes, **properties: str) -> int:
        named = {"REAL_TOPIC": "t", "REAL_QID": "0", **({"UNIQ_KEY": unique} if unique else {}), **properties}
        return scene.store.stage_record(
            NewRecord(topic=SCHEDULE_TOPIC, queue_id=0, body=body, properties=named)
        ).physical_offset

    schedule("A", b"copied")
    schedule("B", b"waits")
    schedule("C", b"rolled")
    schedule("C", b"rolled")
    schedule("", b"nameless")
    schedule("D", b"recalled")
    schedule("E", b"lost", REAL_QID="x")
    scene.store.stage_record(NewRecord(topic="t", queue_id=0, body=b"copied", properties={"UNIQ_KEY": "A"}))
    scene.store.stage_record(
        NewRecord(topic=TIMER_TOPIC, queue_id=0, body=b"0", properties={"UNIQ_KEY": "D", "TIMER_DEL_UNIQKEY": "t+D"})
    )
    scene.store.commit()
    scene.clock.time_ms += 5000
    scene.turn()
    scene.turn()
    assert scene.bodies() == [b"copied", b"waits", b"rolled", b"nameless"]
    assert scene.delays.discarded == 4


def test_a_record_tells_whether_a_handle_means_it(scene: Scene) -> None:
    at_ms = scene.clock.time_ms + 10
    offset = scene.delay(b"x", 10)
    record = scene.store.record_at(offset)
    assert message_recalled(record, "t", at_ms) == (at_ms, offset)
    assert message_recalled(record, "u", at_ms) is None
    assert message_recalled(record, "t", at_ms + 1) is None
    end = scene.delays.stage_end(offset, "t", "A", at_ms)
    scene.store.commit()
    assert message_recalled(scene.store.record_at(end.physical_offset), "t", at_ms) is None
    assert not scene.delays.is_waiting(offset, at_ms)


def test_a_damaged_index_stops_delivery_and_holds_the_log(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.delay(b"x", 10)
    scene.index.persist()
    scene.clock.time_ms += 1000

    def fail(*_: object, **__: object) -> None:
        raise scene.index._store._damaged(ValueError("a block that cannot be read"))

    monkeypatch.setattr(scene.index._store, "due_from", fail)
    monkeypatch.setattr(scene.index._store, "below", fail)
    assert not scene.delays.clear_below(scene.store.written)
    assert scene.turn() == -1
    assert (scene.damages, scene.bodies()) == (1, [])


def turns(scene: Scene, count: int = 3) -> None:
    for _ in range(count):
        scene.turn()


@pytest.mark.parametrize("known", ["awaited", "sought", "nowhere"])
def test_what_rotted_while_it_waited_is_delivered_once_a_replica_has_given_it_back(scene: Scene, known: str) -> None:
    offset = scene.delay(b"x" * 100, 10)
    mend = rot(scene.store, offset)
    scene.turn()
    damage, quarantine = scene.store.damage, scene.store.damage.quarantine

    def note() -> None:
        quarantine.awaited = quarantine.rotten if known == "awaited" else ()
        quarantine.sought = quarantine.rotten if known == "sought" else ()

    damage.on_change = note
    scene.clock.time_ms += 1000
    turns(scene)
    assert (scene.bodies(), scene.delays.discarded, len(quarantine.rotten)) == ([], 0, 1)
    told = scene.delays.document()
    assert (told["waiting"], told["damaged"], told["lost"]) == (1, int(known != "awaited"), int(known == "nowhere"))
    scene.clock.time_ms += 3_600_000
    turns(scene)
    mend()
    turns(scene)
    assert scene.bodies() == [b"x" * 100]
    assert scene.delays.document() == {
        "waiting": 0, "first_due_ms": None, "delivered": 1, "discarded": 0, "damaged": 0, "lost": 0
    }  # fmt: skip


def test_what_was_carried_on_while_it_was_looked_for_is_delivered_once(scene: Scene) -> None:
    offset = scene.delay(b"x" * 100, 10)
    scene.index.persist()
    mend = rot(scene.store, offset)
    quarantine = scene.store.damage.quarantine

    def await_it() -> None:
        quarantine.awaited = quarantine.rotten

    scene.store.damage.on_change = await_it
    scene.clock.time_ms += 1000
    scene.turn()
    (look_again,) = (entry for entry in scene.loop.later if entry[0] == DAMAGED_RETRY_MS)
    scene.loop.later.remove(look_again)
    mend()
    scene.delays.clear_below(scene.store.written)
    turns(scene)
    assert scene.bodies() == [b"x" * 100]
    scene.index.persist()
    scene.delay(b"another", 3_600_000)
    look_again[1]()
    turns(scene)
    assert scene.bodies() == [b"x" * 100]


def test_the_log_keeps_what_a_replica_may_give_back_and_not_what_none_has(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    offset = scene.delay(b"x" * 100, 10)
    scene.index.persist()
    rot(scene.store, offset)
    damage, quarantine = scene.store.damage, scene.store.damage.quarantine

    def seek() -> None:
        quarantine.sought = quarantine.rotten

    damage.on_change = seek
    scene.clock.time_ms += 10_000
    turns(scene)
    assert scene.delays.document()["damaged"] == 1
    scene.index.persist()
    assert not scene.delays.clear_below(scene.store.written)
    turns(scene)
    quarantine.sought = ()  # the last replica has said that it has it not
    turns(scene)
    assert caplog.text.count("a waiting message is lost what=delayed message") == 1
    assert scene.delays.document()["lost"] == 1
    assert scene.delays.clear_below(scene.store.written)
    quarantine.sought = quarantine.rotten  # another replica joins
    turns(scene)
    assert scene.delays.document()["lost"] == 0
    assert not scene.delays.clear_below(scene.store.written)


def test_what_names_a_topic_that_is_gone_because_it_rotted_is_not_dropped(scene: Scene) -> None:
    offset = scene.delay(b"x" * 100, 10)
    scene.delay(b"gone", 10, topic="v")
    scene.store.flush_all(20_000)
    segment = scene.store._log.segments()[0]
    at = offset + bytes(segment.map[offset : offset + 500]).index(b"REAL_TOPIC\1t") + len(b"REAL_TOPIC\1")
    os.pwrite(segment.open_fd(), b"v", at)
    scene.turn()
    scene.clock.time_ms += 1000
    turns(scene)
    told = scene.delays.document()
    assert (told["waiting"], told["damaged"], told["discarded"]) == (1, 1, 1), "the other one's topic is gone"
    os.pwrite(segment.open_fd(), b"t", at)
    scene.store.damage.on_whole(*scene.store.damage.quarantine.rotten[0])
    turns(scene)
    assert scene.bodies() == [b"x" * 100]


@pytest.mark.parametrize(("what", "forged"), [(b"own\1o", b"own\1F"), (b"REAL_QID\0010", b"REAL_QID\0011")])
def test_no_property_that_rotted_gets_a_good_checksum(scene: Scene, what: bytes, forged: bytes) -> None:
    """The body's own checksum says nothing of it."""
    whole = scene.delay(b"whole", 10)
    scene.store.flush_all(20_000)
    offset = scene.delay(b"x" * 100, 10)
    scene.store.flush_all(20_000)
    segment = scene.store._log.segments()[0]
    at = offset + bytes(segment.map[offset : offset + 500]).index(what)
    os.pwrite(segment.open_fd(), forged, at)
    scene.turn()
    scene.clock.time_ms += 1000
    turns(scene)
    assert whole < offset
    assert scene.bodies() == [b"whole"]
    assert (scene.delays.document()["waiting"], scene.delays.document()["damaged"]) == (1, 1)
    os.pwrite(segment.open_fd(), what, at)
    scene.store.damage.on_whole(*scene.store.damage.quarantine.rotten[0])
    turns(scene)
    assert scene.bodies() == [b"whole", b"x" * 100]


def test_what_was_set_aside_is_looked_at_anew_by_who_leads_again(scene: Scene) -> None:
    mend = rot(scene.store, scene.delay(b"x" * 100, 10))
    scene.clock.time_ms += 1000
    turns(scene)
    assert scene.delays.document()["lost"] == 1
    scene.leads = False
    turns(scene)
    told = scene.delays.document()
    assert (told["damaged"], told["lost"]) == (0, 0)
    mend()
    scene.leads = True
    turns(scene)
    assert scene.bodies() == [b"x" * 100]
