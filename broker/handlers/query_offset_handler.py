"""KeepQueryOffsets, GetQueryOffsets, DropQueryOffsets, GetQueries. Loop thread.

Each answer waits until the last change in it is as durable as an acknowledged send: so the next master
knows the begin that a query was told.
"""

from __future__ import annotations

import logging

from ...model.errors import QueryOffsetsNotFound
from ...model.names import check_query
from ...model.security.rights import Resource
from ...remoting.commands import (
    Done,
    DropQueryOffsets,
    GetQueries,
    GetQueryOffsets,
    JsonReply,
    KeepQueryOffsets,
    Reply,
    Request,
)
from ...remoting.security.listing import visible
from ...remoting.server import Call
from ..json_reply import encode_document
from ..state.query_offsets import check_document
from ..state.state_log import QUERIES
from ..state.topic_table import Document
from .parts import Parts

log = logging.getLogger(__name__)


class QueryOffsetHandler:
    """The documents that streaming queries store here."""

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._state = parts.state
        self._table = parts.state.query_offsets
        self._clock = parts.clock
        self._acknowledgements = parts.acknowledgements
        self._end = 0  # of the last change in the log

    def on_keep(self, call: Call[KeepQueryOffsets]) -> None:
        """Stores the document unless there is one of its version or a higher one; answers with the stored one. Raises what
        is wrong with it."""
        request = call.request
        query, text = check_query(request.query), check_document(call.payload)
        outlived = self._table.outlived(query, text, self._clock.now_ms())
        if outlived is not None and (dropping := self._table.drop(outlived)) is not None:
            log.warning("the oldest entry of a query is removed: it was not renewed for 30 days query=%s", outlived)
            self._carry_out(dropping)
        event = self._table.keep(query, text)
        if event is not None:
            self._carry_out(event)
        self._answer(call, JsonReply(), self._kept(query))

    def on_get(self, call: Call[GetQueryOffsets]) -> None:
        """Answers with the stored document. Raises QueryOffsetsNotFound."""
        request = call.request
        self._answer(call, JsonReply(), self._kept(check_query(request.query)))

    def on_drop(self, call: Call[DropQueryOffsets]) -> None:
        """Deletes the document. Raises QueryOffsetsNotFound."""
        request = call.request
        event = self._table.drop(check_query(request.query))
        if event is None:
            raise QueryOffsetsNotFound(request.query)
        self._carry_out(event)
        self._answer(call, Done())

    def on_list(self, call: Call[GetQueries]) -> None:
        """The queries with a document here."""
        is_seen = visible(call, Resource.QUERY)
        queries = [query for query in self._table.listed() if is_seen(query["query"])]
        self._answer(call, JsonReply(), encode_document({"queries": queries}))

    def _kept(self, query: str) -> bytes:
        text = self._table.text(query)
        if text is None:
            raise QueryOffsetsNotFound(query)
        return text.encode()

    def _carry_out(self, event: Document) -> None:
        self._end = self._state.stage(self._store, QUERIES, event)
        self._table.adopt(event)

    def _answer(self, call: Call[Request], reply: Reply, payload: bytes = b"") -> None:
        self._acknowledgements.staged.append((call, reply, self._end, (payload,) if payload else ()))
