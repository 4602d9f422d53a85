"""A slave whose log cannot continue from its own end first takes the state of its master (rule R12).

    behind retention -> ask the master for a beginning -> write the note, durably -> reopen the broker:
                                                          erase the store, begin it, write the epochs, delete the note

The note (`beginning.zenit`) is the intent: while the file exists, every start carries it out from the first step on.
A beginning is one JSON document: {"begin", "segment_bytes", "epochs": [[epoch, begin]], "snapshots": {file name: base64},
"queue_minimums": [[topic, queue id, queue offset]]}, all of one moment at the master. An unusable document is refused
before it becomes a note, because a note that no start can carry out would stop every start.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...model.errors import InvalidName, RemoteProtocolError, StoreFormatError
from ...store.opening.store_beginning import check_beginning
from ..group.epoch_file import write_epochs
from ..group.store_directory import StoreDirectory
from .epochs import EpochList

FILE_NAME: Final = "beginning.zenit"
BYTES_MAX: Final = 64 * 1024 * 1024
_NOTE_BYTES_MAX: Final = BYTES_MAX + 16


@dataclass(frozen=True, slots=True)
class Beginning:
    """`begin`: where the log begins; `segment_bytes`: how long its files are; `epochs`: rows that begin there or before;
    `snapshots`: state files by name. `has_compacted`: there are compacted files, which are copied first; an older master has
    none, and does not say so."""

    begin: int
    segment_bytes: int
    epochs: EpochList
    snapshots: Mapping[str, bytes]
    queue_minimums: Mapping[tuple[str, int], int]
    has_compacted: bool = False


def beginning_document(beginning: Beginning) -> dict[str, Any]:
    """Its bytes, on the wire and on the disk."""
    return {
        "begin": beginning.begin,
        "segment_bytes": beginning.segment_bytes,
        "epochs": [[row.number, row.begin] for row in beginning.epochs.rows],
        "snapshots": {name: base64.b64encode(data).decode() for name, data in beginning.snapshots.items()},
        "queue_minimums": [[topic, queue_id, offset] for (topic, queue_id), offset in beginning.queue_minimums.items()],
        "compacted": beginning.has_compacted,
    }


def parse_beginning(data: bytes) -> Beginning:
    """Decodes `encode`'s bytes. Raises RemoteProtocolError if they are not a valid document."""
    if len(data) > BYTES_MAX:
        raise RemoteProtocolError(f"a beginning of {len(data)} bytes")
    try:
        document = json.loads(data)
        minimums = {(str(topic), int(queue_id)): int(offset) for topic, queue_id, offset in document["queue_minimums"]}
        beginning = Beginning(
            int(document["begin"]),
            int(document["segment_bytes"]),
            EpochList.of((int(number), int(begin)) for number, begin in document["epochs"]),
            {str(name): base64.b64decode(text, validate=True) for name, text in document["snapshots"].items()},
            minimums,
            bool(document.get("compacted", False)),
        )
        check_beginning(
            beginning.begin, beginning.segment_bytes, snapshots=beginning.snapshots, queue_minimums=minimums
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, binascii.Error) as error:
        raise RemoteProtocolError(f"no beginning of a store: {error}") from error
    except (StoreFormatError, InvalidName) as error:
        raise RemoteProtocolError(f"no store can begin so: {error}") from error
    rows = beginning.epochs.rows
    if rows and (rows[0].begin < 0 or rows[-1].begin > beginning.begin):
        raise RemoteProtocolError(f"no store can begin so: epochs that begin behind {beginning.begin}")
    return beginning


def note_beginning(directory: StoreDirectory, beginning: Beginning) -> None:
    """Writes the note, durably: the next start begins the store of this directory anew. Raises OSError."""
    text = json.dumps(beginning_document(beginning))
    note = f"{zlib.crc32(text.encode()):08x}\n{text}"
    directory.small_files.replace(os.path.join(directory.path, FILE_NAME), note.encode("ascii"))


def is_beginning_noted(directory: str) -> bool:
    """True if the next start of the replica begins this store anew."""
    return os.path.exists(os.path.join(directory, FILE_NAME))


def carry_out_beginning(directory: StoreDirectory) -> bool:
    """Begins the store anew if there is a note; called before the store is opened. True if there was a note.

    Raises StoreFormatError (the note is damaged or invalid), StoreLocked, OSError.
    """
    path = os.path.join(directory.path, FILE_NAME)
    data = directory.small_files.read(path, _NOTE_BYTES_MAX)
    if data is None:
        return False
    checksum, _, text = data.decode("ascii", "replace").partition("\n")
    if checksum != f"{zlib.crc32(text.encode()):08x}":
        raise StoreFormatError(
            path,
            "checksum: it is damaged, and says how this store was to begin anew, behind its master's retention. Move the"
            " store's directory away and start with an empty one: it copies the group's log",
        )
    try:
        beginning = parse_beginning(text.encode())
    except RemoteProtocolError as error:
        raise StoreFormatError(path, str(error)) from error
    directory.begin_anew(
        beginning.begin,
        segment_bytes=beginning.segment_bytes,
        snapshots=beginning.snapshots,
        queue_minimums=beginning.queue_minimums,
    )
    write_epochs(directory.path, beginning.epochs.rows, directory.small_files)
    directory.small_files.remove(path)
    return True
