"""A store whose log begins elsewhere than at 0, with its master's state: it becomes the master's, from there on."""

import os
import tempfile
from typing import Any

import pytest
from store_kit import SMALL, StillClock, make_store, message, put, read_queue, tree

from zenitmq.model.errors import InvalidName, StoreFormatError, StoreLocked
from zenitmq.store.config import StoreConfig
from zenitmq.store.message_store import MessageStore
from zenitmq.store.opening.snapshot import read_snapshot, write_snapshot
from zenitmq.store.opening.store_beginning import begin_store, erase_store
from zenitmq.store.opening.store_cut import truncate_store

CONFIG = StoreConfig(**SMALL)
BEGIN = 8192
SIZE: dict[str, Any] = {"segment_bytes": CONFIG.segment_bytes}


def master_at(directory) -> MessageStore:
    """Queues: t/0 everywhere, t/1 and t/3 below BEGIN only (t/3 fills a file of units), t/2 from BEGIN on only."""
    store = make_store(directory)
    store.__enter__()
    for number in range(6):
        put(store, "t", 0, message("t", b"%d" % number * 100))
        put(store, "t", 1, message("t", b"x"))
    for _ in range(16):
        put(store, "t", 3, message("t", b"x"))
    while store.written < BEGIN:
        put(store, "t", 0, message("t", bytes(900)))
    put(store, "t", 2, message("t", b"new"))
    put(store, "t", 0, message("t", b"new"))
    return store


