"""After a power cut the log is what its checksum entries vouch for: they reach the disk with the flush, not later."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from store_kit import HOST, StillClock, kill, make_store, message, put, put_unchecked, read_queue

from zenitmq.record.kernel import encode_record
from zenitmq.store.checksum import checksum_log
from zenitmq.store.log.segment import Disk
from zenitmq.store.message_store import MessageStore

SEGMENT = 65_536
PAGE = 4_096
SETTINGS = {"segment_bytes": SEGMENT, "index_entries": 1000}
CRC_AT = 8


class Synced:
    """Stands between a store and its disk: of `checksum/`, a power cut leaves what was synced last, and nothing else.

    `full`: from then on writes there find no room, but over bytes that the file has already.
    """

    def __init__(self, store: MessageStore) -> None:
        self._synced: dict[str, bytes] = {}
        self.full = False
        for part in (store._log, store._log.checksums):
            part._disk = Disk(fdatasync=self._fdatasync, pwritev=self._pwritev)

    def _fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.parent.name == "checksum":
            self._synced[path.name] = path.read_bytes()

    def _pwritev(self, fd: int, views, at: int) -> int:
        if self.full and at + sum(map(len, views)) > os.fstat(fd).st_size:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.pwritev(fd, views, at)

    def cut_power(self, directory: Path, copy: Path) -> Path:
        left = kill(directory, copy)
        for path in (left / "checksum").glob("*"):
            if path.name in self._synced:
                path.write_bytes(self._synced[path.name])
            else:
                path.unlink()
        (left / "abort").write_text("7\nanother boot\n")
        return left


def flush(store: MessageStore) -> None:
    store.flush_all(20_000)


def wrong() -> bytes:
    """A record whose body's checksum is wrong; brokers took it as it came once."""
    record = bytearray(message("t", b"evil" * 10))
    record[CRC_AT] ^= 1
    return bytes(record)


def ending_at_a_page(store: MessageStore) -> bytes:
    """A record with which the log ends where a page begins."""
    end = store.written // PAGE * PAGE + 2 * PAGE
    return message("t", b"z" * (end - store.written - len(message("t", b""))))


def forged(at: int) -> bytes:
    return encode_record(
        topic=b"rmq_sys_zenit_topics",
        body=b'{"event":"deleted","topic":"payments"}',
        physical_offset=at,
        store_timestamp_ms=StillClock().time_ms,
        store_host=HOST.encode(),
        born_timestamp_ms=1,
    )


@pytest.mark.parametrize("bad", ["checksum of a body", "zero byte in the properties", "none"])
def test_what_was_flushed_outlives_a_power_cut_whatever_it_holds(tmp_path: Path, bad: str) -> None:
    record = {
        "checksum of a body": wrong(),
        "zero byte in the properties": message("t", b"x", keys="a\0b"),
        "none": message("t", b"x"),
    }[bad]
    with make_store(tmp_path / "s", **SETTINGS) as store:
        synced = Synced(store)
        put(store, "t", 0, message("t", b"first"))
        flush(store)
        put_unchecked(store, "t", 0, record)
        flush(store)
        between = store.written
        for number in range(5):
            put(store, "t", 1, message("t", b"%05d" % number))
            flush(store)
        written, left = store.written, synced.cut_power(tmp_path / "s", tmp_path / "cut")
    short = Path(shutil.copytree(left, tmp_path / "short"))
    with make_store(left, **SETTINGS) as store:
        assert store.written == written
        assert [bytes(found.body) for found in read_queue(store, "t", 1)] == [b"%05d" % number for number in range(5)]
    with open(short / "commitlog" / f"{0:020d}", "r+b") as log:
        log.truncate(between)
        log.truncate(SEGMENT)
    with make_store(short, **SETTINGS) as store:
        assert store.written == between, "the record is the last one"


