"""Replication's work on a store's directory beside its log: cut or begin it anew while it is closed, read its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ...store.compaction.incoming import IncomingFiles, adopt_incoming, forget_incoming
from ...store.config import StoreConfig
from ...store.opening.small_file import SYSTEM_FILES, SmallFiles
from ...store.opening.store_beginning import begin_store, erase_store
from ...store.opening.store_cut import truncate_store
from ..state.state_log import state_files


class StoreDirectory(Protocol):
    """The directory at `path`; its small files are in `small_files`. All raise OSError."""

    path: str
    small_files: SmallFiles

    def truncate(self, offset: int) -> None:
        """Ends the closed store's log at `offset`. Raises StoreLocked, OffsetOutOfRange, StoreFormatError."""

    def begin_anew(
        self,
        begin: int,
        *,
        segment_bytes: int,
        snapshots: Mapping[str, bytes],
        queue_minimums: Mapping[tuple[str, int], int],
    ) -> None:
        """Empties the closed store; its log then begins at `begin`, with files of that size and with that state, and
        beside it are the compacted files that have come from the master.

        Raises StoreLocked, StoreFormatError.
        """

    def forget_incoming(self) -> None:
        """Deletes compacted files that came for a beginning which is not noted."""

    def await_no_compacted(self) -> None:
        """The master has no compacted files: the beginning removes those that are here. Raises OSError."""

    def state_files(self) -> Mapping[str, bytes]:
        """{name: content} of its snapshots."""


class DirectoryOnDisk:
    """A real one."""

    def __init__(self, path: str, config: StoreConfig) -> None:
        self.path = path
        self.small_files: SmallFiles = SYSTEM_FILES
        self._config = config

    def truncate(self, offset: int) -> None:
        """See `StoreDirectory`."""
        truncate_store(self.path, self._config, offset)

    def begin_anew(
        self,
        begin: int,
        *,
        segment_bytes: int,
        snapshots: Mapping[str, bytes],
        queue_minimums: Mapping[tuple[str, int], int],
    ) -> None:
        """See `StoreDirectory`."""
        adopt_incoming(self.path)
        erase_store(self.path)
        begin_store(
            self.path,
            self._config,
            begin,
            segment_bytes=segment_bytes,
            snapshots=snapshots,
            queue_minimums=queue_minimums,
        )

    def forget_incoming(self) -> None:
        """See `StoreDirectory`."""
        forget_incoming(self.path)

    def await_no_compacted(self) -> None:
        """See `StoreDirectory`."""
        incoming = IncomingFiles(self.path)
        incoming.begin()
        incoming.end()

    def state_files(self) -> Mapping[str, bytes]:
        """See `StoreDirectory`."""
        return state_files(self.path)
