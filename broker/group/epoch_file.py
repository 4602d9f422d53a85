"""The epochs of a broker's log, each with the physical offset at which it began: `epochFileCheckpoint`.

RocketMQ's text: the number of entries, the CRC-32 of their lines (31 bits), then `epoch-offset` a line. A broker
without a controller elects itself: its epoch grows by one at each start.
"""

from __future__ import annotations

import os
import zlib
from typing import Final

from ...model.errors import StoreFormatError
from ...model.queue import PhysicalOffset
from ...store.opening.small_file import SYSTEM_FILES, SmallFiles
from ..replication.epochs import Epoch as Epoch
from ..replication.epochs import EpochList

FILE_NAME: Final = "epochFileCheckpoint"
BYTES_MAX: Final = 16 * 1024 * 1024
REMEDY: Final = (
    "it says in which epochs the log was written, and is damaged. Where another replica leads, move the store's directory away"
    " and start with an empty one: it copies the group's log. A broker without a group starts without this file: move it away"
)


def render_epochs(epochs: tuple[Epoch, ...]) -> str:
    """The file's text."""
    lines = "".join(f"{epoch.number}-{epoch.begin}\n" for epoch in epochs)
    return f"{len(epochs)}\n{_checksum(lines)}\n{lines}"


def parse_epochs(text: str) -> tuple[Epoch, ...]:
    """Parses the text. Raises StoreFormatError; a checksum of 0 is not compared."""
    head, _, rest = text.partition("\n")
    checksum, _, lines = rest.partition("\n")
    try:
        pairs = [line.split("-", 1) for line in lines.splitlines()]
        epochs = tuple(Epoch(int(number), PhysicalOffset(int(begin))) for number, begin in pairs)
        if int(head) != len(epochs):
            raise StoreFormatError(FILE_NAME, f"{len(epochs)} entries where {int(head)} are announced")
        if int(checksum) not in (0, _checksum(lines)):
            raise StoreFormatError(FILE_NAME, "checksum")
    except ValueError as error:
        raise StoreFormatError(FILE_NAME, f"not an epoch file: {error}") from error
    return epochs


def next_epoch(
    epochs: tuple[Epoch, ...], begin: PhysicalOffset, end: PhysicalOffset, *, above: int = 0
) -> tuple[Epoch, ...]:
    """The list after a new epoch begins at the end of the log [begin, end); an epoch without bytes is dropped.

    The new epoch is above `above`. Bytes from before the first row belong to the first epoch. Raises TooManyEpochs.
    """
    if not epochs:
        return (Epoch(above + 1, begin),)
    kept = EpochList(tuple(epoch for epoch in epochs if epoch.begin < end))
    return kept.with_row(max(epochs[-1].number, above) + 1, end, kept_from=begin).rows


def read_epochs(directory: str, small_files: SmallFiles = SYSTEM_FILES) -> tuple[Epoch, ...]:
    """The rows in a store directory's file; none if there is no file. Raises StoreFormatError, with what to do; OSError."""
    path = os.path.join(directory, FILE_NAME)
    data = small_files.read(path, BYTES_MAX)
    if data is None:
        return ()
    try:
        return EpochList(parse_epochs(data.decode("ascii"))).rows
    except StoreFormatError as error:
        raise StoreFormatError(path, f"{error.reason}; {REMEDY}") from error
    except ValueError as error:
        raise StoreFormatError(path, f"not an epoch file: {error}; {REMEDY}") from error


def write_epochs(directory: str, epochs: tuple[Epoch, ...], small_files: SmallFiles = SYSTEM_FILES) -> None:
    """Replaces the file, durably: an old epoch must never come back after it was used. Raises OSError."""
    small_files.replace(os.path.join(directory, FILE_NAME), render_epochs(epochs).encode("ascii"))


def begin_epoch(directory: str, begin: PhysicalOffset, end: PhysicalOffset, *, above: int = 0) -> Epoch:
    """Elects this broker, whose log is [begin, end): reads the file of a store directory, and writes it durably with a
    further epoch above `above`, which it returns. Raises StoreFormatError, TooManyEpochs, OSError."""
    epochs = next_epoch(read_epochs(directory), begin, end, above=above)
    write_epochs(directory, epochs)
    return epochs[-1]


def _checksum(lines: str) -> int:
    return zlib.crc32(lines.encode()) & 0x7FFFFFFF
