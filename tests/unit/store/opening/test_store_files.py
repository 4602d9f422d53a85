"""The lock that keeps a second process out, and the mark of an unclean end."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from zenitmq.model.errors import StoreLocked
from zenitmq.store.opening import store_files
from zenitmq.store.opening.store_files import StoreLock, clear_abort, current_boot_id, read_abort, write_abort

OTHER_BROKER = """
import sys
from zenitmq.model.errors import StoreLocked
from zenitmq.store.opening.store_files import StoreLock
try:
    StoreLock(sys.argv[1])
except StoreLocked:
    sys.exit(7)
"""
JAVA_BROKER = """
import fcntl, sys
with open(sys.argv[1] + "/lock", "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    except BlockingIOError:
        sys.exit(7)
"""


def run(script: str, directory) -> int:
    return subprocess.run([sys.executable, "-c", script, str(directory)], timeout=30, check=False).returncode


@pytest.mark.parametrize("script", [OTHER_BROKER, JAVA_BROKER], ids=["ours", "RocketMQ's"])
def test_another_process_is_refused_while_the_lock_is_held(tmp_path, script):
    with StoreLock(str(tmp_path)):
        assert run(script, tmp_path) == 7
    assert run(script, tmp_path) == 0
    assert (tmp_path / "lock").read_bytes() == b"lock"


def test_the_same_process_is_refused_too_and_told_which_store(tmp_path):
    with StoreLock(str(tmp_path)), pytest.raises(StoreLocked) as caught:
        StoreLock(str(tmp_path))
    assert caught.value.store_dir == str(tmp_path)


def test_we_are_refused_where_rocketmq_holds_its_lock(tmp_path):
    holder = (
        subprocess.Popen(
            [sys.executable, "-c", JAVA_BROKER + "    print('held', flush=True)\n    sys.stdin.read()", str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        if (tmp_path / "lock").write_bytes(b"lock")
        else None
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreLocked):
            StoreLock(str(tmp_path))
        holder.stdin.close()
    StoreLock(str(tmp_path)).release()


def test_a_failed_lock_call_closes_its_file(tmp_path, monkeypatch):
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(fcntl, "lockf", lambda *_: (_ for _ in ()).throw(OSError("no locks here")))
    with pytest.raises(OSError, match="no locks here"):
        StoreLock(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_mark_names_process_and_boot_and_goes_with_a_clean_end(tmp_path):
    assert read_abort(str(tmp_path)) is None
    write_abort(str(tmp_path))
    mark = read_abort(str(tmp_path))
    assert (mark.pid, mark.boot_id) == (os.getpid(), current_boot_id())
    assert mark.same_boot == bool(current_boot_id())
    clear_abort(str(tmp_path))
    assert read_abort(str(tmp_path)) is None
    clear_abort(str(tmp_path))


def test_after_a_restart_of_the_machine_it_is_another_boot(tmp_path, monkeypatch):
    write_abort(str(tmp_path))
    monkeypatch.setattr(store_files, "current_boot_id", lambda: "another")
    assert not read_abort(str(tmp_path)).same_boot


def test_a_mark_torn_at_any_byte_is_still_a_mark_and_never_claims_this_boot(tmp_path):
    write_abort(str(tmp_path))
    whole = (tmp_path / "abort").read_bytes()
    for cut in range(len(whole)):
        (tmp_path / "abort").write_bytes(whole[:cut])
        assert read_abort(str(tmp_path)).same_boot is False


@pytest.mark.parametrize(("content", "pid"), [(b"", 0), (b"4711", 4711), (b"\xff\xfe", 0), (b"x" * 10_000, 0)])
def test_marks_of_others_are_marks(tmp_path, content, pid):
    (tmp_path / "abort").write_bytes(content)
    mark = read_abort(str(tmp_path))
    assert (mark.pid, mark.same_boot) == (pid, False)


def test_where_the_disk_has_no_room_the_mark_of_the_stop_before_stays(tmp_path, monkeypatch):
    write_abort(str(tmp_path))
    before = read_abort(str(tmp_path))

    def has_no_room(_fd: int, _data: bytes, _at: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_files, "write_fully", has_no_room)
    with pytest.raises(OSError, match="No space left"):
        write_abort(str(tmp_path))
    assert read_abort(str(tmp_path)) == before


def test_a_shorter_mark_leaves_nothing_of_the_longer_one(tmp_path):
    write_abort(str(tmp_path))
    write_abort(str(tmp_path), disk_failed=True)
    assert (tmp_path / "abort").read_bytes() == b"%d\n\n" % os.getpid()
