"""What a store says is on the disk: nothing that has not been synced; all of it, once asked."""

import pytest
from store_kit import kill, make_store, message, put

from zenitmq.model.errors import FlushTimeout


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_what_counts_as_flushed_after_a_start(tmp_path, stop: str) -> None:
    """What the last process made durable before it stopped cleanly: the first flush syncs only what is written since.
    Else nothing that this process has not synced itself."""
    with make_store(tmp_path / "s") as store:
        for _ in range(6):
            put(store, "t", 0, message("t", bytes(3000)))
        store.flush_all(20_000)
        assert store.flushed == store.written > 0
        written = store.written
        left = kill(tmp_path / "s", tmp_path / "killed")
    with make_store(tmp_path / "s" if stop == "clean" else left) as store:
        assert (store.flushed, store.written) == (written if stop == "clean" else 0, written)
        synced: list[int] = []
        fdatasync = store._log._disk.fdatasync
        store._log._disk = store._log._disk.__class__(fdatasync=lambda fd: synced.append(fd) or fdatasync(fd))
        put(store, "t", 0, message("t", b"x"))
        assert store.flush_all(20_000) == store.flushed == store.written > written
        assert len(synced) == (1 if stop == "clean" else 6)


def test_a_flush_of_all_has_a_deadline(tmp_path, monkeypatch) -> None:
    with make_store(tmp_path / "s") as store:
        put(store, "t", 0, message("t", b"x"))
        monkeypatch.setattr(store._log._flusher, "request", lambda: None)
        with pytest.raises(FlushTimeout):
            store.flush_all(1)
        assert store.flushed == 0


def test_the_flush_mode_may_change_while_the_store_is_open(tmp_path, monkeypatch) -> None:
    """A group's settings tell, not the file: from then on each commit, and each chunk, asks for the disk."""
    with make_store(tmp_path / "m") as master, make_store(tmp_path / "s") as slave:
        asked: list[int] = []
        for store in (master, slave):
            monkeypatch.setattr(store._log, "request_flush", asked.append)
        for is_sync in (False, True, False):
            master.is_sync = slave.is_sync = is_sync
            begin, end = master.written, put(master, "t", 0, message("t", b"x")).end
            slave.append_chunk(bytes(master.chunk(begin, 1 << 20).data), begin, end)
            assert asked == ([end, end] if is_sync else [])
            asked.clear()


def test_nothing_is_flushed_before_its_checksum_entries_are(tmp_path) -> None:
    """After a power cut only what has an entry counts, so who is told that it is flushed may rely on that."""
    with make_store(tmp_path / "s") as store:
        for _ in range(2):
            put(store, "t", 0, message("t", bytes(3000)))
        log, seen = store._log, []
        sync = log.checksums.sync

        def watched() -> None:
            seen.append((len(list(log.checksums.entries(0, log.written))), log.flushed))
            sync()

        log.checksums.sync = watched
        log.sync_to(log.written)
        assert seen == [(3, 0)], "two records and a blank"
        assert log.flushed == log.written
        log.checksums.sync = lambda: (_ for _ in ()).throw(OSError(5, "Input/output error"))
        put(store, "t", 0, message("t", b"x"))
        with pytest.raises(OSError, match="Input/output"):
            log.sync_to(log.written)
        assert log.flushed < log.written
