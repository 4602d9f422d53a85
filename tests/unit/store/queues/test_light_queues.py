"""Light queues in a store: a record is in the log once, and in every queue that it names; with every engine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from store_kit import StillClock, get, kill, light, make_store, message, persist, put, read_queue, stage

from zenitmq.broker.repair.stored_state import store_statistics
from zenitmq.model.errors import MessageIllegal, TooManyLightQueues
from zenitmq.model.properties import encode_properties
from zenitmq.record.kernel import decode_batch, encode_record
from zenitmq.record.layout import UNIT
from zenitmq.record.new_record import NewRecord
from zenitmq.record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from zenitmq.store.message_store import MessageStore
from zenitmq.store.offline.convert import convert_store
from zenitmq.store.offline.offline import inspect_store, verify_store
from zenitmq.store.opening.store_beginning import begin_store
from zenitmq.store.opening.store_cut import truncate_store
from zenitmq.store.queues import light_offsets
from zenitmq.store.queues.queue_places import FILLER_SIZE

A, B, C = "%LMQ%a", "%LMQ%$chats$b", "%LMQ%c"
OTHER = {"file": "rocksdb", "rocksdb": "file"}


@pytest.fixture(params=["file", "rocksdb", "both"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fill(store: MessageStore, first: int = 0, last: int = 30) -> None:
    """Message n is in A if n is even, in B if it is divisible by three; batches hold several topics' and queues' turns."""
    for number in range(first, last):
        names = [name for name, every in ((A, 2), (B, 3)) if number % every == 0]
        body = b"%d" % number
        stage(store, "t", number % 2, light("t", body, *names) if names else message("t", body), message("t", b"x"))
        if number % 4 == 0:
            store.commit()
    store.commit()


def numbers(store: MessageStore, name: str) -> list[int]:
    messages = read_queue(store, name, 0)
    begin = store.min_offset(name, 0)
    assert [m.queue_offset for m in messages] == list(range(begin, begin + len(messages)))
    assert {(m.topic, m.queue.topic, m.queue_id) for m in messages} <= {("t", name, 0)}
    return [int(m.body) for m in messages]


def assert_filled(store: MessageStore, last: int = 30) -> None:
    assert numbers(store, A) == list(range(0, last, 2))
    assert numbers(store, B) == list(range(0, last, 3))


def test_one_record_is_in_all_its_queues_after_a_turn(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path, consume_queue=engine) as store:
        put(store, "t", 3, light("t", b"1", A, B), light("t", b"2", A), message("t", b"3"))
        assert store.take_arrivals() == [("t", 3), (A, 0), (B, 0)]
        put(store, "t", 1, light("t", b"4", B))
        own = read_queue(store, "t", 3)
        assert [m.body for m in own] == [b"1", b"2", b"3"]
        assert own[0].properties["INNER_MULTI_QUEUE_OFFSET"] == "0" * 19 + "," + "0" * 19
        assert [m.queue_offset for m in own] == [0, 1, 2]
        assert (numbers(store, A), numbers(store, B)) == ([1, 2], [1, 4])
        assert [m.physical_offset for m in read_queue(store, A, 0)] == [m.physical_offset for m in own[:2]]
        assert store.queues() == {"t": (1, 3)}
        assert sorted(store.light_queues()) == sorted([A, B])
        assert (store.statistics().queues, store.statistics().light_queues) == (2, 2)
        assert store.offset_by_time(A, 0, 0, upper=False) == 0


def test_a_start_a_rebuild_and_a_kill_have_them_all(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path / "s", consume_queue=engine) as store:
        fill(store)
        left = kill(tmp_path / "s", tmp_path / "killed")
    for directory in (tmp_path / "s", left):
        for is_rebuilt in (False, True):
            with make_store(directory, consume_queue=engine) as store:
                assert_filled(store)
            if not is_rebuilt:
                for folder in ("consumequeue", "shadow"):
                    shutil.rmtree(directory / folder, ignore_errors=True)
    with make_store(left, consume_queue=engine) as store:
        fill(store, 30, 40)
        assert_filled(store, 40)


def test_a_slave_has_them_and_goes_on_as_master(tmp_path: Path, engine: str) -> None:
    with (
        make_store(tmp_path / "m", consume_queue=engine, segment_bytes=1 << 16) as master,
        make_store(tmp_path / "s", consume_queue=engine, segment_bytes=1 << 16) as slave,
    ):
        slave.confirm(0)
        fill(master)
        copy_log(master, slave)
        assert (slave.take_arrivals(), slave.max_offset(A, 0)) == ([], 0)
        slave.confirm(slave.written - 1)
        assert {(A, 0), (B, 0)} < set(slave.take_arrivals())
        slave.confirm(slave.written)
        assert_filled(slave)
        fill(slave, 30, 36)
        slave.confirm(slave.written)
        assert_filled(slave, 36)


def test_no_reader_sees_beyond_the_confirm_offset(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path, consume_queue=engine) as store:
        ends = [put(store, "t", 0, light("t", b"%d" % number, A)).end for number in range(3)]
        store.confirm(0)
        ends += [put(store, "t", 0, light("t", b"%d" % number, A, C)).end for number in range(3, 6)]
        for number, end in enumerate(ends):
            store.confirm(end)
            assert numbers(store, A) == list(range(number + 1))
            assert store.max_offset(C, 0) == max(number - 2, 0)
            assert (A, 0) in store.take_arrivals()


@pytest.mark.parametrize(
    "wrong",
    [
        light("t", b"x", A)[:-1],
        encode_record(topic=b"t", body=b"x", properties=b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02"),
        encode_record(topic=b"t", body=b"x", properties=encode_properties({"INNER_MULTI_DISPATCH": "%LMQ%a/b"})),
    ],
)
def test_a_wrong_record_leaves_nothing_of_its_batch(tmp_path: Path, engine: str, wrong: bytes) -> None:
    with make_store(tmp_path, consume_queue=engine) as store:
        with pytest.raises(MessageIllegal) as refused:
            stage(store, "t", 0, light("t", b"1", A), wrong)
        assert "\n" not in str(refused.value)
        store.commit()
        assert (store.max_offset(A, 0), store.light_queues()) == (0, [])
        with pytest.raises(MessageIllegal, match="is a light queue"):
            stage(store, A, 0, message(A, b"x"))
        put(store, "t", 0, light("t", b"1", A))
        assert numbers(store, A) == [1]


def test_their_number_is_bounded(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path, consume_queue=engine, light_queues_max=2) as store:
        with pytest.raises(TooManyLightQueues, match=r"2 light queues.*store\.light_queues_max"):
            stage(store, "t", 0, light("t", b"1", A, B, C))
        stage(store, "t", 0, light("t", b"2", A))
        stage(store, "t", 0, light("t", b"2", B))
        with pytest.raises(TooManyLightQueues):
            stage(store, "t", 0, light("t", b"3", B), light("t", b"4", C))
        put(store, "t", 0, light("t", b"4", A, B))
        with pytest.raises(TooManyLightQueues):
            put(store, "t", 0, light("t", b"5", C))
        assert (numbers(store, A), numbers(store, B)) == ([2, 4], [2, 4])


def test_where_a_message_waits_or_comes_again_it_is_in_none(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path, consume_queue=engine) as store:
        for topic in ("%RETRY%g_t", "%DLQ%g", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC"):
            put(store, topic, 0, light(topic, b"x", A))
        properties = {"INNER_MULTI_DISPATCH": f"{A},{B}", "INNER_MULTI_QUEUE_OFFSET": "3,4", "KEYS": "k"}
        half = NewRecord(
            topic="t", queue_id=0, body=b"1", properties=properties, sys_flag=TRANSACTION_PREPARED
        )  # as RocketMQ wrote it
        store.stage_record(half)
        store.commit()
        assert store.light_queues() == []
        store.stage_record(
            NewRecord(topic="t", queue_id=0, body=b"1", properties=properties, sys_flag=TRANSACTION_COMMIT)
        )
        record = encode_record(topic=b"t", body=b"2", properties=encode_properties(properties), flag=7)
        store.stage_own(record + message("t", b"x"), topic="t", queue_id=0, count=2)
        store.commit()
        assert numbers(store, A) == numbers(store, B) == [1, 2]
        assert read_queue(store, A, 0)[1].flag == 7


def test_a_batch_larger_than_a_segment(tmp_path: Path, engine: str) -> None:
    batch = [light("t", b"%d" % number * 3, *([A] if number % 2 else [B, A])) for number in range(60)]
    with make_store(tmp_path, consume_queue=engine, segment_bytes=4096) as store:
        with pytest.raises(MessageIllegal):
            stage(store, "t", 0, *batch, light("t", b"x", A)[:-2] + b"!!")
        assert store.written == 0
        put(store, "t", 0, *batch)
        assert [m.queue_offset for m in read_queue(store, A, 0)] == list(range(60))
        assert store.max_offset(B, 0) == 30
    with make_store(tmp_path, consume_queue=engine, segment_bytes=4096) as store:
        assert store.max_offset(A, 0) == 60


def expire(store: MessageStore, clock: StillClock) -> None:
    for _ in range(40):
        clock.time_ms += 100
        persist(store, clock.time_ms)
        store.on_tick(clock.time_ms)


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Light queues may begin anew each 4096 bytes of the log. The border's offset."""
    monkeypatch.setattr(light_offsets, "LIGHT_STEP", 32)
    return 32


