"""A replica's log on the real store, after a loss of power that took a page out of the middle."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from store_kit import kill, make_store, message, put, read_queue, wait_until

from zenitmq.broker.group.store_directory import DirectoryOnDisk
from zenitmq.broker.replication.disk import StoreDisk
from zenitmq.broker.replication.effects import CutLog, CutTail, PersistIntent
from zenitmq.broker.replication.replica_files import ReplicaFiles
from zenitmq.model.errors import CorruptRecordError
from zenitmq.store.config import StoreConfig
from zenitmq.store.integrity import damage
from zenitmq.store.log import chunk_reader
from zenitmq.store.message_store import MessageStore
from zenitmq.store.opening.store_cut import truncate_store

SETTINGS = {"segment_bytes": 65536}
PAGE = 4096


class Replica:
    """An open store, its disk, and what was asked of the broker."""

    def __init__(self, store: MessageStore) -> None:
        self.store = store
        self.asked: list[str] = []
        self.posted: list[Callable[[], None]] = []
        self.later: list[Callable[[], None]] = []
        self.disk = StoreDisk(
            store,
            ReplicaFiles.open(store._directory),
            DirectoryOnDisk(store._directory, store._config),
            post=self.posted.append,
            later=self.later.append,
            on_cut_needed=lambda: self.asked.append("cut"),
            on_beginning_needed=lambda: self.asked.append("beginning"),
            withdraw_beginning=lambda: True,
            on_fatal=lambda: self.asked.append("fatal"),
        )


@pytest.fixture
def with_a_hole(tmp_path) -> tuple[Path, int, int]:
    """(a store that lost a page, where its log has the hole, where it ends)."""
    with make_store(tmp_path / "s", **SETTINGS) as store:
        places = [put(store, "t", 0, message("t", b"%05d" % number + b"b" * 700)) for number in range(30)]
        store.flush_all(20_000)
        left, end = kill(tmp_path / "s", tmp_path / "killed"), store.written
    (left / "abort").write_text("7\nanother boot\n")
    hole = next(placed.physical_offset for placed in places if placed.end > PAGE)
    with open(left / "commitlog" / f"{0:020d}", "r+b") as log:
        log.seek(PAGE)
        log.write(bytes(PAGE))
    return left, hole, end


def numbers(store: MessageStore) -> list[int]:
    return [int(record.body[:5]) for record in read_queue(store, "t", 0)]


def test_the_log_ends_at_its_first_hole_and_nothing_behind_it_is_shown(with_a_hole) -> None:
    directory, hole, end = with_a_hole
    for _ in range(2):  # and in the next life too, until it is cut
        with make_store(directory, **SETTINGS) as store:
            replica = Replica(store)
            store.confirm(0)
            assert store.written == end
            assert replica.disk.has_hole
            assert replica.disk.position()[0] == hole
            store.flush_all(20_000)
            assert replica.disk.position() == (hole, hole)
            assert numbers(store) == []
            store.confirm(hole)
            assert numbers(store) == list(range(5))
            assert store.max_offset("t", 0) == 5


def test_a_cut_at_the_hole_takes_what_lies_behind(with_a_hole) -> None:
    directory, hole, _ = with_a_hole
    with make_store(directory, **SETTINGS) as store:
        replica = Replica(store)
        replica.disk.perform(PersistIntent(3, hole), lambda: replica.asked.append("noted"))
        replica.disk.perform(CutLog(hole), lambda: replica.asked.append("done"))
        assert replica.asked == ["noted", "cut"]  # the store is to be closed for it
    truncate_store(str(directory), StoreConfig(**SETTINGS), hole)
    with make_store(directory, **SETTINGS) as store:
        replica = Replica(store)
        replica.disk.perform(CutLog(hole), lambda: replica.asked.append("done"))
        assert replica.asked == ["done"]
        assert not replica.disk.has_hole
        assert replica.disk.position()[0] == store.written == hole
        assert store.statistics().quarantined_ranges == 0
        put(store, "t", 0, message("t", b"00005"))
        assert numbers(store) == list(range(6))
        assert replica.disk.position()[0] == store.written


def test_who_leads_takes_its_log_with_the_hole_for_good(with_a_hole, caplog) -> None:
    directory, hole, end = with_a_hole
    with make_store(directory, **SETTINGS) as store:
        replica = Replica(store)
        replica.disk.perform(CutTail(), lambda: replica.asked.append("done"))
        wait_until(lambda: bool(replica.posted))
        replica.posted.pop()()
        assert replica.asked == ["done"]
        assert f"ranges=(({hole}, " in caplog.text
        assert (replica.disk.has_hole, replica.disk.position()[0]) == (False, end)
    with make_store(directory, **SETTINGS) as store:
        replica = Replica(store)
        assert (replica.disk.has_hole, replica.disk.position()[0]) == (False, end)
        assert store.statistics().quarantined_ranges == 1
        replica.disk.perform(CutTail(), lambda: replica.asked.append("done"))
        assert replica.asked == ["done"]


def test_a_log_with_holes_is_led_only_once_it_is_written_down_that_it_is_taken_as_it_is(
    with_a_hole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full: the term began all the same, and after a kill the log ended before all that it had acknowledged."""
    directory, _, end = with_a_hole

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    with make_store(directory, **SETTINGS) as store:
        replica = Replica(store)
        with monkeypatch.context() as full:
            full.setattr(damage, "note_quarantine", refuse)
            replica.disk.perform(CutTail(), lambda: replica.asked.append("done"))
            for _ in range(2):
                wait_until(lambda: bool(replica.posted))
                replica.posted.pop()()
                assert replica.asked == []
                replica.later.pop()()
            wait_until(lambda: bool(replica.posted))
        replica.posted.pop()()
        replica.later.pop()()
        wait_until(lambda: bool(replica.posted))
        replica.posted.pop()()
        assert replica.asked == ["done"]
        left = kill(directory, directory.parent / "left")
    with make_store(left, **SETTINGS) as store:
        assert Replica(store).disk.position()[0] == end


