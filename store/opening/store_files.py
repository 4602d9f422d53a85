"""The two small files that guard a store directory: `lock` (one process at a time) and `abort` (it did not end well).

RocketMQ locks the first byte of `lock` for the process, so we take that lock as well as one on the open file: neither
broker opens what the other has open, nor one process the same store twice (which costs it the lock that RocketMQ sees,
as POSIX has it: a process loses those with any descriptor of the file that it closes). `abort` exists while the store is open;
RocketMQ looks only whether it exists. We write the process id and the boot id, one a line: where the machine has not
restarted since, all that the killed process wrote is still there, in the order in which it wrote it; but not where the disk
failed under it, and then there is no boot id.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from ...model.errors import StoreLocked
from ..log.segment import make_directory, sync_directory, write_fully

LOCK_FILE: Final = "lock"
LOCK_TEXT: Final = b"lock"
ABORT_FILE: Final = "abort"
BOOT_ID_PATH: Final = "/proc/sys/kernel/random/boot_id"
ABORT_BYTES_MAX: Final = 256


class StoreLock:
    """Holds a store directory for this process; a context manager. The kernel lets go where the process dies."""

    def __init__(self, store_directory: str) -> None:
        """Makes the directory where there is none. Raises StoreLocked, OSError."""
        make_directory(store_directory)
        self._fd = os.open(os.path.join(store_directory, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
            if os.pread(self._fd, len(LOCK_TEXT) + 1, 0) != LOCK_TEXT:
                os.ftruncate(self._fd, 0)
                write_fully(self._fd, LOCK_TEXT, 0)
        except BlockingIOError as error:
            self.release()
            raise StoreLocked(store_directory) from error
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Lets go; may be called again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class AbortMark:
    """Who had the store open and did not close it. `pid` 0 and `boot_id` "" where the file does not say (RocketMQ's).
    `is_ours`: it has both our lines; RocketMQ writes a process id and no end of a line, or nothing."""

    pid: int
    boot_id: str
    is_ours: bool

    @property
    def same_boot(self) -> bool:
        """True where only the process died: the page cache, and so every write it made, is still there."""
        return bool(self.boot_id) and self.boot_id == current_boot_id()


def current_boot_id() -> str:
    """What changes with each start of the machine; "" where the platform does not tell."""
    try:
        with open(BOOT_ID_PATH, encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:
        return ""


def read_abort(store_directory: str) -> AbortMark | None:
    """The mark an unclean end left behind, None after a clean one. Raises OSError."""
    try:
        with open(os.path.join(store_directory, ABORT_FILE), "rb") as file:
            lines = file.read(ABORT_BYTES_MAX).decode("ascii", "replace").split("\n")
    except FileNotFoundError:
        return None
    pid = lines[0].strip()
    whole = len(lines) > 2  # both lines ended: the write was not torn
    return AbortMark(int(pid) if pid.isascii() and pid.isdigit() else 0, lines[1].strip() if whole else "", whole)


def write_abort(store_directory: str, *, disk_failed: bool = False) -> None:
    """Marks the store as open, durably, before its first write. Raises OSError: a mark that is there stays whole then.

    `disk_failed`: what was written may be gone although the kernel runs on, so the next start must not count on its order.
    """
    path = os.path.join(store_directory, ABORT_FILE)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        boot_id = "" if disk_failed else current_boot_id()
        text = f"{os.getpid()}\n{boot_id}\n".encode("ascii")
        write_fully(
            fd, text, 0
        )  # over the one of the stop before: emptied first, it would be gone on a disk without room
        os.ftruncate(fd, len(text))
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_directory(store_directory)


def clear_abort(store_directory: str) -> None:
    """Marks the store as closed, durably, after its last sync. Raises OSError."""
    try:
        os.unlink(os.path.join(store_directory, ABORT_FILE))
    except FileNotFoundError:
        return
    sync_directory(store_directory)
