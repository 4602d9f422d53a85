"""A cut that was under way when the process ended is carried through by the next start, or given up where it cannot be."""

from __future__ import annotations

from pathlib import Path

from store_kit import SMALL, make_store, message, put

from zenitmq.broker.group.beginning_anew import carry_through_cut
from zenitmq.broker.group.store_directory import DirectoryOnDisk
from zenitmq.broker.replication.replica_files import ReplicaFiles
from zenitmq.store.config import StoreConfig


def filled(directory: Path) -> tuple[int, int]:
    """A store of several segments whose first has expired: (begin, end)."""
    with make_store(directory) as store:
        while store.written < 20_000:
            put(store, "t", 0, message("t", b"x" * 800))
        store.flush_all(20_000)
        store._log.remove_before(8192)
        return store.begin, store.written


def test_a_cut_below_where_the_log_begins_is_given_up_and_nothing_was_changed(tmp_path: Path) -> None:
    """Its master asks once more, and the replica halts and says why; before, it did not start at all."""
    begin, end = filled(tmp_path)
    directory = DirectoryOnDisk(str(tmp_path), StoreConfig(**SMALL))
    for intended in (4096, begin):
        files = ReplicaFiles.open(str(tmp_path))
        files.intend(3, intended)
        carry_through_cut(files, directory)
        assert files.intent == (None if intended < begin else (3, begin))
        with make_store(tmp_path) as store:
            assert (store.begin, store.written) == (begin, end if intended < begin else begin)
