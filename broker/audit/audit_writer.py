"""Writes the audit topic: hears of changes, refusals, logins and lookups at this broker, and stages an entry for each.

A master writes them to its log ten times a second; a slave, which writes nothing, hands them to its master (audit_relay). The
topic is made with the first entry: one queue, to be read only, compacted, with a key for each entry. So they outlive the log's
own retention, and compaction lets them go by age and size. What is not written when the broker stops goes to its log file.
Loop thread.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...model.clock import Clock
from ...model.errors import BufferFull, InvalidParameter, MessageIllegal, MessageTooLarge, StoreNotWriteable, ZenitError
from ...model.names import AUDIT_TOPIC
from ...model.properties import KEYS
from ...model.route import CLEANUP_ATTRIBUTE, PERMISSION_READ, TopicConfig
from ...model.security.rights import Action
from ...model.security.row_codec import decode_row, encode_row
from ...model.security.sealed_secrets import without_secrets
from ...record.new_record import NewRecord
from ...remoting import commands
from ...remoting.client import RemotingClient
from ...remoting.commands import Lane, Reply, Request, TellAudit
from ...remoting.request_rows import Row, row
from ...remoting.security.door import Door
from ...remoting.security.guard import Refusal
from ...remoting.server import Call, Handler, RequestLoop
from ..state.state_log import TOPICS, StateLog
from .audit_log import AuditLog, Entry, encode_entry
from .audit_relay import AuditReceiver, AuditRelay

if TYPE_CHECKING:
    from ...store.message_store import MessageStore

log = logging.getLogger(__name__)

ENTRIES_A_TICK: Final = 100
READS: Final = frozenset({commands.QueryMessages, commands.ViewMessage})
_CHANGES: Final = frozenset({Action.CREATE, Action.UPDATE, Action.DELETE})


class AuditWriter:
    """Of one secured broker. `leads`: whether it is master; `master`: see AuditRelay."""

    def __init__(
        self,
        store: MessageStore,
        state: StateLog,
        loop: RequestLoop,
        clock: Clock,
        client: RemotingClient,
        *,
        broker_name: str,
        replica: str,
        leads: Callable[[], bool],
        master: Callable[[], str],
    ) -> None:
        self._store = store
        self._state = state
        self._loop = loop
        self._clock = clock
        self._leads = leads
        self._replica = replica
        self._log = AuditLog()
        self._relay = AuditRelay(
            self._log, client, loop, clock, broker_name=broker_name, replica=replica, master=master
        )
        self._receiver = AuditReceiver(self._log)
        self._life = secrets.token_hex(8)  # no other process makes the same keys
        self._next = 0  # number of the next entry

    def begin(self, door: Door) -> None:
        """Hears of refusals and logins from now on."""
        door.on_denied = partial(self._on_denied, door.on_denied)
        door.doorkeeper.on_let_in = self._post_login

    def _on_denied(self, tell_event: Callable[[Refusal], None], refusal: Refusal) -> None:
        tell_event(refusal)
        self._log.on_refused(self._clock.now_ms(), refusal)

    def end(self) -> None:
        """The loop has ended: tells the log file what was not written."""
        for entry in (*self._relay.end(), *self._log.take(len(self._log))):
            log.info("audit entry=%s", encode_entry(entry))

    def rows(self) -> list[Row]:
        """The request of slaves."""
        return [row(TellAudit, self._receiver.on_tell)]

    def watched(self, row: Row, handler: Handler) -> Handler:
        """The handler, with an entry for each call if this request changes something, or looks messages up."""
        if row.request_class in READS:
            return partial(self._read, handler)
        if row.request_class.lane is Lane.ADMIN and any(right.action in _CHANGES for right in row.request_class.needs):
            return partial(self._changed, handler)
        return handler

    def on_tick(self) -> None:
        """Ten times a second: writes what waits, or hands it to the master."""
        self._log.on_tick(self._clock.now_ms())
        if not self._leads():
            self._relay.on_tick()
            return
        self._log.give_back(self._relay.end())
        if len(self._log):
            self._write(self._log.take(ENTRIES_A_TICK))

    def _write(self, entries: list[Entry]) -> None:
        for index, entry in enumerate(entries):
            told = encode_entry({**entry, "replica": entry.get("replica", self._replica)})
            record = NewRecord(AUDIT_TOPIC, 0, told.encode(), {KEYS: f"{self._life}-{self._next}"})
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
        before, asked = self._before(call.request), _without_secrets(call.request)
        try:
            reply = handler(call)
        except ZenitError as error:
            self._log.on_change(self._clock.now_ms(), call.user, asked, before, f"{type(error).__name__}: {error}")
            raise
        self._log.on_change(self._clock.now_ms(), call.user, asked, before, "accepted")
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
        if isinstance(request, commands.MakeSecret):
            return self._row_before(f"user/{request.user}")
        if isinstance(request, commands.DeleteSecurityRow):
            return self._row_before(f"{request.kind}/{request.name}")
        if isinstance(request, commands.PutSecurityRow):
            with suppress(InvalidParameter):
                return self._row_before(decode_row(request.row).key)
        return None

    def _row_before(self, key: str) -> str | None:
        row = self._state.security_table.rows.row(key)
        return None if row is None else without_secrets(encode_row(row))

    def _post_login(self, user: str, key: str, address: str) -> None:
        """The thread that answers ZAP. A login for which the loop has no room is not told."""
        with suppress(BufferFull):
            self._loop.post(lambda: self._log.on_login(self._clock.now_ms(), user, key, address))


def _without_secrets(request: Request) -> Request:
    """The request as the audit tells it."""
    if isinstance(request, commands.PutSecurityRow):
        return replace(request, row=without_secrets(request.row))
    if isinstance(request, commands.TakeSecurityRows):
        return replace(request, rows=tuple(map(without_secrets, request.rows)))
    return request


def rows_without_audit() -> list[Row]:
    """The same where there are no keys, and so nothing to be told."""
    return [row(TellAudit, _on_tell_nobody)]


def _on_tell_nobody(call: Call[TellAudit]) -> Reply:
    raise InvalidParameter("entries", str(len(call.request.entries)), "none: this broker has no keys, and so no audit")
