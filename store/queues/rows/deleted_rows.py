"""What is noted of queues in rows whose topic was deleted, until the deletion is confirmed.

A replica applies what it appends at once, but that may still be cut from its log, a deletion too. Rows cannot be set aside by a
rename, and their records are in the log anyway: so the rows go, and a small file says what they were.

    deletedqueue/{end of the deletion event, 20 digits}.{topic}    JSON: {queue id: [first offset, its record's place,
                                                                          next offset, the last record's place]}
    confirmed past the event: deleted;  the log was cut below it: the rows are made again from the log
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ....model.errors import StoreFormatError
from ...log.segment import NAME_DIGITS, make_directory, sync_directory
from ..deleted_queues import DELETED_FOLDER

_FIELDS: Final = 4


@dataclass(frozen=True, slots=True)
class QueueNote:
    """A queue as it was: units [first_offset, next_offset), whose records are at [first_physical, last_physical]."""

    first_offset: int
    first_physical: int
    next_offset: int
    last_physical: int


def write_note(store_directory: str, topic: str, at: int, queues: Mapping[int, QueueNote]) -> None:
    """Durably. Nothing if an earlier process has written it: queues found now were made by a replay. Raises OSError."""
    folder = os.path.join(store_directory, DELETED_FOLDER)
    path = os.path.join(folder, f"{at:0{NAME_DIGITS}d}.{topic}")
    if os.path.exists(path):
        return
    make_directory(folder)
    document = {
        str(queue_id): [note.first_offset, note.first_physical, note.next_offset, note.last_physical]
        for queue_id, note in queues.items()
    }
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)
    sync_directory(folder)


def notes_behind(store_directory: str, end: int) -> list[tuple[str, str, dict[int, QueueNote]]]:
    """(path, topic, its queues) of each deletion behind `end`, newest first. Raises StoreFormatError, OSError."""
    found = []
    for at, topic, path in reversed(_listed(store_directory)):
        if at > end:
            try:
                with open(path, encoding="ascii") as file:
                    document = json.load(file)
                queues = {int(queue_id): QueueNote(*map(int, row[:_FIELDS])) for queue_id, row in document.items()}
            except (ValueError, TypeError, AttributeError) as error:
                raise StoreFormatError(path, str(error)) from error
            found.append((path, topic, queues))
    return found


def purge_notes(store_directory: str, confirmed: int) -> None:
    """Deletes the notes of deletions up to `confirmed`. Raises OSError."""
    for at, _, path in _listed(store_directory):
        if at <= confirmed:
            os.unlink(path)


def _listed(store_directory: str) -> list[tuple[int, str, str]]:
    folder = os.path.join(store_directory, DELETED_FOLDER)
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    return [
        (int(name[:NAME_DIGITS]), name[NAME_DIGITS + 1 :], os.path.join(folder, name))
        for name in names
        if name[:NAME_DIGITS].isdigit() and not name.endswith(".new")
    ]
