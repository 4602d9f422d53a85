"""A file system that is really full: refused, read on, resumed. Needs the right to mount one (root)."""

import os
import subprocess
import threading
from collections import deque

import pytest
from store_kit import make_store, message, put, read_queue

from zenitmq.model.errors import StoreNotWriteable
from zenitmq.store.log.commit_log import CommitLog
from zenitmq.store.rocksdb_waits import TIMER_FOLDER, WaitStore

SEGMENT = 65_536
DEADLINE_MS = 20_000


def mounted(directory, size):
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "zenit-test", str(directory)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("may not mount a file system here")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 512 KiB."""
    yield from mounted(tmp_path, "size=512k")


def fill(log: CommitLog) -> None:
    """Appends until the log refuses."""
    for number in range(1_000):
        try:
            log.place(8_000)
        except StoreNotWriteable:
            return
        log.append([b"%04d" % number * 2_000])
    raise AssertionError("the disk never filled up")


def test_a_full_file_system(small_disk):
    log = CommitLog(str(small_disk), segment_bytes=SEGMENT, preallocate_segments=1)
    log.start()
    try:
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(100_000))
        fill(log)
        written, begin = log.written, log.begin
        assert os.listdir(small_disk / "spare") == []  # the half-made segment gave its space back
        assert bytes(log.view(begin, begin + 8_000)) == b"0000" * 2_000
        log.wait_flushed(written, DEADLINE_MS)
        with pytest.raises(StoreNotWriteable):
            log.place(8_000)
        ballast.unlink()
        assert log.remove_before(written)
        gate = threading.Event()
        while log.written == written:
            try:
                log.place(8_000)
            except StoreNotWriteable:
                gate.wait(0.01)
        log.append([b"back" * 2_000])
        assert bytes(log.view(log.written - 4, log.written)) == b"back"
        log.wait_flushed(log.written, DEADLINE_MS)
    finally:
        log.close()


def until_full(write):
    """Writes until the disk is full."""
    with pytest.raises(OSError, match="No space"):
        deque(map(write, range(100_000)), maxlen=0)


@pytest.fixture
def disk_of_timers(tmp_path):
    """A file system of 4 MiB."""
    yield from mounted(tmp_path, "size=4m")


def test_what_waits_is_written_again_once_there_is_room(disk_of_timers):
    """RocksDB goes on by itself, but not at once, and says that it could not write when it is closed before."""
    store = WaitStore(str(disk_of_timers), TIMER_FOLDER)
    store.write([(5, 100)], 200)
    ballast = disk_of_timers / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        until_full(lambda _: file.write(bytes(4096)))
    until_full(lambda number: store.write([(5, 200 + number)], 201 + number))
    reflected, count = store.reflected, store.count
    store.close()
    ballast.unlink()
    store = WaitStore(str(disk_of_timers), TIMER_FOLDER)
    assert (store.reflected, store.count) == (reflected, count)
    store.write([(6, reflected)], reflected + 1)
    store.flush()
    store.close()


@pytest.fixture
def larger_disk(tmp_path):
    """One with room for RocksDB to open again."""
    yield from mounted(tmp_path, "size=24m")


def test_rows_of_queues_wait_for_room_and_are_read_meanwhile(larger_disk):
    with make_store(
        larger_disk / "s", consume_queue="rocksdb", segment_bytes=1 << 20, index_enabled=False
    ) as store:  # the segment has its room
        put(store, "t", 0, message("t", b"first"))
        store.flush_all(DEADLINE_MS)
        usage = os.statvfs(larger_disk)
        ballast = larger_disk / "ballast"
        ballast.write_bytes(bytes(usage.f_bavail * usage.f_frsize - 8192))
        sent = 1
        while not store.lacks_room:
            put(store, "t", 0, *[message("t", b"x")] * 20)
            sent += 20
            assert sent < 1000
        held = store.max_offset("t", 0)
        assert 0 < held < sent
        assert len(read_queue(store, "t", 0)) == held
        with pytest.raises(StoreNotWriteable):
            put(store, "t", 0, message("t", b"x"))
        store.on_tick(1)
        assert store.max_offset("t", 0) == held
        ballast.unlink()
        store.on_tick(2)
        assert (store.max_offset("t", 0), store.lacks_room, store.is_poisoned) == (sent, False, False)
        put(store, "t", 0, message("t", b"last"))
        assert len(read_queue(store, "t", 0)) == sent + 1
    with make_store(larger_disk / "s", consume_queue="rocksdb", segment_bytes=1 << 20, index_enabled=False) as store:
        assert read_queue(store, "t", 0)[-1].body == b"last"
