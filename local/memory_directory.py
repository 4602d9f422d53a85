"""Where `memory://` keeps its store: a directory of its own in shared memory, locked while its program lives. Where that has
little room, as in a container, it is in the directory for temporary files.

A program that is killed cannot remove its directory: the next one of the same user does.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from typing import Final

from ..model.clock import SystemClock

log = logging.getLogger(__name__)

SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108  # a file system that is memory; the directory in it is ours alone
ROOM_BYTES: Final = 512 << 20
"""With less free room in shared memory, a few programs would fill it: an empty store takes 34 MiB."""
PREFIX: Final = "zenit-memory-"
YOUNG_MS: Final = 60_000
"""So long nobody removes a directory that is not locked: it may have been made just now."""


class MemoryDirectory:
    """`path`: the directory, which is empty at first."""

    def __init__(self) -> None:
        place = SHARED_MEMORY if has_room(SHARED_MEMORY) else tempfile.gettempdir()
        _remove_left(place)
        self.path = tempfile.mkdtemp(prefix=PREFIX, dir=place)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """With all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def has_room(place: str) -> bool:
    """Whether a store may grow there."""
    if not os.access(place, os.W_OK):
        return False
    usage = os.statvfs(place)
    return usage.f_bavail * usage.f_frsize >= ROOM_BYTES


def _remove_left(place: str) -> None:
    """What programs have left there that are gone."""
    now_ms = SystemClock().now_ms()
    with os.scandir(place) as entries:
        found = [entry.path for entry in entries if entry.name.startswith(PREFIX) and _is_old(entry, now_ms)]
    for path in found:
        try:
            lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # another program was faster
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # its program lives
            continue
        else:
            log.info("removing what a program has left that is gone directory=%s", path)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


def _is_old(entry: os.DirEntry[str], now_ms: int) -> bool:
    try:
        state = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    is_ours = entry.is_dir(follow_symlinks=False) and state.st_uid == os.geteuid()
    return is_ours and now_ms - state.st_mtime * 1000 > YOUNG_MS
