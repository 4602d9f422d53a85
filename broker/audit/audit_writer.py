"""Writes the audit topic: hears of changes, refusals, logins and lookups at this broker, and stages an entry for each.

A master writes them to its log ten times a second; a slave, which writes nothing, tells them to its own log file. The
topic is made with the first entry: one queue, to be read only, compacted, with as many keys as entries are kept. So the
newest KEPT_ENTRIES of a group outlive the log's own retention. Loop thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...model.clock import Clock
from ...model.errors import BufferFull, InvalidParameter, MessageIllegal, MessageTooLarge, StoreNotWriteable, ZenitError
from ...model.names import AUDIT_TOPIC
from ...model.properties import KEYS
from ...model.route import CLEANUP_ATTRIBUTE, PERMISSION_READ, TopicConfig
from ...model.security.rights import Action
from ...model.security.row_codec import decode_row, encode_row
from ...record.new_record import NewRecord
from ...remoting import commands
from ...remoting.commands import Lane, Reply, Request
from ...remoting.request_rows import Row
from ...remoting.security.door import Door
from ...remoting.security.guard import Refusal
from ...remoting.server import Call, Handler, RequestLoop
from ..json_reply import encode_document
from ..state.state_log import TOPICS, StateLog
from .audit_log import AuditLog

if TYPE_CHECKING:
    from ...store.message_store import MessageStore

log = logging.getLogger(__name__)

KEPT_ENTRIES: Final = 100_000
ENTRIES_A_TICK: Final = 100
READS: Final = frozenset({commands.QueryMessages, commands.ViewMessage})
_CHANGES: Final = frozenset({Action.CREATE, Action.UPDATE, Action.DELETE})


class AuditWriter:
    """Of one secured broker."""

    def __init__(
        self, store: MessageStore, state: StateLog, loop: RequestLoop, clock: Clock, *, leads: Callable[[], bool]
    ) -> None:
        self._store = store
        self._state = state
        self._loop = loop
        self._clock = clock
        self._leads = leads
        self._log = AuditLog()
        self._next = 0  # number of the next entry, of which its key is made

    def begin(self, door: Door) -> None:
        """Hears of refusals and logins from now on."""
        door.on_denied = partial(self._on_denied, door.on_denied)
        door.doorkeeper.on_let_in = self._post_login

    def _on_denied(self, tell_event: Callable[[Refusal], None], refusal: Refusal) -> None:
        tell_event(refusal)
        self._log.on_refused(self._clock.now_ms(), refusal)

    def watched(self, row: Row, handler: Handler) -> Handler:
        """The handler, with an entry for each call if this request changes something, or looks messages up."""
        if row.request_class in READS:
            return partial(self._read, handler)
        if row.request_class.lane is Lane.ADMIN and any(right.action in _CHANGES for right in row.request_class.needs):
            return partial(self._changed, handler)
        return handler

    def on_tick(self) -> None:
        """Ten times a second: writes what waits."""
        self._log.on_tick(self._clock.now_ms())
        if not len(self._log):
            return
        entries = self._log.take(ENTRIES_A_TICK)
        if not self._leads():
            for entry in entries:
                log.info("audit entry=%s", encode_document(entry).decode())
            return
        self._next = max(self._next, self._store.max_offset(AUDIT_TOPIC, 0))
        for index, entry in enumerate(entries):
            record = NewRecord(AUDIT_TOPIC, 0, encode_document(entry), {KEYS: str(self._next % KEPT_ENTRIES)})
            try:
                if not index:
                    self._make_topic()
                self._store.stage_record(record)
                self._next += 1
            except (MessageIllegal, MessageTooLarge) as error:  # of a broker whose records are very small
                log.warning("an audit entry is too large for this broker kind=%s error=%s", entry["kind"], error)
            except StoreNotWriteable:  # until the disk has room again
                self._log.give_back(entries[index:])
                return

    def _make_topic(self) -> None:
        if AUDIT_TOPIC not in self._state.topic_table.configs:
            config = TopicConfig(
                AUDIT_TOPIC,
                read_queues=1,
                write_queues=1,
                permission=PERMISSION_READ,
                attributes={CLEANUP_ATTRIBUTE: "COMPACTION"},
            )
            self._state.stage(self._store, TOPICS, self._state.topic_table.event_set(config))

    def _changed(self, handler: Handler, call: Call[Any]) -> Reply | None:
        before = self._before(call.request)
        try:
            reply = handler(call)
        except ZenitError as error:
            self._log.on_change(
                self._clock.now_ms(), call.user, call.request, before, f"{type(error).__name__}: {error}"
            )
            raise
        self._log.on_change(self._clock.now_ms(), call.user, call.request, before, "accepted")
        return reply

    def _read(self, handler: Handler, call: Call[Any]) -> Reply | None:
        self._log.on_read(self._clock.now_ms(), call.user, call.request)
        return handler(call)

    def _before(self, request: Request) -> Any:
        """What it was that the request is about; None if there was none, or it is nothing that has settings."""
        if isinstance(request, commands.CreateTopic | commands.DeleteTopic):
            config = self._state.topic_table.configs.get(request.topic)
            return None if config is None else self._state.topic_table.event_set(config)["topic"]
        if isinstance(request, commands.CreateGroup | commands.DeleteGroup):
            return self._state.group_table.documents.get(request.group)
        if isinstance(request, commands.DeleteSecurityRow):
            return self._row_before(f"{request.kind}/{request.name}")
        if isinstance(request, commands.PutSecurityRow):
            with suppress(InvalidParameter):
                return self._row_before(decode_row(request.row).key)
        return None

    def _row_before(self, key: str) -> str | None:
        row = self._state.security_table.rows.row(key)
        return None if row is None else encode_row(row)

    def _post_login(self, user: str, key: str, address: str) -> None:
        """The thread that answers ZAP. A login for which the loop has no room is not told."""
        with suppress(BufferFull):
            self._loop.post(lambda: self._log.on_login(self._clock.now_ms(), user, key, address))