def test_a_chunk_whose_end_was_guessed_before_damage_is_not_sent_once_the_disk_gives_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sector could not be read for a moment: a piece of a record went to the slave, which ended at it."""
    with make_store(tmp_path / "s", **SETTINGS) as store:
        for number in range(30):
            put(store, "t", 0, message("t", b"%05d" % number + b"b" * 700))
        replica = Replica(store)
        whole = replica.disk.cut_at(0, 5000)
        assert 0 < whole < 5000
        with monkeypatch.context() as failing:
            failing.setattr(chunk_reader, "page_in", lambda _: False)
            assert replica.disk.cut_at(0, 5000) == 5000
        for _ in range(2):  # more than one slave may wait for it
            with pytest.raises(CorruptRecordError):
                replica.disk.read(0, 5000)
        assert len(replica.disk.read(0, whole)) == whole
        assert replica.disk.cut_at(0, 5000) == whole
        assert store.statistics().quarantined_ranges == 0


def test_damage_in_what_was_written_lately_is_quarantined_where_it_keeps_a_chunk_back(tmp_path: Path) -> None:
    """What this process wrote lately is not held to its checksums. Where it could not be cut into records, nothing told where
    the damage is: no replica was asked for it, and the slave waited, or was sent a piece of a record."""
    with make_store(tmp_path / "s", **SETTINGS) as store:
        places = [put(store, "t", 0, message("t", b"%05d" % number + b"b" * 700)) for number in range(30)]
        begin = places[3].physical_offset
        with open(tmp_path / "s" / "commitlog" / f"{0:020d}", "r+b") as log:
            log.seek(begin)
            log.write(bytes(4))
        replica = Replica(store)
        end = replica.disk.cut_at(begin, begin + 5000)
        with pytest.raises(CorruptRecordError):
            replica.disk.read(begin, end)
        assert [low <= begin < high for low, high in store.damage.unsendable] == [True]
