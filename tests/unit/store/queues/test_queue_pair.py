"""Both engines at once: the other one follows what a store had, is compared, and takes over."""

from pathlib import Path

import pytest
from store_kit import StillClock, kill, make_store, message, put, read_queue, tree

from zenitmq.model.errors import StoreFormatError
from zenitmq.store.queues.conversion import CONVERTING_FOLDER
from zenitmq.store.queues.engine_choice import engine_of
from zenitmq.store.queues.queue_pair import is_shadow_whole, shadow_of

OTHER = {"file": "rocksdb", "rocksdb": "file"}


@pytest.fixture(params=["file", "rocksdb"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fill(store, first: int, last: int, topic: str = "t") -> None:
    for number in range(first, last):
        put(store, topic, number % 2, message(topic, b"%d" % number, tags=f"tag{number % 3}"))


def bodies(store, topic: str = "t") -> list[bytes]:
    found = [m.body for queue_id in range(2) for m in read_queue(store, topic, queue_id)]
    return sorted(found, key=int)


def test_the_other_engine_follows_and_takes_over(tmp_path: Path, engine: str) -> None:
    """What the first one has of the log, and no message of a topic that was deleted before."""
    directory = tmp_path / "s"
    with make_store(directory, consume_queue=engine) as store:
        fill(store, 0, 50)
        fill(store, 0, 9, "gone")
        store.delete_topic("gone", store.written)
        fill(store, 0, 3, "gone")
    with make_store(directory, consume_queue="both") as store:
        fill(store, 50, 80)
        store.on_tick(1)
        assert store._queues.plain.differences == 0
        assert bodies(store) == [b"%d" % number for number in range(80)]
    assert (engine_of(str(directory)), is_shadow_whole(str(directory))) == (engine, True)
    with make_store(directory, consume_queue="both") as store:
        assert store._opened.replayed == 0
        fill(store, 80, 90)
    with make_store(directory, consume_queue=OTHER[engine]) as store:
        assert store._opened.replayed == 0
        assert bodies(store) == [b"%d" % number for number in range(90)]
        assert bodies(store, "gone") == [b"0", b"1", b"2"]
        fill(store, 90, 95)
    assert engine_of(str(directory)) == OTHER[engine]
    assert not Path(shadow_of(str(directory))).exists()


def test_killed_at_any_time_both_go_on(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path / "s", consume_queue=engine) as store:
        fill(store, 0, 30)
    with make_store(tmp_path / "s", consume_queue="both") as store:
        fill(store, 30, 60)
        left = kill(tmp_path / "s", tmp_path / "left")
    with make_store(left, StillClock(), consume_queue="both") as store:
        assert store._queues.plain.differences == 0
        fill(store, 60, 70)
        again = kill(left, tmp_path / "again")
    with make_store(again, StillClock(), consume_queue=OTHER[engine]) as store:
        assert bodies(store) == [b"%d" % number for number in range(70)]
    found = tree(again, "consumequeue")
    with make_store(tmp_path / "new", consume_queue=OTHER[engine]) as store:
        fill(store, 0, 70)
    assert found.keys() == tree(tmp_path / "new", "consumequeue").keys()


def test_queues_whose_messages_all_expired_keep_their_offsets(tmp_path: Path, engine: str) -> None:
    clock = StillClock()
    settings = {"consume_queue": engine, "retention_bytes": 8192, "flush_interval_ms": 1}
    with make_store(tmp_path / "s", clock, **settings) as store:
        put(store, "gone", 0, message("gone", b"x"), message("gone", b"y"))
        for _ in range(200):
            put(store, "t", 0, message("t", bytes(100)))
        store.flush_all(20_000)
        for _ in range(8):
            clock.time_ms += 100
            store._upkeep._persist((store.written, clock.time_ms))
            store.on_tick(clock.time_ms)
        assert store.min_offset("gone", 0) == 2
    for setting in ("both", OTHER[engine]):
        with make_store(tmp_path / "s", clock, **{**settings, "consume_queue": setting}) as store:
            assert (store.min_offset("gone", 0), store.max_offset("gone", 0), store.max_offset("t", 0)) == (2, 2, 200)


def test_a_shadow_that_no_longer_follows_is_not_taken(tmp_path: Path, engine: str) -> None:
    for setting in (engine, "both", engine):
        with make_store(tmp_path / "s", consume_queue=setting) as store:
            fill(store, 0, 10)
    assert not Path(shadow_of(str(tmp_path / "s"))).exists()
    with (
        pytest.raises(StoreFormatError, match="opened by the engine"),
        make_store(tmp_path / "s", consume_queue=OTHER[engine]),
    ):
        pass


def test_an_unfinished_conversion_is_not_taken_for_the_shadow(tmp_path: Path, engine: str) -> None:
    """A conversion that was killed leaves queues that are not whole."""
    directory = tmp_path / "s"
    with make_store(directory, consume_queue=engine) as store:
        fill(store, 0, 10)
    with make_store(directory / CONVERTING_FOLDER, consume_queue=OTHER[engine]) as store:
        fill(store, 0, 2)
    with make_store(directory, consume_queue="both") as store:
        fill(store, 10, 20)
    with make_store(directory, consume_queue=OTHER[engine]) as store:
        assert bodies(store) == [b"%d" % number for number in range(20)]
    assert not (directory / CONVERTING_FOLDER).exists()


def test_a_shadow_whose_deletion_was_interrupted_is_made_anew(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed when some of the queues' files are gone."""
    directory = tmp_path / "s"
    for setting in (engine, "both"):
        with make_store(directory, consume_queue=setting) as store:
            fill(store, 0, 10)

    def stop_halfway(folder: str, **_: object) -> None:
        for found in Path(folder, "consumequeue").rglob("*"):
            if found.is_file() and (found.suffix == ".log" or found.parent.name == "1"):
                found.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", stop_halfway)
        with pytest.raises(KeyboardInterrupt):
            make_store(directory, consume_queue=engine).__enter__()
    with make_store(directory, consume_queue="both") as store:
        assert store._queues.plain.differences == 0
    with make_store(directory, consume_queue=OTHER[engine]) as store:
        assert len(bodies(store)) == 20


def test_a_shadow_of_queues_that_are_gone_is_made_anew(tmp_path: Path, engine: str) -> None:
    """An operator moved damaged ones away, as the error says."""
    directory = tmp_path / "s"
    for setting in (engine, "both"):
        with make_store(directory, consume_queue=setting) as store:
            fill(store, 0, 10)
    (directory / "consumequeue").rename(tmp_path / "moved")
    with make_store(directory, consume_queue="both") as store:
        assert len(bodies(store)) == 20
    with make_store(tmp_path / "new", consume_queue="both") as store:
        fill(store, 0, 10)
    shadows = [Path(shadow_of(str(store)), "consumequeue") for store in (directory, tmp_path / "new")]
    kinds = [{path.is_dir() for path in shadow.iterdir()} for shadow in shadows]
    assert kinds[0] == kinds[1], "folders of queue files lie beside RocksDB's files"


def test_a_difference_is_told(tmp_path: Path, engine: str, caplog) -> None:
    with make_store(tmp_path / "s", consume_queue=engine) as store:
        fill(store, 0, 10)
    with make_store(tmp_path / "s", consume_queue="both") as store:
        shadow = store._queues.plain._shadow
        shadow.put(shadow.get("t", 0), 4, bytes(20), 0)
        shadow.advance(store.written)
        fill(store, 10, 12)
        store.on_tick(1)
        assert store._queues.plain.differences == 1
    assert "the two kinds of a queue differ topic=t queue=0 offset=4" in caplog.text