def snapshot(reflected: int) -> bytes:
    """A state file's bytes."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "topics.json")
        write_snapshot(path, {"topicConfigTable": {}}, reflected)
        with open(path, "rb") as file:
            return file.read()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_slave_begins_where_its_master_s_log_begins(tmp_path, restarted: bool) -> None:
    master = master_at(tmp_path / "m")
    try:
        directory = str(tmp_path / "s")
        minimums = master.queue_minimums(BEGIN)
        assert minimums[("t", 1)] == 6
        assert minimums[("t", 3)] == 16
        assert minimums[("t", 2)] == 0
        begin_store(
            directory, CONFIG, BEGIN, **SIZE, snapshots={"topics.json": snapshot(BEGIN + 50)}, queue_minimums=minimums
        )
        for _ in range(1 + restarted):
            with make_store(directory) as slave:
                assert (slave.begin, slave.written, slave.flushed) == (BEGIN, BEGIN, BEGIN)
                for (topic, queue_id), offset in minimums.items():
                    assert (slave.min_offset(topic, queue_id), slave.max_offset(topic, queue_id)) == (offset, offset)
        with make_store(directory) as slave:
            while slave.written < master.written:
                chunk = master.chunk(slave.written, 700)
                slave.append_chunk(bytes(chunk.data), chunk.begin, chunk.end)
            for queue_id in range(4):
                assert slave.max_offset("t", queue_id) == master.max_offset("t", queue_id)
                assert slave.min_offset("t", queue_id) == minimums["t", queue_id]
                expected = [m.body for m in read_queue(master, "t", queue_id) if m.physical_offset >= BEGIN]
                assert [m.body for m in read_queue(slave, "t", queue_id)] == expected
            assert put(slave, "t", 1, message("t", b"next")).queue_offset == 6
        assert read_snapshot(os.path.join(directory, "config", "topics.json")).reflected == BEGIN + 50
    finally:
        master.__exit__(None, None, None)


def test_what_it_began_with_outlives_a_cut(tmp_path) -> None:
    """The log comes to what the snapshots reflect only later; cut before that, they are still all there is of it."""
    directory = str(tmp_path / "s")
    begin_store(
        directory,
        CONFIG,
        BEGIN,
        **SIZE,
        snapshots={"topics.json": snapshot(BEGIN + 5000)},
        queue_minimums={("t", 0): 7},
    )
    with make_store(directory) as store:
        first = put(store, "t", 0, message("t", b"a"))
        assert first.queue_offset == 7
        put(store, "t", 0, message("t", b"b"))
    truncate_store(directory, CONFIG, first.end)
    assert read_snapshot(os.path.join(directory, "config", "topics.json")) is not None
    truncate_store(directory, CONFIG, BEGIN)
    with make_store(directory) as store:
        assert (store.written, store.max_offset("t", 0)) == (BEGIN, 7)
        assert put(store, "t", 0, message("t", b"c")).queue_offset == 7


def test_what_a_store_cannot_begin_with(tmp_path) -> None:
    good = {**SIZE, "snapshots": {}, "queue_minimums": {}}
    damaged = bytearray(snapshot(BEGIN))
    damaged[10] ^= 1
    refused = [
        (BEGIN + 1, {}),
        (-4096, {}),
        (1 << 62, {}),
        (BEGIN, {"segment_bytes": 0}),
        (BEGIN, {"segment_bytes": BEGIN - 1}),
        (BEGIN, {"queue_minimums": {("t", -1): 0}}),
        (BEGIN, {"queue_minimums": {("t", 0): -1 - (1 << 62)}}),
        (BEGIN, {"queue_minimums": {("t", 0): 1 << 62}}),
        (BEGIN, {"snapshots": {"topics.json": snapshot(BEGIN - 1)}}),
        (BEGIN, {"snapshots": {"topics.json": bytes(damaged)}}),
        (BEGIN, {"snapshots": {"topics.json": b"\xff"}}),
        (BEGIN, {"snapshots": {"topics.json": b'{"a": 1}'}}),
        (BEGIN, {"snapshots": {"../topics.json": snapshot(BEGIN)}}),
        (BEGIN, {"snapshots": {"zenitStore.json": snapshot(BEGIN)}}),
    ]
    for begin, wrong in refused:
        with pytest.raises(StoreFormatError):
            begin_store(str(tmp_path / "s"), CONFIG, begin, **{**good, **wrong})
    with pytest.raises(InvalidName):
        begin_store(str(tmp_path / "s"), CONFIG, BEGIN, **SIZE, snapshots={}, queue_minimums={("../t", 0): 1})
    assert tree(tmp_path / "s", "commitlog", "config", "consumequeue") == {}
    begin_store(str(tmp_path / "s"), CONFIG, BEGIN, **good)
    with pytest.raises(StoreFormatError, match="empty directory"):
        begin_store(str(tmp_path / "s"), CONFIG, BEGIN, **good)


def test_erased_it_is_as_if_it_had_never_been(tmp_path) -> None:
    directory = tmp_path / "s"
    with make_store(directory) as store:
        for number in range(9):
            put(store, "t", 0, message("t", b"%d" % number * 1000, keys="k"))
        with pytest.raises(StoreLocked):
            erase_store(str(directory))
    (directory / "replica.zenit").write_text("stays")
    erase_store(str(directory))
    assert sorted(os.listdir(directory)) == ["commitlog", "lock", "replica.zenit"]
    begin_store(str(directory), CONFIG, BEGIN, **SIZE, snapshots={}, queue_minimums={})
    with make_store(directory, StillClock()) as store:
        assert (store.written, store.queues()) == (BEGIN, {})
        assert put(store, "t", 0, message("t", b"x")).physical_offset == BEGIN


def test_killed_while_erasing_it_is_an_older_store(tmp_path, monkeypatch) -> None:
    """Newest first: what is left of the log is its beginning, and its queues are made anew from that."""
    directory = tmp_path / "s"
    with make_store(directory) as store:
        for number in range(9):
            put(store, "t", 0, message("t", b"%d" % number * 1000))
        segments = len(store._log.segments())
    unlink, done = os.unlink, []

    def dies_at_the_third(path, *args, **kwargs):
        if "commitlog" in str(path):
            if len(done) == 2:
                raise KeyboardInterrupt
            done.append(path)
        unlink(path, *args, **kwargs)

    with monkeypatch.context() as killed:
        killed.setattr(os, "unlink", dies_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            erase_store(str(directory))
    with make_store(directory) as store:
        assert 0 < len(store._log.segments()) < segments
        bodies = [m.body for m in read_queue(store, "t", 0)]
        assert bodies == [b"%d" % number * 1000 for number in range(len(bodies))]
        assert 0 < len(bodies) < 9
    erase_store(str(directory))