def test_a_page_of_old_bytes_behind_the_last_flush_is_not_the_log(tmp_path: Path) -> None:
    """The append ends where a page does, so nothing of what stands behind it is its own."""
    with make_store(tmp_path / "s", **SETTINGS) as store:
        synced = Synced(store)
        put(store, "t", 0, message("t", b"first"))
        put(store, "t", 0, ending_at_a_page(store))
        flush(store)
        end, left = store.written, synced.cut_power(tmp_path / "s", tmp_path / "cut")
    with open(left / "commitlog" / f"{0:020d}", "r+b") as log:
        log.seek(end)
        log.write(forged(end) + bytes(16))
    with make_store(left, **SETTINGS) as store:
        assert store.written == end
        assert set(store.queues()) == {"t"}


def test_old_bytes_at_the_front_of_a_segment_are_not_the_log(tmp_path: Path) -> None:
    """The blank in front of it is vouched for, and nothing in it is."""
    with make_store(tmp_path / "s", **SETTINGS) as store:
        synced = Synced(store)
        while store.written < SEGMENT:
            put(store, "t", 0, message("t", b"b" * 5_000))
        flush(store)
        put(store, "t", 0, message("t", b"never flushed"))
        left = synced.cut_power(tmp_path / "s", tmp_path / "cut")
        flushed = store.flushed
    assert flushed > SEGMENT
    (left / "checksum" / f"{SEGMENT:020d}").unlink()
    with open(left / "commitlog" / f"{SEGMENT:020d}", "r+b") as log:
        log.write(forged(SEGMENT) + bytes(16))
    with make_store(left, **SETTINGS) as store:
        assert store.written == SEGMENT
        assert set(store.queues()) == {"t"}


def test_entries_that_a_full_disk_cost_do_not_cost_messages(tmp_path: Path, monkeypatch) -> None:
    """The file says where they begin to be missing: what is behind is judged by its structure."""
    monkeypatch.setattr(checksum_log, "AHEAD_BYTES", 64)
    with make_store(tmp_path / "s", **SETTINGS) as store:
        synced = Synced(store)
        put(store, "t", 0, message("t", b"first"))
        flush(store)
        synced.full = True
        for number in range(9):
            put(store, "t", 0, *(message("t", b"%05d" % number) for number in range(2)))
            flush(store)
        assert store.statistics().checksum_entries_lost == 7
        written, left = store.written, synced.cut_power(tmp_path / "s", tmp_path / "cut")
    with make_store(left, **SETTINGS) as store:
        assert store.written == written


def test_a_file_of_entries_that_cannot_be_made_costs_no_messages(tmp_path: Path) -> None:
    with make_store(tmp_path / "s", **SETTINGS) as store:
        synced = Synced(store)
        put(store, "t", 0, message("t", b"first"))
        flush(store)
        synced.full = True
        while store.written < SEGMENT + 5_000:
            put(store, "t", 0, message("t", b"b" * 5_000))
            flush(store)
        assert store.statistics().checksum_entries_lost
        written, left = store.written, synced.cut_power(tmp_path / "s", tmp_path / "cut")
    with make_store(left, **SETTINGS) as store:
        assert store.written == written


@pytest.mark.parametrize("sure_of", ["everything", "the first", "nothing"])
def test_what_a_kill_left_without_entries_outlives_a_power_cut_after_the_start(tmp_path: Path, sure_of: str) -> None:
    """It is flushed by the next process; nothing has been appended behind it yet."""
    with make_store(tmp_path / "s", **SETTINGS) as store:
        if sure_of != "nothing":
            put(store, "t", 0, message("t", b"first"))
            flush(store)
        put(store, "t", 0, message("t", b"second"))
        if sure_of == "everything":
            flush(store)
        written, killed = store.written, kill(tmp_path / "s", tmp_path / "killed")
    with make_store(killed, **SETTINGS) as store:
        synced = Synced(store)
        assert store.written == written
        for path in (killed / "checksum").glob("*"):
            synced._synced[path.name] = path.read_bytes()  # a start makes what it says of the log durable
        flush(store)
        left = synced.cut_power(killed, tmp_path / "cut")
    with make_store(left, **SETTINGS) as store:
        assert store.written == written
        put(store, "t", 0, message("t", b"third"))
        flush(store)
        assert len(read_queue(store, "t", 0)) == (2 if sure_of == "nothing" else 3)
