"""The two small files that guard a store directory: `lock` (one process at a time) and `abort` (not closed cleanly).

RocketMQ locks the first byte of `lock` for the process, so we take that lock and one on the open file. So neither broker
opens what the other has open, and no process opens the same store twice. (That would cost it the lock that RocketMQ sees:
POSIX drops all of a process's locks on a file when it closes any descriptor of it.)

`abort` exists while the store is open; RocketMQ checks only whether it exists. We write the process id and the boot id, one
per line. If the machine has not restarted since, everything that the killed process wrote is still there, in the order in
which it wrote it. That does not hold after a disk failure, so the boot id is then left empty.
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
    """Locks a store directory for this process; a context manager. The kernel releases the lock if the process dies."""

    def __init__(self, store_directory: str) -> None:
        """Creates the directory if there is none. Raises StoreLocked, OSError."""
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
        """Releases the lock; may be called again."""
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
    """The mark of a process that did not close the store. `pid` 0 and `boot_id` "" if the file does not say (RocketMQ's).

    `is_ours`: it has both our lines. RocketMQ writes a process id without a line end, or nothing.
    """

    pid: int
    boot_id: str
    is_ours: bool

    @property
    def same_boot(self) -> bool:
        """True if only the process died: the page cache, with every write it made, is still there."""
        return bool(self.boot_id) and self.boot_id == current_boot_id()


def current_boot_id() -> str:
    """An id that changes at each start of the machine; "" if the platform has none."""
    try:
        with open(BOOT_ID_PATH, encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:
        return ""


def read_abort(store_directory: str) -> AbortMark | None:
    """The mark that an unclean stop left, None after a clean one. Raises OSError."""
    try:
        with open(os.path.join(store_directory, ABORT_FILE), "rb") as file:
            lines = file.read(ABORT_BYTES_MAX).decode("ascii", "replace").split("\n")
    except FileNotFoundError:
        return None
    pid = lines[0].strip()
    whole = len(lines) > 2  # both lines are complete: the write was not torn
    return AbortMark(int(pid) if pid.isascii() and pid.isdigit() else 0, lines[1].strip() if whole else "", whole)


def is_in_use(store_directory: str) -> bool:
    """Whether the process that opened the store, by its own mark, still runs. Raises OSError."""
    mark = read_abort(store_directory)
    return mark is not None and mark.same_boot and mark.pid > 0 and os.path.exists(f"/proc/{mark.pid}")


def write_abort(store_directory: str, *, disk_failed: bool = False) -> None:
    """Marks the store as open, durably, before its first write. If it raises OSError, an existing mark stays whole.

    `disk_failed`: written data may be lost although the kernel still runs, so the next start must not rely on its order.
    """
    path = os.path.join(store_directory, ABORT_FILE)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        boot_id = "" if disk_failed else current_boot_id()
        text = f"{os.getpid()}\n{boot_id}\n".encode("ascii")
        write_fully(fd, text, 0)  # overwrites the old mark: truncated first, it would be lost on a full disk
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
