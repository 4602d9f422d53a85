"""The users and roles that the log of a replica group has.

Changed only from the log, like the topic table: an event has rows, of which those count that are later than what is known
(access_rows). So a replay from an earlier place ends in the same state. Pure; owned by the loop thread, except `document`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ...model.errors import InvalidParameter, StoreFormatError
from ...model.security.access_rows import AccessRows
from ...model.security.row_codec import SecurityRow, encode_row, row_from_document
from ..state.topic_table import Document
from ..state.unknown_events import unknown_event

MERGED: Final = "merged"
FILE_NAME: Final = "security.json"
PIECE_CHARACTERS: Final = 32 << 10


class SecurityTable:
    """`on_changed()`: rows have changed by an event."""

    def __init__(self) -> None:
        self.rows = AccessRows()
        self.on_changed: Callable[[], None] = _tell_nobody
        self._rest: Document = {}

    def load(self, document: Mapping[str, Any]) -> None:
        """Loads a snapshot's content. Raises StoreFormatError."""
        self._rest = {name: value for name, value in document.items() if name != "rows"}
        rows = document.get("rows", [])
        if not isinstance(rows, list):
            raise StoreFormatError(FILE_NAME, "rows: no list")
        try:
            self.rows.merge([row_from_document(row) for row in rows])
        except InvalidParameter as error:
            raise StoreFormatError(FILE_NAME, str(error)) from error

    def document(self) -> Document:
        """The content for the snapshot. Any thread."""
        return {**self._rest, "rows": [json.loads(text) for text in self.rows.texts()]}

    def on_event(self, event: Mapping[str, Any], version: Document) -> None:
        """Applies one event of the log. Raises StoreFormatError."""
        rows = event.get("rows")
        if event.get("event") != MERGED or not isinstance(rows, list):
            raise unknown_event("security", event)
        try:
            taken = self.rows.merge([row_from_document(row) for row in rows])
        except InvalidParameter as error:
            raise unknown_event("security", event) from error
        self._rest = {**self._rest, "dataVersion": version}
        if taken:
            self.on_changed()


def event_merged(rows: Iterable[SecurityRow]) -> Document:
    """The event that makes these rows count, for the caller to stage."""
    return {"event": MERGED, "rows": [json.loads(encode_row(row)) for row in rows]}


def in_pieces(rows: Iterable[SecurityRow]) -> list[list[SecurityRow]]:
    """As many of them in one record as have room in PIECE_CHARACTERS, or one that is larger."""
    pieces: list[list[SecurityRow]] = []
    room = 0
    for row in rows:
        size = len(encode_row(row))
        if size > room:
            pieces.append([])
            room = PIECE_CHARACTERS
        pieces[-1].append(row)
        room -= size
    return pieces


def _tell_nobody() -> None:
    """Used until the service has wired it."""