EXPIRING = {"segment_bytes": 4096, "retention_bytes": 8192, "flush_interval_ms": 1}


def test_one_whose_messages_expired_is_gone_and_never_uses_an_offset_again(
    tmp_path: Path, engine: str, short_blocks: int
) -> None:
    clock = StillClock()
    settings: dict[str, Any] = {"consume_queue": engine, **EXPIRING}
    with make_store(tmp_path, clock, **settings) as store:
        put(store, "t", 0, *[light("t", b"%d" % number, A) for number in range(5)])
        for number in range(200):
            put(store, "t", 0, light("t", b"%d" % number, B))
        store.flush_all(20_000)
        expire(store, clock)
        assert store.light_queues() == [B]
        assert (store.max_offset(A, 0), store.get_messages(A, 0, 0, max_messages=1, max_bytes=9).count) == (0, 0)
        assert "%LMQ%a" not in os.listdir(tmp_path / "consumequeue")
        assert 0 < store.min_offset(B, 0) < store.max_offset(B, 0) == 200
        begin = light_offsets.first_light_offset(store.written)
        put(store, "t", 0, light("t", b"6", A))
        assert (store.min_offset(A, 0), store.max_offset(A, 0)) == (begin, begin + 1)
        assert begin > 5
        assert numbers(store, A) == [6]
        left = kill(tmp_path, tmp_path.with_name(tmp_path.name + "-left"))
    for directory in (left, tmp_path):
        with make_store(directory, clock, **settings) as store:
            assert numbers(store, A) == [6]
            assert store.max_offset(A, 0) == begin + 1


