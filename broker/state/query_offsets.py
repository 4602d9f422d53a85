"""The documents that streaming queries store at the broker: one for each query.

A query that begins "at the latest messages" must determine that place once: a restart that looked again would skip new
messages. So the first document counts, and storing another one changes nothing. What a query writes changes with each of
its batches: such a document has a *version*, and a higher version replaces it. Of one version the first counts. The
broker reads only the version in a document (0 if it has none).

There is room for QUERIES_MAX. When it is used up, the document that was stored first is dropped if that was UNUSED_MS
ago: a query that still writes stores a new one with each batch.

Changed only from the log, like the topic table (see there). A decision to store is adopted when it is staged: another
request in the same turn of the loop gets the document that will be in the log, not its own. Pure; owned by the loop
thread, except `document`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...model.errors import InvalidParameter, MessageTooLarge, StoreFormatError, TooManyQueries
from ...remoting.commands.document_version import version_of
from .topic_table import Document
from .unknown_events import unknown_event

KEPT: Final = "kept"
DROPPED: Final = "dropped"
DOCUMENT_BYTES_MAX: Final = 1 << 20
QUERIES_MAX: Final = 4096
TEXT_MAX: Final = 64 << 20  # characters of all documents together: each snapshot writes them all
UNUSED_MS: Final = 30 * 86_400_000


@dataclass(frozen=True, slots=True)
class KeptOffsets:
    """`text`: the document as it was given, of this `version`. `kept_at_ms`: when the broker stored it."""

    text: str
    kept_at_ms: int
    version: int


def check_document(payload: bytes) -> str:
    """The text of a document to store. Raises MessageTooLarge, InvalidParameter if it is no JSON object."""
    if len(payload) > DOCUMENT_BYTES_MAX:
        raise MessageTooLarge("query offsets", len(payload), DOCUMENT_BYTES_MAX)
    try:
        text = payload.decode()
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise InvalidParameter("offsets", payload[:64].decode("utf-8", "replace"), "a JSON object in UTF-8")
    return text


@dataclass(slots=True)
class QueryOffsets:
    """The documents by query."""

    _table: dict[str, KeptOffsets] = field(default_factory=dict)  # as the log says
    _adopted: dict[str, str | None] = field(default_factory=dict)  # staged, and not yet dispatched from the log
    _characters: int = 0  # of the table's documents together
    _rest: Document = field(default_factory=dict)

    # ---- the log

    def load(self, document: Mapping[str, Any]) -> None:
        """Loads a snapshot's content. Raises StoreFormatError."""
        self._rest = {name: value for name, value in document.items() if name != "queryTable"}
        try:
            for query, entry in (document.get("queryTable") or {}).items():
                self._add(query, str(entry["document"]), int(entry["keptAtMs"]))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise StoreFormatError("queryOffsets.json", f"queryTable: {error}") from error

    def document(self) -> Document:
        """The content for the snapshot. Any thread."""
        table = {
            query: {"document": kept.text, "keptAtMs": kept.kept_at_ms}
            for query, kept in sorted(self._table.copy().items())
        }
        return {**self._rest, "queryTable": table}

    def on_event(self, event: Mapping[str, Any], version: Document) -> None:
        """Applies one event of the log. Raises StoreFormatError."""
        kind, query, text = event.get("event"), event.get("query"), event.get("document")
        self._rest = {**self._rest, "dataVersion": version}
        if kind == KEPT and isinstance(query, str) and isinstance(text, str):
            known = self._table.get(query)
            if known is None or version_of(text) > known.version:
                self._add(query, text, version["timestamp"])
            adopted: str | None = text
        elif kind == DROPPED and isinstance(query, str):
            self._remove(query)
            adopted = None
        else:
            raise unknown_event("query", event)
        if query in self._adopted and self._adopted[query] == adopted:
            del self._adopted[query]

    def _add(self, query: str, text: str, kept_at_ms: int) -> None:
        self._remove(query)
        self._table[query] = KeptOffsets(text, kept_at_ms, version_of(text))
        self._characters += len(text)

    def _remove(self, query: str) -> None:
        if (removed := self._table.pop(query, None)) is not None:
            self._characters -= len(removed.text)

    # ---- deciding

    def keep(self, query: str, text: str) -> Document | None:
        """The event that stores the document; None if the query has one of this version or a higher one. Raises
        TooManyQueries.

        The caller stages it, then calls `adopt`.
        """
        known = self.text(query)
        if known is not None and version_of(text) <= version_of(known):
            return None
        if known is None and len(self._table) + len(self._adopted) >= QUERIES_MAX:
            raise TooManyQueries(QUERIES_MAX, "queries")
        if self._characters + len(text) - len(known or "") > TEXT_MAX:
            raise TooManyQueries(TEXT_MAX, "characters of offsets")
        return {"event": KEPT, "query": query, "document": text}

    def outlived(self, query: str, text: str, now_ms: int) -> str | None:
        """The query whose document is to be dropped to make room for this one: the first stored, at least UNUSED_MS ago.

        None if there is room, or no such query. `now_ms`: since the epoch.
        """
        is_full = len(self._table) + len(self._adopted) >= QUERIES_MAX or self._characters + len(text) > TEXT_MAX
        if not is_full or self.text(query) is not None:
            return None
        there = [(kept.kept_at_ms, name) for name, kept in self._table.items() if name not in self._adopted]
        kept_at_ms, oldest = min(there, default=(now_ms, ""))
        return oldest if now_ms - kept_at_ms >= UNUSED_MS else None

    def drop(self, query: str) -> Document | None:
        """The event that drops the query's document, for the caller to stage and adopt; None if it has none."""
        return None if self.text(query) is None else {"event": DROPPED, "query": query}

    def adopt(self, event: Document) -> None:
        """The event is staged: it counts from now on."""
        self._adopted[event["query"]] = event.get("document")

    # ---- questions

    def text(self, query: str) -> str | None:
        """The query's document; None = it has none."""
        if query in self._adopted:
            return self._adopted[query]
        kept = self._table.get(query)
        return None if kept is None else kept.text

    def listed(self) -> list[Document]:
        """[{query, kept_at_ms, size_bytes, version}] as the log says, sorted."""
        return [
            {
                "query": query,
                "kept_at_ms": kept.kept_at_ms,
                "size_bytes": len(kept.text.encode()),
                "version": kept.version,
            }
            for query, kept in sorted(self._table.items())
        ]
