"""What every engine of consume queues promises (queue_engine), asked of each on a directory of its own."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from zenitmq.model.errors import StoreFormatError
from zenitmq.record.layout import UNIT
from zenitmq.store.config import StoreConfig
from zenitmq.store.queues.deleted_queues import DELETED_FOLDER
from zenitmq.store.queues.dispatch import Run
from zenitmq.store.queues.engine_choice import engine_of, open_engine, open_for_reading, open_source, topics_with_queues
from zenitmq.store.queues.queue_engine import NO_UNIT, QueueEngine, WrongUnit
from zenitmq.store.queues.queue_places import FILLER_SIZE
from zenitmq.store.queues.queue_witness import QueueWitness
from zenitmq.store.queues.rows.rocksdb_units import SCAN_THRESHOLD, RocksDbUnits
from zenitmq.store.queues.rows.row_table import RowTable

END = 1 << 40
BYTES = 100  # of each record
NOTHING = memoryview(b"")


@pytest.fixture(params=["file", "rocksdb", "both"])
def config(request: pytest.FixtureRequest) -> StoreConfig:
    return StoreConfig(consume_queue=request.param, queue_file_units=16)


@pytest.fixture
def queues(tmp_path: Path, config: StoreConfig):
    opened = open_engine(str(tmp_path), config)
    opened.begin(log_end=END, reflected=0, unclean=False)
    yield opened
    opened.close()


def made_by(config: StoreConfig) -> str:
    return "rocksdb" if config.consume_queue == "rocksdb" else "file"


def units(first_place: int, count: int, code: int = 7) -> bytes:
    return b"".join(UNIT.pack(first_place + number * BYTES, BYTES, code) for number in range(count))


def put(
    queues: QueueEngine, topic: str, queue_id: int, offset: int, place: int, count: int, stored_ms: int = 5
) -> None:
    queues.put(queues.get_or_create(topic, queue_id), offset, units(place, count), stored_ms)
    queues.advance(place + count * BYTES)


def run_of(topic: str, queue_id: int, offset: int, place: int, count: int) -> Run:
    held = memoryview(units(place, count))
    end = place + count * BYTES
    return Run(topic, queue_id, offset, count, place, end, 5, held, NOTHING, NOTHING, 0, 0, NOTHING)


def again(queues: QueueEngine, tmp_path: Path, config: StoreConfig, *, log_end: int = END, unclean: bool = True):
    reflected = min(queues.persist(), log_end)
    queues.close()
    opened = open_engine(str(tmp_path), config)
    opened.begin(log_end=log_end, reflected=reflected, unclean=unclean)
    return opened


def places(queues: QueueEngine, topic: str = "t", queue_id: int = 0) -> list[int]:
    queue = queues.get(topic, queue_id)
    return [] if queue is None else [queue.unit(at)[0] for at in range(queue.first_offset, queue.next_offset)]


def test_what_is_put_is_read_by_units_by_runs_and_after_a_start(queues, tmp_path, config) -> None:
    put(queues, "t", 3, 0, 0, 10)
    put(queues, "t", 3, 10, 1000, 90)
    queue = queues.get("t", 3)
    assert (queue.first_offset, queue.next_offset, queue.key) == (0, 100, ("t", 3))
    assert queue.unit(0) == (0, BYTES, 7)
    found, at = b"", 0
    while at < 100:
        part = queue.read(at, SCAN_THRESHOLD + 10)
        found += part
        at += len(part) // UNIT.size
    assert found == units(0, 100)
    assert queue.read(100, 5) == b""
    assert queues.listed() == [("t", 3)]
    with pytest.raises(IndexError):
        queue.unit(100)
    queues = again(queues, tmp_path, config)
    assert (queues.count, queues.reflected(), queues.get("t", 3).next_offset) == (1, 10_000, 100)
    assert queues.get("t", 3).read(98, 9) == units(9800, 2)
    assert queues.get("t", 4) is None
    queues.close()
    assert (engine_of(str(tmp_path)), topics_with_queues(str(tmp_path))) == (made_by(config), {"t"})


def test_a_replay_changes_nothing(queues) -> None:
    for _ in range(3):
        queues.on_run(run_of("t", 0, 0, 0, 20))
    queues.advance(2000)
    assert places(queues) == list(range(0, 2000, BYTES))


def test_a_gap_reads_as_filler_that_names_what_follows(queues) -> None:
    put(queues, "t", 0, 0, 0, 2)
    put(queues, "t", 0, 5, 4000, 2)
    queue = queues.get("t", 0)
    assert [queue.unit(at)[:2] for at in range(7)] == [
        (0, BYTES), (100, BYTES), *[(4000, FILLER_SIZE)] * 3, (4000, BYTES), (4100, BYTES),
    ]  # fmt: skip
    assert queue.read(2, 3) == UNIT.pack(4000, FILLER_SIZE, 0) * 3
    assert queue.is_place_of(3, 2000)
    assert not queue.is_place_of(3, 50)
    assert queue.end_of(1) == 200
    queues.fill_in(run_of("t", 0, 3, 2000, 1))
    assert queue.unit(3) == (2000, BYTES, 7)


def test_a_queue_may_begin_anywhere_but_not_where_the_log_has_no_room(queues, caplog) -> None:
    put(queues, "t", 0, 40, 40 * BYTES, 3)
    queue = queues.get("t", 0)
    assert (queue.min_offset(0), queue.next_offset) == (40, 43)
    for offset in (-1, 1 << 40):
        put(queues, "t", 0, offset, 10_000, 1)
    assert queue.next_offset == 43
    assert "cannot be true" in caplog.text


def test_units_behind_the_log_s_end_are_dropped_at_a_start(queues, tmp_path, config) -> None:
    put(queues, "t", 0, 0, 0, 50)
    put(queues, "t", 1, 0, 5000, 5)
    put(queues, "t", 0, 50, 5500, 5)
    queues = again(queues, tmp_path, config, log_end=3000)
    assert places(queues) == list(range(0, 3000, BYTES))
    assert (places(queues, "t", 1), queues.reflected()) == ([], 3000)
    put(queues, "t", 0, 30, 3000, 1)
    queues = again(queues, tmp_path, config)
    assert places(queues) == list(range(0, 3100, BYTES))
    queues.close()


def test_a_queue_that_begins_with_a_slave_goes_on_there(tmp_path, config) -> None:
    queues = open_engine(str(tmp_path), config)
    queues.begin_at({("t", 0): 100, ("t", 1): 0})
    queues.close()
    queues = open_engine(str(tmp_path), config)
    queues.begin(log_end=END, reflected=0, unclean=False, is_whole=True)
    queue = queues.get("t", 0)
    assert (queue.next_offset, queue.min_offset(10)) == (100, 100)
    assert queues.get("t", 1) is None
    put(queues, "t", 0, 100, 50_000, 2)
    assert queue.unit(101)[0] == 50_100
    queues.close()


def test_expired_units_go_and_offsets_stay(queues, tmp_path, config) -> None:
    put(queues, "t", 0, 0, 0, 100)
    put(queues, "t", 1, 0, 10_000, 1)
    queues.begin_expiry(5000)
    while queues.expire_some(1):
        pass
    queue = queues.get("t", 0)
    assert queue.min_offset(5000) == 50
    assert 0 < queue.first_offset <= 50
    assert queue.read(0, 5) == b""
    assert queue.resume_offset(0) > 0
    assert queues.begins_at("t", 0, queue.first_offset)
    assert not queues.begins_at("t", 0, 0)
    queues.begin_expiry(20_000)
    while queues.expire_some(9):
        pass
    assert (queue.min_offset(20_000), queue.next_offset) == (100, 100)
    queues = again(queues, tmp_path, config)
    assert (queues.get("t", 0).min_offset(20_000), queues.get("t", 0).next_offset) == (100, 100)
    assert (queues.get("t", 1).next_offset, queues.count) == (1, 2)
    put(queues, "t", 1, 1, 30_000, 2)
    queues = again(queues, tmp_path, config)
    queues.begin_expiry(30_100)
    while queues.expire_some(1):
        pass
    assert [queues.get("t", queue_id).min_offset(30_100) for queue_id in (0, 1)] == [100, 2]
    queues.close()


def test_an_expiry_reads_rows_of_those_queues_only_of_which_it_removes_a_part(tmp_path, monkeypatch) -> None:
    """Of a million queues most have nothing to remove, or nothing to keep."""
    config = StoreConfig(consume_queue="rocksdb")
    queues = open_engine(str(tmp_path), config)
    queues.begin(log_end=END, reflected=0, unclean=False)
    for queue_id in range(5):
        put(queues, "t", queue_id, 0, queue_id * 1000, 10)
    put(queues, "t", 5, 0, 5000, 10)
    read: list[bytes] = []
    values = RocksDbUnits.values
    monkeypatch.setattr(RocksDbUnits, "values", lambda *a: read.append(a[1]) or values(*a))

    def expire(engine: QueueEngine, below: int) -> list[int]:
        read.clear()
        engine.begin_expiry(below)
        while engine.expire_some(1):
            pass
        asked = set(read)
        return [queue_id for queue_id in range(6) if engine.get("t", queue_id).prefix in asked]

    assert expire(queues, 3000) == []
    assert [queues.get("t", queue_id).min_offset(3000) for queue_id in range(6)] == [10, 10, 10, 0, 0, 0]
    assert expire(queues, 4500) == [4]
    put(queues, "t", 0, 10, 6000, 5)
    assert expire(queues, 5500) == [5]
    queues = again(queues, tmp_path, config)
    assert expire(queues, 5600) == [5]
    assert [queues.get("t", queue_id).min_offset(5600) for queue_id in range(6)] == [10, 10, 10, 10, 10, 6]
    queues.close()


def test_an_expiry_looks_at_no_queue_that_it_does_not_concern(tmp_path, monkeypatch) -> None:
    """A million of them took longer than the next segment to be written. What was here at the start is looked at once."""
    monkeypatch.setattr("zenitmq.store.queues.rows.expiry_order.STEP_BYTES", 1000)
    config = StoreConfig(consume_queue="rocksdb")
    queues = open_engine(str(tmp_path), config)
    queues.begin(log_end=END, reflected=0, unclean=False)
    looked: list[int] = []
    expire_one = RowTable._expire
    monkeypatch.setattr(RowTable, "_expire", lambda table, *key: looked.append(key[1]) or expire_one(table, *key))

    def expire(below: int) -> list[int]:
        looked.clear()
        queues.begin_expiry(below)
        while queues.expire_some(1):
            pass
        return sorted(looked)

    for queue_id in range(9):
        put(queues, "t", queue_id, 0, queue_id * 1000, 10)
    assert expire(2500) == [0, 1, 2]
    assert expire(2600) == [2]
    put(queues, "t", 0, 10, 9000, 1)
    assert expire(5000) == [2, 3, 4, 5]
    assert expire(9000) == [0, 5, 6, 7, 8]
    queues = again(queues, tmp_path, config)
    put(queues, "t", 1, 10, 9100, 10)
    assert expire(9050) == [0, 1, 1, 2, 3, 4, 5, 6, 7, 8]
    assert expire(9150) == [1]
    assert expire(20_000) == [1]
    assert [queues.get("t", queue_id).first_offset for queue_id in (0, 1, 2)] == [11, 20, 10]
    queues.close()


def test_a_first_unit_that_was_wrong_does_not_keep_its_queue(tmp_path) -> None:
    queues = open_engine(str(tmp_path), StoreConfig(consume_queue="rocksdb"))
    queues.begin(log_end=END, reflected=0, unclean=False)
    put(queues, "t", 0, 0, 1 << 50, 1)
    put(queues, "t", 0, 1, 100, 2)
    right = WrongUnit("t", 0, 0, units(0, 1), units(1 << 50, 1), 5)
    assert queues.set_right(right)
    queues.begin_expiry(200)
    while queues.expire_some(1):
        pass
    assert (queues.get("t", 0).first_offset, queues.get("t", 0).min_offset(200)) == (2, 2)
    queues.close()


def test_a_deleted_topic_leaves_others_alone_and_may_be_made_again(queues, tmp_path, config) -> None:
    for topic in ("t", "t2", "tt"):
        put(queues, topic, 0, 0, 0, 10)
    queues.delete_topic("t")
    assert (queues.listed(), queues.count) == ([("t2", 0), ("tt", 0)], 2)
    put(queues, "t", 0, 0, 5000, 1)
    queues = again(queues, tmp_path, config)
    assert (places(queues), len(places(queues, "t2"))) == ([5000], 10)
    queues.close()


@pytest.mark.parametrize("made_again", [False, True])
def test_a_deletion_that_is_cut_is_taken_back_and_one_that_is_confirmed_is_not(
    queues, tmp_path, config, made_again: bool
) -> None:
    """Of `lost`, the log has nothing any more."""
    put(queues, "lost", 0, 0, 0, 3)
    put(queues, "t", 0, 0, 1000, 20)
    put(queues, "t", 1, 0, 3000, 4)
    queues.set_topic_aside("t", 3500)
    queues.set_topic_aside("t", 3500)  # by a replay
    if made_again:
        put(queues, "t", 0, 0, 3600, 2)
    queues.persist()
    queues.close()
    runs = [run_of("t", 0, 0, 1000, 20), run_of("t", 1, 0, 3000, 4), run_of("t", 0, 0, 3600, 2)]
    queues = open_engine(str(tmp_path), config)
    queues.cut(3400, lambda begin: (run for run in runs if run.begin >= begin))
    queues.close()
    queues = open_engine(str(tmp_path), config)
    queues.begin(log_end=3400, reflected=3400, unclean=False)
    assert places(queues) == list(range(1000, 3000, BYTES))
    assert places(queues, "t", 1) == list(range(3000, 3400, BYTES))
    assert len(places(queues, "lost")) == 3
    assert os.listdir(tmp_path / DELETED_FOLDER) == []
    queues.set_topic_aside("lost", 3450)
    queues.purge(3449)
    assert len(os.listdir(tmp_path / DELETED_FOLDER)) == 1
    queues.purge(3450)
    assert os.listdir(tmp_path / DELETED_FOLDER) == []
    queues.close()


def test_a_wrong_unit_is_replaced_if_it_is_still_there(queues) -> None:
    put(queues, "t", 0, 0, 0, 3)
    wrong = WrongUnit("t", 0, 1, UNIT.pack(100, BYTES, 8), units(100, 1), 5)
    assert queues.set_right(wrong)
    assert not queues.set_right(wrong)
    assert not queues.set_right(WrongUnit("t", 0, 3, b"", b"", 0))
    assert [queues.get("t", 0).unit(at)[2] for at in range(3)] == [7, 8, 7]


def test_delayed_messages_have_their_time_for_a_tags_code(queues) -> None:
    put(queues, "SCHEDULE_TOPIC_XXXX", 1, 0, 0, 1, stored_ms=1_000)
    assert queues.get("SCHEDULE_TOPIC_XXXX", 1).unit(0)[2] == 6_000


def test_other_threads_read_copies_and_sources(queues, tmp_path, config) -> None:
    put(queues, "t", 0, 0, 0, 20, stored_ms=77)
    queue = queues.get("t", 0)
    with queues.private("t", 0) as copied, queues.private("u", 0) as none:
        put(queues, "t", 0, 20, 2000, 1)
        assert (copied.next_offset, queue.next_offset, none) == (20, 21, None)
        assert copied.unit(5) == queue.unit(5)
        assert copied.stored_ms(5) == (77 if config.consume_queue == "rocksdb" else None)
    queues.persist()
    with open_source(str(tmp_path)) as source:
        assert source.has_queue("t", 0)
        assert not source.has_queue("t", 1)
        assert source.units("t", 0, 18, 2) == units(1800, 2)
        assert source.units("u", 0, 0, 2) == NO_UNIT * 2
        witness = QueueWitness(source)
        assert witness.names("t", 0, 3, physical_offset=300, size=BYTES)
        assert not witness.names("t", 0, 3, physical_offset=400, size=BYTES)
        assert not witness.names("u", 0, 3, physical_offset=400, size=BYTES)
        for topic, queue_id, offset in (
            ("t", 0, -1),
            ("t", -1, 0),
            ("t", 0, 1 << 62),
            ("t", 0, (1 << 63) - 1),
            ("\udc80", 0, 0),
        ):
            assert not witness.names(topic, queue_id, offset, physical_offset=0, size=BYTES)


def test_a_reader_beside_a_broker_changes_nothing(queues, tmp_path, config) -> None:
    put(queues, "t", 0, 0, 0, 20)
    queues.persist()
    before = sorted(path.name for path in (tmp_path / "consumequeue").rglob("*"))
    reader = open_for_reading(str(tmp_path), config)
    reader.begin(log_end=1000, reflected=1000, unclean=False)
    assert places(reader) == list(range(0, 1000, BYTES))
    reader.close()
    assert sorted(path.name for path in (tmp_path / "consumequeue").rglob("*")) == before
    assert len(places(queues)) == 20


def test_another_engine_s_queues_are_refused_by_its_name(queues, tmp_path, config) -> None:
    put(queues, "t", 0, 0, 0, 1)
    queues.close()
    other = "file" if config.consume_queue == "rocksdb" else "rocksdb"
    with pytest.raises(StoreFormatError, match=f'opened by the engine "{made_by(config)}"') as refused:
        open_engine(str(tmp_path), StoreConfig(consume_queue=other))
    assert str(refused.value).endswith(f"zenit store convert {tmp_path} --to {other}")


# ---- rows alone


@pytest.fixture
def rows(tmp_path: Path):
    opened = RowTable(str(tmp_path), delays_ms=())
    opened.begin(log_end=END, reflected=0, unclean=False)
    yield opened
    opened.close()


def test_what_the_rows_reflect_is_in_the_batch_of_its_units(rows, tmp_path) -> None:
    """Killed between any two batches, the rows say where to go on."""
    copies = []
    for number in range(4):
        put(rows, "t", number % 2, number // 2, number * BYTES, 1)
        copies.append(shutil.copytree(tmp_path / "consumequeue", tmp_path / f"{number}" / "consumequeue"))
    for number, copied in enumerate(copies):
        left = RowTable(str(copied.parent), delays_ms=())
        left.begin(log_end=END, reflected=0, unclean=True)
        assert left.reflected() == (number + 1) * BYTES
        assert len(places(left)) + len(places(left, "t", 1)) == number + 1
        left.close()


def test_on_a_full_disk_the_batch_waits_and_nothing_of_it_is_read(rows, monkeypatch) -> None:
    put(rows, "t", 0, 0, 0, 1)
    write, full = RocksDbUnits.write, OSError(28, "No space left on device")

    def refuses(*_: object) -> None:
        raise full

    monkeypatch.setattr(RocksDbUnits, "write", refuses)
    put(rows, "t", 0, 1, 100, 2)
    put(rows, "t", 0, 3, 300, 1)
    rows.retry_unwritten(400)
    assert rows.is_blocked
    assert places(rows) == [0]
    assert rows.persist() == 0, "RocksDB may refuse to flush, too"
    monkeypatch.setattr(RocksDbUnits, "write", write)
    rows.retry_unwritten(400)
    assert not rows.is_blocked
    assert (places(rows), rows.persist()) == ([0, 100, 200, 300], 400)


def test_a_failing_disk_is_no_full_one(rows, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(5, "I/O error")

    monkeypatch.setattr(RocksDbUnits, "write", fails)
    with pytest.raises(OSError, match="I/O error"):
        put(rows, "t", 0, 0, 0, 1)


def test_damage_in_the_rows_is_told_with_the_way_out(tmp_path) -> None:
    rows = RowTable(str(tmp_path), delays_ms=())
    put(rows, "t", 0, 0, 0, 1)
    rows.close()
    (manifest,) = (tmp_path / "consumequeue").glob("MANIFEST-*")
    manifest.write_bytes(b"damaged" * 10)
    with pytest.raises(StoreFormatError, match="move the whole of it away"):
        RowTable(str(tmp_path), delays_ms=())


def test_a_damaged_note_of_a_deletion_is_told(rows, tmp_path) -> None:
    put(rows, "t", 0, 0, 0, 1)
    rows.set_topic_aside("t", 200)
    (note,) = (tmp_path / DELETED_FOLDER).iterdir()
    assert json.loads(note.read_text()) == {"0": [0, 0, 1, 0]}
    note.write_text("{")
    with pytest.raises(StoreFormatError, match="Expecting"):
        rows.cut(100, lambda _: ())


def test_a_full_disk_ends_a_cut_and_it_may_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What says which rows are to be made again is kept until they are."""
    rows = RowTable(str(tmp_path), delays_ms=())
    put(rows, "t", 0, 0, 100, 3)
    rows.set_topic_aside("t", 500)
    runs = [run_of("t", 0, 0, 100, 3)]

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(RocksDbUnits, "write", refuse)
        with pytest.raises(OSError, match="No space"):
            rows.cut(450, lambda _: runs)
        rows.close()
    rows = RowTable(str(tmp_path), delays_ms=())
    rows.cut(450, lambda _: runs)
    queue = rows.get("t", 0)
    assert queue is not None
    assert queue.read(0, 9) == units(100, 3)
    rows.close()