def copy_log(master: MessageStore, slave: MessageStore) -> None:
    while slave.written < master.written:
        begin = slave.written
        chunk = master.chunk(begin, bytes_max=700)
        slave.append_chunk(bytes(chunk.data), begin, chunk.end)


def test_a_replica_that_has_the_former_one_begins_it_anew_with_its_master(
    tmp_path: Path, engine: str, short_blocks: int
) -> None:
    clock = StillClock()
    settings: dict[str, Any] = {"consume_queue": engine, **EXPIRING}
    with (
        make_store(tmp_path / "m", clock, **settings) as master,
        make_store(tmp_path / "s", clock, **{**settings, "retention_bytes": 0}) as slave,
    ):
        put(master, "t", 0, *[light("t", b"%d" % number, A) for number in range(5)])
        while master.written < 24_000:
            put(master, "t", 0, message("t", bytes(50)))
        copy_log(master, slave)
        assert numbers(slave, A) == list(range(5))
        master.flush_all(20_000)
        expire(master, clock)
        assert master.light_queues() == []
        put(master, "t", 0, light("t", b"5", A), light("t", b"6", A))
        copy_log(master, slave)
        assert numbers(master, A) == numbers(slave, A) == [5, 6]
        assert slave.min_offset(A, 0) == master.min_offset(A, 0) > 5
    shutil.rmtree(tmp_path / "s" / "consumequeue")
    shutil.rmtree(tmp_path / "s" / "shadow", ignore_errors=True)
    with make_store(tmp_path / "s", clock, **{**settings, "retention_bytes": 0}) as slave:
        assert numbers(slave, A) == [5, 6]


