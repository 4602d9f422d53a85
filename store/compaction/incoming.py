"""Compacted files on their way from a master, and the step that puts them in the place of a store's own.

    {store}/compactedincoming/queues/...   as `compacted/` (compacted_queues); whole once the store's new beginning is noted
    {store}/compacted/                     what the store has; replaced by one rename, while the store is closed

The rename is the first step of a beginning. A start that repeats a beginning finds nothing on its way, and keeps what is there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ..log.segment import make_directory, sync_directory, write_fully
from .compacted_files import CompactedReader, write_manifest
from .compacted_manifest import ListedFile, Manifest
from .compacted_queues import COMPACTED_FOLDER, QUEUES_FOLDER

INCOMING_FOLDER: Final = "compactedincoming"
_ROWS_AT_ONCE: Final = 512


class IncomingFiles:
    """Of one store. All methods raise OSError."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._base = os.path.join(directory, INCOMING_FOLDER)

    def _folder(self, topic: str, queue_id: int) -> str:
        return os.path.join(self._base, QUEUES_FOLDER, topic, str(queue_id))

    def begin(self) -> None:
        """Forgets what an earlier copy has left."""
        shutil.rmtree(self._base, ignore_errors=True)
        make_directory(self._base)

    @contextmanager
    def writing(self, topic: str, queue_id: int, file: ListedFile) -> Iterator[Callable[[bytes], None]]:
        """Appends bytes to a new file, which is durable at the end."""
        folder = self._folder(topic, queue_id)
        make_directory(folder)
        fd = os.open(os.path.join(folder, file.name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        at = 0

        def write(data: bytes) -> None:
            nonlocal at
            write_fully(fd, data, at)
            at += len(data)

        try:
            yield write
            os.fsync(fd)
        finally:
            os.close(fd)

    def check(self, topic: str, queue_id: int, file: ListedFile) -> None:
        """Raises StoreFormatError, CorruptRecordError if the file is not what its writer meant."""
        check_file(self._folder(topic, queue_id), queue_id, file)

    def list_files(self, topic: str, queue_id: int, manifest: Manifest) -> None:
        """All files of a queue are here."""
        make_directory(self._folder(topic, queue_id))
        write_manifest(self._folder(topic, queue_id), manifest)

    def end(self) -> None:
        """All queues are here."""
        sync_directory(self._base)
        sync_directory(self._directory)


def check_file(folder: str, queue_id: int, file: ListedFile) -> None:
    """Reads a whole compacted file. Raises StoreFormatError, CorruptRecordError if any byte of it is wrong, OSError."""
    with CompactedReader(folder, file) as reader:
        reader.all_rows()
        for at in range(0, file.rows, _ROWS_AT_ONCE):
            rows = reader.rows(at, min(at + _ROWS_AT_ONCE, file.rows))
            for _ in reader.records(rows, queue_id):
                pass


def adopt_incoming(directory: str) -> None:
    """Puts what has come in the place of the closed store's own; keeps that if nothing has come. May be repeated.

    Raises OSError.
    """
    incoming, own = os.path.join(directory, INCOMING_FOLDER), os.path.join(directory, COMPACTED_FOLDER)
    if os.path.isdir(incoming):
        shutil.rmtree(own, ignore_errors=True)
        os.rename(incoming, own)
        sync_directory(directory)


def forget_incoming(directory: str) -> None:
    """No beginning is noted: a copy that broke off is of no use."""
    shutil.rmtree(os.path.join(directory, INCOMING_FOLDER), ignore_errors=True)
