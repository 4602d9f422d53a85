"""Queues converted from files to rows and back: the same units, whatever expired, was damaged or was interrupted."""

import os
import shutil
from pathlib import Path

import pytest
from store_kit import SMALL, StillClock, make_store, message, put, read_queue, tree, unpack_golden

from zenitmq.model.errors import StoreFormatError, StoreLocked
from zenitmq.store.config import StoreConfig
from zenitmq.store.offline import convert
from zenitmq.store.offline.convert import convert_store
from zenitmq.store.offline.offline import inspect_store, verify_store
from zenitmq.store.queues import conversion
from zenitmq.store.queues.conversion import OLD_QUEUE_FOLDER
from zenitmq.store.queues.engine_choice import engine_of

CONFIG = StoreConfig(**SMALL)
OTHER = {"file": "rocksdb", "rocksdb": "file"}


def converted(directory: Path, to: str) -> dict:
    told: list[tuple[int, int]] = []
    document = convert_store(str(directory), to, CONFIG, report=lambda done, total: told.append((done, total)))
    assert not told or told[-1] == (document["messages"] - document["gaps"], document["messages"])
    return document


def fill(directory: Path, engine: str, rounds: int = 30, **settings: object) -> None:
    with make_store(directory, consume_queue=engine, **settings) as store:
        for number in range(rounds):
            for queue_id in range(3):
                body = b"%d" % number
                put(store, "t", queue_id, message("t", body, tags=f"tag{number % 3}"), message("t", body))
        put(store, "SCHEDULE_TOPIC_XXXX", 2, message("SCHEDULE_TOPIC_XXXX", b"late"))


@pytest.mark.parametrize("engine", ["file", "rocksdb"])
def test_there_and_back_everything_is_as_it_was(tmp_path: Path, engine: str) -> None:
    fill(tmp_path / "s", engine)
    before = tree(tmp_path / "s", "consumequeue")
    document = converted(tmp_path / "s", OTHER[engine])
    assert document == {"engine": OTHER[engine], "was": engine, "queues": 4, "messages": 181, "gaps": 0}
    assert inspect_store(str(tmp_path / "s"))["queue_engine"] == OTHER[engine]
    assert verify_store(str(tmp_path / "s"))["damaged_units"] == 0
    with make_store(tmp_path / "s", consume_queue=OTHER[engine]) as store:
        assert store._opened.replayed == 0
        assert [m.body for m in read_queue(store, "t", 1)] == [b"%d" % number for number in range(30) for _ in "ab"]
        assert store.offset_by_time("t", 1, 0, upper=False) == 0
    assert converted(tmp_path / "s", engine)["messages"] == 181
    assert tree(tmp_path / "s", "consumequeue") == before
    assert sorted(os.listdir(tmp_path / "s")).count("converting") == 0


@pytest.mark.parametrize("name", ["file-clean", "rocksdb-clean"])
def test_a_store_of_rocketmq_gets_the_very_units_of_the_other_kind(tmp_path: Path, name: str) -> None:
    golden = unpack_golden(name, tmp_path)
    to = OTHER[name.partition("-")[0]]
    assert converted(golden, to)["gaps"] == 0
    with make_store(golden, StillClock(1_795_250_000_000), consume_queue=to, queue_file_units=100) as store:
        found = tree(golden, "consumequeue")
        assert store.max_offset("trades", 3) == 66
    shutil.rmtree(golden / "consumequeue")
    with make_store(golden, StillClock(1_795_250_000_000), consume_queue=to, queue_file_units=16):
        pass
    made = tree(golden, "consumequeue")
    assert {path for path in made if "SCHEDULE" not in path} == {path for path in found if "SCHEDULE" not in path}
    assert found == made