@pytest.mark.parametrize("is_far", [False, True])
def test_a_deleted_one_goes_on_at_an_offset_of_its_own(
    tmp_path: Path, engine: str, is_far: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, or behind a border; what scrubs and restarts find of its records brings nothing back."""
    monkeypatch.setattr(light_offsets, "LIGHT_STEP", 32 if is_far else 320)
    with make_store(tmp_path, consume_queue=engine, segment_bytes=1 << 16) as store:
        fill(store)
        while is_far and store.written < 20_000:
            put(store, "t", 0, message("t", bytes(100)))
        store.delete_light_queue(A)
        store.delete_light_queue(C)
        assert (A in store.light_queues()) is not is_far
        assert store.max_offset(A, 0) == store.min_offset(A, 0) == (0 if is_far else 15)
        checked, wrong = store.damaged_units.check(
            store.log_checker(), store.queue_checker(), 0, bytes_max=1 << 20, limit=store.written
        )
        assert (checked.damaged, wrong) == ((), [])
        persist(store, 0)
    with make_store(tmp_path, consume_queue=engine, segment_bytes=1 << 16) as store:
        assert store.max_offset(A, 0) == store.min_offset(A, 0) == (0 if is_far else 15)
        begin = light_offsets.first_light_offset(store.written) if is_far else 15
        put(store, "t", 0, light("t", b"77", A))
        assert (numbers(store, A), store.max_offset(A, 0)) == ([77], begin + 1)
        assert begin >= 15
        assert numbers(store, B) == list(range(0, 30, 3))


def test_damaged_units_are_found_and_made_right(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path, consume_queue=engine, segment_bytes=1 << 16) as store:
        fill(store)
        queue = store._queues.get(A, 0)
        assert queue is not None
        right = queue.read(3, 1)
        for damaged in (UNIT.pack(91, 200, 0), UNIT.pack(1 << 40, 200, 0), queue.read(4, 1)):
            store._queues.put(queue, 3, damaged, 0)
            store._queues.advance(store.written)
            result = get(store, A, 0, 0, max_messages=32, max_bytes=1 << 20)
            assert sum(len(decode_batch(bytes(view))) for view in result.slices) == 3
            _, wrong = store.damaged_units.check(
                store.log_checker(), store.queue_checker(), 0, bytes_max=1 << 20, limit=store.written
            )
            assert [(found.topic, found.queue_offset, found.unit) for found in wrong] == [(A, 3, right)]
            misplaced = store.damaged_units.misplaced(A, 0, 3)
            assert misplaced is not None
            found = store.damaged_units.find(misplaced)
            assert found is not None
            assert found.unit == right
            assert store.damaged_units.set_right(wrong) == 1
            assert_filled(store)


def test_records_that_are_whole_again_come_back(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path, consume_queue=engine, segment_bytes=1 << 16) as store:
        fill(store, 0, 9)
        place = put(store, "t", 0, light("t", b"9", A, B), message("t", b"x"))
        fill(store, 10, 20)
        whole = bytes(store._log.read(place.physical_offset, place.end))
    path = tmp_path / "commitlog" / ("0" * 20)
    data = bytearray(path.read_bytes())
    data[place.physical_offset + 4 : place.physical_offset + 8] = b"rot!"
    path.write_bytes(data)
    for folder in ("consumequeue", "shadow"):
        shutil.rmtree(tmp_path / folder, ignore_errors=True)
    (tmp_path / "abort").write_bytes(b"")
    with make_store(tmp_path, consume_queue=engine, segment_bytes=1 << 16) as store:
        queue = store._queues.get(A, 0)
        assert queue is not None
        assert queue.unit(5)[1] == FILLER_SIZE
        for low, high in store.damage.quarantine.ranges:
            with open(path, "r+b") as file:
                file.seek(low)
                file.write(whole[low - place.physical_offset :][: high - low])
            store.damage.on_whole(low, high)
        assert [int(m.body) for m in read_queue(store, A, 0)] == [0, 2, 4, 6, 8, 9, 10, 12, 14, 16, 18]


def test_a_log_that_is_cut_takes_their_units_along(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path, consume_queue=engine, segment_bytes=1 << 16) as store:
        fill(store, 0, 12)
        end = store.written
        fill(store, 12, 30)
        put(store, "t", 0, light("t", b"x", C))
        config = store._config
    truncate_store(str(tmp_path), config, end)
    with make_store(tmp_path, consume_queue=engine, segment_bytes=1 << 16) as store:
        assert_filled(store, 12)
        assert (store.max_offset(C, 0), store.light_queues().count(C)) == (0, 0)
        fill(store, 12, 20)
        assert_filled(store, 20)


def test_a_replica_that_begins_behind_them_goes_on_with_their_offsets(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path / "m", consume_queue=engine) as master:
        fill(master, 0, 40)
        put(master, "t", 0, light("t", b"x", C))
        begin = 4096
        assert master.written > begin
        minimums = master.queue_minimums(begin)
        begin_store(
            str(tmp_path / "s"), master._config, begin, segment_bytes=4096, snapshots={}, queue_minimums=minimums
        )
        with make_store(tmp_path / "s", consume_queue=engine) as slave:
            copy_log(master, slave)
            for name in (A, B, C):
                assert slave.max_offset(name, 0) == master.max_offset(name, 0)
                assert slave.min_offset(name, 0) == minimums[name, 0]
                expected = [m.body for m in read_queue(master, name, 0)][minimums[name, 0] :]
                assert [m.body for m in read_queue(slave, name, 0)] == expected


@pytest.mark.parametrize("made_by", ["file", "rocksdb"])
def test_the_other_engine_takes_them_over(tmp_path: Path, made_by: str) -> None:
    with make_store(tmp_path / "s", consume_queue=made_by) as store:
        fill(store)
        store.delete_light_queue(B)
        put(store, "t", 0, light("t", b"30", B))
    shutil.copytree(tmp_path / "s", tmp_path / "t")
    config = store._config
    done = convert_store(str(tmp_path / "s"), OTHER[made_by], config, report=lambda *_: None)
    assert (done["queues"], done["gaps"]) == (4, 0)
    with make_store(tmp_path / "t", consume_queue="both") as store:
        put(store, "t", 0, light("t", b"31", B))
        store.on_tick(1)
        assert store._queues.plain.differences == 0
    for directory in (tmp_path / "s", tmp_path / "t"):
        with make_store(directory, consume_queue=OTHER[made_by]) as store:
            assert numbers(store, A) == list(range(0, 30, 2))
            assert numbers(store, B) in ([30], [30, 31])
            assert store.min_offset(B, 0) == 10


def test_the_tools_count_them_and_do_not_list_them(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path, consume_queue=engine) as store:
        fill(store)
    size, held, checked = store_statistics(str(tmp_path)), inspect_store(str(tmp_path)), verify_store(str(tmp_path))
    assert size["light_queues"]["messages"] == 25
    assert (size["light_queues"]["queues"], held["light_queues"]) == (2, 2)
    assert size["queues"]["queues"] == 2
    assert list(size["topics"]) == list(held["topics"]) == ["t"]
    assert (checked["records"], checked["damaged"], checked["damaged_units"]) == (60, [], 0)


def test_one_that_is_deleted_while_messages_of_it_are_unconfirmed(tmp_path: Path, engine: str) -> None:
    """What was there is gone; what comes then is hidden until it is confirmed, and the others as before."""
    with make_store(tmp_path, consume_queue=engine) as store:
        store.confirm(0)
        end = put(store, "t", 0, light("t", b"1", A, B)).end
        store.delete_light_queue(A)
        last = put(store, "t", 0, light("t", b"2", A, B)).end
        store.confirm(end)
        assert (numbers(store, A), numbers(store, B)) == ([], [1])
        store.confirm(last)
        assert (numbers(store, A), numbers(store, B)) == ([2], [1, 2])


def test_one_of_many_messages_is_deleted_whole(tmp_path: Path) -> None:
    with make_store(tmp_path, consume_queue="rocksdb", segment_bytes=1 << 16) as store:
        put(store, "t", 0, *[light("t", b"%d" % number, A, B) for number in range(150)])
        store.delete_light_queue(A)
        put(store, "t", 0, light("t", b"150", A))
        assert (numbers(store, A), numbers(store, B)) == ([150], list(range(150)))
    with make_store(tmp_path, consume_queue="rocksdb", segment_bytes=1 << 16) as store:
        assert (numbers(store, A), numbers(store, B)) == ([150], list(range(150)))
