"""Index files as a power cut, a worn disk or RocketMQ leave them: what was kept is kept, what makes no sense is made anew
from the log, and only from where that is needed."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from store_kit import ALL_TIME, StillClock, index_bytes, kill, make_store, message, put, tree

from zenitmq.model.errors import StoreNotWriteable
from zenitmq.record.kernel import decode_record
from zenitmq.store.log import segment as segment_module
from zenitmq.store.message_store import MessageStore
from zenitmq.store.offline.offline import inspect_store

BEGIN_AT = 16  # the physical offset of the first entry, in a header
COUNT_AT = 36
ENDS = ("clean", "killed", "another boot")


def keyed(number: int) -> bytes:
    return message("t", b"%05d" % number, unique=f"{number:032X}")


def fill(store: MessageStore, begin: int, end: int, clock: StillClock) -> None:
    for number in range(begin, end):
        clock.time_ms += 700
        put(store, "t", 0, keyed(number))


def checkpoint(store: MessageStore, clock: StillClock) -> None:
    """Two ticks: the first one's mark is what the second one writes down."""
    store.flush_all(20_000)
    for _ in range(2):
        clock.time_ms += 100
        store.on_tick(clock.time_ms)
        store._upkeep.run_in_worker(lambda: None).result(20)


def found_by_key(store: MessageStore, count: int) -> list[int]:
    """Of messages 0 to count - 1, those that their unique ids lead to."""
    found = [store.query("t", f"{n:032X}", max_messages=2, unique=True, **ALL_TIME) for n in range(count)]
    return [int(decode_record(records[0]).body) for records in found if len(records) == 1]


def index_files(directory: Path) -> list[Path]:
    return sorted(directory.joinpath("index").iterdir())


def boot_again(directory: Path) -> None:
    (directory / "abort").write_text("7\nanother boot\n")