@pytest.mark.parametrize("engine", ["file", "rocksdb"])
def test_what_expired_keeps_its_offsets(tmp_path: Path, engine: str) -> None:
    clock = StillClock()
    settings = {"consume_queue": engine, "retention_bytes": 8192, "flush_interval_ms": 1}
    with make_store(tmp_path / "s", clock, **settings) as store:
        put(store, "gone", 0, message("gone", b"x"))
        for _ in range(200):
            put(store, "t", 0, message("t", bytes(100)))
        store.flush_all(20_000)
        for _ in range(8):
            clock.time_ms += 100
            store._upkeep._persist((store.written, clock.time_ms))
            store.on_tick(clock.time_ms)
        low = store.min_offset("t", 0)
        assert low > 0
    converted(tmp_path / "s", OTHER[engine])
    with make_store(tmp_path / "s", clock, consume_queue=OTHER[engine], retention_bytes=8192) as store:
        assert (store.min_offset("t", 0), store.max_offset("t", 0)) == (low, 200)
        assert (store.min_offset("gone", 0), store.max_offset("gone", 0)) == (1, 1)
        assert put(store, "gone", 0, message("gone", b"y")).queue_offset == 1


def test_a_damaged_record_becomes_a_gap_and_no_offset_is_used_again(tmp_path: Path) -> None:
    with make_store(tmp_path / "s") as store:
        placed = [put(store, "t", 0, message("t", b"%d" % number)) for number in range(5)]
    for at in (placed[2], placed[4]):
        with open(tmp_path / "s" / "commitlog" / f"{0:020d}", "r+b") as log:
            log.seek(at.physical_offset + 4)
            log.write(b"rot!")
    document = converted(tmp_path / "s", "rocksdb")
    assert document["messages"] == 5
    assert 0 < document["gaps"] <= 3
    with make_store(tmp_path / "s", consume_queue="rocksdb") as store:
        assert store.max_offset("t", 0) == 5


@pytest.mark.parametrize("step", range(6))
def test_interrupted_at_any_step_it_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    fill(tmp_path / "s", "file", 10)
    count = 0

    def killed_at(real):
        def run(*args, **options):
            nonlocal count
            count += 1
            if count == step + 1:
                raise KeyboardInterrupt
            return real(*args, **options)

        return run

    with monkeypatch.context() as patch:
        patch.setattr(conversion.os, "rename", killed_at(os.rename))
        patch.setattr(conversion.shutil, "rmtree", killed_at(shutil.rmtree))
        patch.setattr(convert, "_compare", killed_at(convert._compare))
        with pytest.raises(KeyboardInterrupt):
            converted(tmp_path / "s", "rocksdb")
    left = shutil.copytree(tmp_path / "s", tmp_path / "left")
    converted(tmp_path / "s", "rocksdb")
    with make_store(tmp_path / "s", consume_queue="rocksdb") as store:
        assert [store.max_offset("t", queue_id) for queue_id in range(3)] == [20] * 3
    is_done = (left / OLD_QUEUE_FOLDER).exists() or engine_of(str(left)) == "rocksdb"
    with make_store(left, consume_queue="rocksdb" if is_done else "file") as store:  # or the broker starts before
        assert store.max_offset("t", 0) == 20
    assert not (left / OLD_QUEUE_FOLDER).exists()


def test_what_is_open_or_was_killed_or_is_done_is_left_alone(tmp_path: Path) -> None:
    with make_store(tmp_path / "s") as store:
        put(store, "t", 0, message("t", b"x"))
        with pytest.raises(StoreLocked):
            converted(tmp_path / "s", "rocksdb")
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    with pytest.raises(StoreFormatError, match="not stopped cleanly"):
        converted(tmp_path / "killed", "rocksdb")
    with pytest.raises(StoreFormatError, match="no commit log"):
        converted(tmp_path / "elsewhere", "rocksdb")
    assert not (tmp_path / "elsewhere").exists()
    before = tree(tmp_path / "s", ".")
    assert converted(tmp_path / "s", "file")["was"] == "file"
    assert tree(tmp_path / "s", ".") == before
    (tmp_path / "s" / "deletedqueue" / "1.t").mkdir(parents=True)
    with pytest.raises(StoreFormatError, match="not confirmed"):
        converted(tmp_path / "s", "rocksdb")
