"""A file of JSON lines: written under its name once it is whole (until then it is FILE.partial, which the next try
replaces), and read line by line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final

from ...model.errors import InvalidParameter, StoreFormatError
from ...model.export_line import (
    LINE_BYTES_MAX,
    ExportedMessage,
    decode_head,
    decode_line,
    encode_end,
    encode_head,
    encode_message,
)
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


def read_export(path: str, limit: int = LINE_BYTES_MAX) -> Iterator[tuple[int, ExportedMessage | dict[str, Any]]]:
    """(line number from 1, what it says) of a file of JSON lines: first the settings of the topics, then each message.

    Raises StoreFormatError for a wrong line, with its number, and for a file that was cut; OSError.
    """
    number, counted = 0, 0
    with open(path, "rb", buffering=_BUFFER_BYTES) as file:
        while line := file.readline(limit + 1):
            number += 1
            try:
                if len(line) > limit:
                    raise ValueError(f"it is longer than {limit} bytes")
                said = decode_head(line) if number == 1 else decode_line(line)
            except ValueError as error:
                raise StoreFormatError(path, f"line {number}: {error}") from error
            if number > 1 and not isinstance(said, ExportedMessage):
                if said.get("messages") != counted:
                    raise StoreFormatError(path, f"line {number}: it ends {counted} messages, and says another number")
                if file.read(1):
                    raise StoreFormatError(path, f"line {number + 1}: the export ends before it")
                return
            counted += isinstance(said, ExportedMessage)
            yield number, said
    raise StoreFormatError(path, f"it was cut: it has no end behind line {number}")
