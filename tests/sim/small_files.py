"""A store's directory on a simulated disk: its small files, and what is done to the log while the store is closed.

Each is done in the steps of the real one (store.opening: small_file, store_cut, store_beginning); a process may end after
any of them. What is put in place is visible at once, and on the platter once the folder was synced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zenitmq.model.errors import OffsetOutOfRange
from zenitmq.store.opening.small_file import SmallFiles

from .disk import DIRECTORY, Disk

TOPIC: Final = "simulated"


class SimulatedFiles:
    """`SmallFiles` of one life. `wait`: the process stands still while the disk works."""

    def __init__(self, disk: Disk, wait: Callable[[], None]) -> None:
        self._disk = disk
        self._wait = wait

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """See `SmallFiles`."""
        data = self._disk.files.get(path)
        return None if data is None else data[:bytes_max]

    def replace(self, path: str, data: bytes) -> None:
        """See `SmallFiles`."""
        disk = self._disk
        disk.check_room()
        self._wait()
        disk.step()  # the temporary file is written
        disk.step()  # and synced
        disk.files[path] = data
        disk.unsynced.add(path)
        disk.step()
        disk.sync_names()
        disk.step()

    def remove(self, path: str) -> None:
        """See `SmallFiles`."""
        disk = self._disk
        del disk.files[path]
        disk.unsynced.add(path)
        disk.step()
        disk.sync_names()
        disk.step()

    def make_directory(self, path: str) -> None:
        """See `SmallFiles`."""

    def boot_id(self) -> str:
        """See `SmallFiles`."""
        return f"boot-{self._disk.boot_id}"


class SimulatedDirectory:
    """`StoreDirectory` of one life."""

    def __init__(self, disk: Disk, wait: Callable[[], None]) -> None:
        self.path = DIRECTORY
        self.small_files: SmallFiles = SimulatedFiles(disk, wait)
        self._disk = disk

    def truncate(self, offset: int) -> None:
        """See `StoreDirectory`."""
        disk = self._disk
        if offset < disk.begin:
            raise OffsetOutOfRange("commit log", offset, disk.begin, len(disk.log))
        disk.step()
        disk.note_checkpoint(confirm=min(disk.confirm_noted, offset), flushed=min(disk.flushed_noted, offset))
        disk.step()
        disk.cut(offset)
        disk.step()
        disk.sync_cut()
        disk.step()

    def begin_anew(
        self,
        begin: int,
        *,
        segment_bytes: int,
        snapshots: Mapping[str, bytes],
        queue_minimums: Mapping[tuple[str, int], int],
    ) -> None:
        """See `StoreDirectory`."""
        disk = self._disk
        disk.step()
        disk.erase()
        disk.step()
        disk.begin_log(begin, {queue: offset for (_, queue), offset in queue_minimums.items()})
        disk.step()

    def await_no_compacted(self) -> None:
        """None are simulated."""

    def forget_incoming(self) -> None:
        """See `StoreDirectory`: there are no compacted topics."""

    def state_files(self) -> Mapping[str, bytes]:
        """The simulated broker keeps no state but its queues'."""
        return {}
