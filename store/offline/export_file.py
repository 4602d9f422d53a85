"""A file of JSON lines that gets its name once it is whole: until then it is FILE.partial, which the next try replaces."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final

from ...model.errors import InvalidParameter
from ...model.export_line import ExportedMessage, encode_end, encode_head, encode_message
from ..log.segment import sync_directory

PARTIAL: Final = ".partial"
_BUFFER_BYTES: Final = 1 << 20


class LineWriter:
    """An `ExportWriter` of JSON lines."""

    def __init__(self, file: BinaryIO, topics: Mapping[str, Any]) -> None:
        """Writes the head. Raises OSError."""
        self._file = file
        file.write(encode_head(topics))

    def write(self, message: ExportedMessage) -> None:
        """See `ExportWriter`."""
        self._file.write(encode_message(message))

    def end(self, counts: dict[str, int]) -> None:
        """See `ExportWriter`."""
        self._file.write(encode_end(counts))


@contextmanager
def partial_file(path: str) -> Iterator[BinaryIO]:
    """A file to write; synced and renamed to `path` at the end, deleted after an error.

    Raises InvalidParameter if `path` exists, OSError.
    """
    if os.path.lexists(path):
        raise InvalidParameter("--to", path, "a file that does not exist yet")
    beside = path + PARTIAL
    try:
        with open(beside, "wb", buffering=_BUFFER_BYTES) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
    sync_directory(os.path.dirname(os.path.abspath(path)))
