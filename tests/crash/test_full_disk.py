"""A file system that is really full: refused, read on, resumed. Needs the right to mount one (root)."""

import os
import subprocess
import threading

import pytest

from zenitmq.model.errors import StoreNotWriteable
from zenitmq.store.commit_log import CommitLog

SEGMENT = 65_536
DEADLINE_MS = 20_000


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 512 KiB."""
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "zenit-test", str(tmp_path)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("may not mount a file system here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


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
