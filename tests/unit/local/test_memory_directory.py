"""The directory of a program that was killed is removed by the next one, that of a living one is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zenitmq.local import memory_directory
from zenitmq.local.memory_directory import PREFIX, YOUNG_MS, MemoryDirectory

KILLED = """
import os, signal, sys
from zenitmq.local import memory_directory
memory_directory.SHARED_MEMORY = sys.argv[1]
print(memory_directory.MemoryDirectory().path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(memory_directory, "SHARED_MEMORY", str(tmp_path))
    return tmp_path


def make_old(path: str) -> None:
    os.utime(path, (0, os.stat(path).st_mtime - YOUNG_MS / 1000 - 1))


def test_it_is_gone_once_removed(shared_memory: Path) -> None:
    directory = MemoryDirectory()
    Path(directory.path, "file").touch()
    assert os.path.dirname(directory.path) == str(shared_memory)
    directory.remove()
    assert os.listdir(shared_memory) == []


def test_what_a_killed_program_has_left_goes_once_it_is_old(shared_memory: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, shared_memory], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    left = done.stdout.strip()
    first = MemoryDirectory()
    assert os.path.isdir(left), "it may have been made just now, and is not locked yet"
    make_old(left)
    make_old(first.path)
    second = MemoryDirectory()
    assert not os.path.exists(left)
    assert os.path.isdir(first.path), "its program lives"
    first.remove()
    second.remove()


def test_what_is_somebody_elses_stays(shared_memory: Path) -> None:
    link, other, file = (shared_memory / name for name in (f"{PREFIX}link", "other", f"{PREFIX}file"))
    other.mkdir()
    link.symlink_to(other)
    file.touch()
    for path in (other, file):
        make_old(str(path))
    MemoryDirectory().remove()
    assert all(os.path.lexists(path) for path in (link, other, file))