def patch(path: Path, at: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.parametrize("boot", ["same", "another"])
def test_the_last_keyed_record_expired_long_before_the_kill(tmp_path, boot: str) -> None:
    """The log no longer tells when it was stored; the index says so itself."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock, retention_bytes=8192) as store:
        fill(store, 0, 10, clock)
        for number in range(300):
            put(store, "t", 0, message("t", b"without a key" * 4))
            if number % 20 == 0:
                checkpoint(store, clock)
        assert store.begin > store._index.end_offset
        left = kill(tmp_path / "s", tmp_path / "killed")
        held = store._index._files[-1].header
    if boot == "another":
        boot_again(left)
    with make_store(left, clock) as store:
        assert store._index._files[-1].header == held
        fill(store, 10, 13, clock)
        assert found_by_key(store, 13) == [10, 11, 12]


def test_a_time_is_not_read_out_of_damaged_records(tmp_path) -> None:
    """A file that claims to end long ago would hide its keys from a search by time."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock) as store:
        fill(store, 0, 20, clock)
        checkpoint(store, clock)
        last, header = store._index.end_offset, store._index._files[-1].header
        put(store, "t", 0, message("t", b"without a key"))
        left = kill(tmp_path / "s", tmp_path / "killed")
    patch(left / "commitlog" / f"{last // 4096 * 4096:020d}", last % 4096, bytes(100))
    with make_store(left, clock) as store:
        assert store._index._files[-1].header == header


@pytest.mark.parametrize("file", [0, 1])
def test_a_header_older_than_the_slots_is_believed_as_far_as_it_goes(tmp_path, caplog, file: int) -> None:
    """The page of the header did not reach the disk, those of the slots did: only what follows the checkpoint is read."""
    clock = StillClock()
    begin = 120 * file
    with make_store(tmp_path / "s", clock) as store:
        fill(store, 0, begin + 20, clock)
        checkpoint(store, clock)
        mark = store.written
        path = index_files(tmp_path / "s")[file]
        header = path.read_bytes()[:40]
        fill(store, begin + 20, begin + 40, clock)
        store.flush_all(20_000)
        left = kill(tmp_path / "s", tmp_path / "killed")
        written = store.written
    patch(left / "index" / path.name, 0, header)
    boot_again(left)
    caplog.set_level("INFO")
    with make_store(left, clock) as store:
        assert f"scanned={written - mark} replayed=20 " in caplog.text
        assert found_by_key(store, begin + 40) == list(range(begin + 40))
        shutil.rmtree(tmp_path / "anew", ignore_errors=True)
        kill(left, tmp_path / "anew")
        shutil.rmtree(tmp_path / "anew" / "index")
        with make_store(tmp_path / "anew", StillClock(1)):
            assert index_bytes(tmp_path / "anew") == index_bytes(left)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("file", [0, 1, 2])
@pytest.mark.parametrize("field", ["count", "begin"])
def test_a_header_that_makes_no_sense_costs_its_file_and_those_behind_it(
    tmp_path, file: int, field: str, end: str
) -> None:
    """Whichever file it is. One bit of where it begins would let a start drop the file, and nobody make it anew."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock, index_slots=25) as store:
        fill(store, 0, 250, clock)
        checkpoint(store, clock)
        left = kill(tmp_path / "s", tmp_path / "killed")
    if end == "clean":
        shutil.rmtree(left)
        left = Path(shutil.copytree(tmp_path / "s", tmp_path / "killed"))
    elif end == "another boot":
        boot_again(left)
    whole = index_bytes(left)
    hurt = index_files(left)
    if field == "count":
        patch(hurt[file], COUNT_AT, (1 << 30).to_bytes(4, "big"))
    else:
        begin = int.from_bytes(hurt[file].read_bytes()[BEGIN_AT : BEGIN_AT + 8], "big")
        patch(hurt[file], BEGIN_AT, (begin ^ 1 << 34).to_bytes(8, "big"))
    kept = [os.stat(path).st_ino for path in hurt[:file]]
    assert inspect_store(str(left))["index"]["files"] == file
    with make_store(left, clock, index_slots=25) as store:
        assert found_by_key(store, 250) == list(range(250))
        assert index_bytes(left) == whole
        assert [os.stat(path).st_ino for path in index_files(left)[:file]] == kept
        again = kill(left, tmp_path / "again")
    with make_store(again, clock, index_slots=25) as store:
        assert found_by_key(store, 250) == list(range(250))


@pytest.mark.parametrize("lost", ["index", "some index files", "consumequeue"])
def test_killed_while_what_was_lost_is_made_anew(tmp_path, monkeypatch, lost: str) -> None:
    """Until it is whole the checkpoint does not say that it is."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock) as store:
        fill(store, 0, 250, clock)
    rebuilt = "queues.queue_table.QueueTable" if lost == "consumequeue" else "index.key_index.KeyIndex"
    whole = tree(tmp_path / "s", "consumequeue"), index_bytes(tmp_path / "s")
    if lost == "some index files":
        patch(index_files(tmp_path / "s")[1], COUNT_AT, (1 << 30).to_bytes(4, "big"))
    else:
        shutil.rmtree(tmp_path / "s" / lost)

    class Killed(Exception):
        """The process."""

    told: list[int] = []

    def killed_later(*arguments: object) -> None:
        told.append(1)
        if len(told) == 5:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("zenitmq.store.integrity.recovery.REPLAY_COUNT_MAX", 30)
        patched.setattr(f"zenitmq.store.{rebuilt}.advance", killed_later)
        patched.setattr("zenitmq.store.upkeep.Upkeep.close", lambda self: self._log.close())
        with pytest.raises(Killed), make_store(tmp_path / "s", clock):
            pass
    with make_store(tmp_path / "s", clock) as store:
        assert found_by_key(store, 250) == list(range(250))
        assert (tree(tmp_path / "s", "consumequeue"), index_bytes(tmp_path / "s")) == whole


@pytest.mark.parametrize("end", ENDS)
def test_the_holes_of_a_file_of_rocketmq_are_filled_before_it_is_written_to(tmp_path, end: str) -> None:
    """Whoever touches a hole through a map on a full disk is ended by the kernel."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock, index_slots=50_000, index_entries=100_000) as store:
        fill(store, 0, 20, clock)
        checkpoint(store, clock)
        left = kill(tmp_path / "s", tmp_path / "killed")
    if end == "clean":
        (left / "abort").unlink()
    elif end == "another boot":
        boot_again(left)
    (path,) = index_files(left)
    make_sparse(path)
    assert os.stat(path).st_blocks * 512 < path.stat().st_size // 2
    with make_store(left, clock) as store:
        assert os.stat(path).st_blocks * 512 >= path.stat().st_size
        fill(store, 20, 30, clock)
        assert found_by_key(store, 30) == list(range(30))


def make_sparse(path: Path) -> None:
    data = path.read_bytes()
    with open(path, "wb") as file:
        for at in range(0, len(data), 4096):
            page = data[at : at + 4096]
            if any(page):
                file.seek(at)
                file.write(page)
        file.truncate(len(data))


def test_a_file_with_holes_takes_no_keys_on_a_full_disk(tmp_path, monkeypatch) -> None:
    """What it holds is found; new keys wait for the next file."""
    clock = StillClock()
    with make_store(tmp_path / "s", clock) as store:
        fill(store, 0, 20, clock)
    disk_is_full = True

    def fallocate(fd: int, offset: int, size_bytes: int) -> None:
        if disk_is_full and "/index/" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        os.posix_fallocate(fd, offset, size_bytes)

    monkeypatch.setattr(segment_module, "_fallocate", fallocate)
    monkeypatch.setattr(
        "zenitmq.store.index.key_index.create_allocated",
        lambda path, size: segment_module.create_allocated(path, size, segment_module.Disk(fallocate=fallocate)),
    )
    (path,) = index_files(tmp_path / "s")
    before = path.read_bytes()
    with make_store(tmp_path / "s", clock) as store:
        fill(store, 20, 21, clock)
        assert store._index.is_blocked
        assert found_by_key(store, 21) == list(range(20))
        assert path.read_bytes() == before
        disk_is_full = False
        checkpoint(store, clock)
        assert not store._index.is_blocked
        fill(store, 21, 23, clock)
        assert found_by_key(store, 23) == list(range(23))
        left = kill(tmp_path / "s", tmp_path / "killed")
    shutil.rmtree(left / "index")
    shutil.copytree(tmp_path / "s" / "index", left / "index")
    disk_is_full = True
    with pytest.raises(StoreNotWriteable, match="disk full"), make_store(left, clock):
        pass
