"""Users, roles and rules at a broker: PutSecurityRow, DeleteSecurityRow, and what each server answers. Loop thread.

A master stages each change as a record of its log, and the dispatch of that record makes it count, here and in each slave. One
change at a time: the next waits for a turn, so that it is compared with the last.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import fields, replace
from typing import Final

from ...model.errors import (
    BrokerBusy,
    InvalidParameter,
    MessageIllegal,
    MessageTooLarge,
    SecurityRowNotFound,
    SecurityRowTrusted,
    StoreNotWriteable,
)
from ...model.events.table import USER_CHANGED
from ...model.events.telling import tell
from ...model.security.access_rows import deletion
from ...model.security.principals import SECRETS_MAX, User
from ...model.security.row_codec import RowKind, SecurityRow, decode_row, encode_row, row_key, row_of
from ...model.security.sealed_secrets import NONCE_BYTES, seal, unseal
from ...model.security.signatures import check_secret
from ...remoting.commands import ChangedRowReply, DeleteSecurityRow, MakeSecret, PutSecurityRow, Request, SecretReply
from ...remoting.request_rows import Row, row
from ...remoting.security.rows_handler import RowsHandler
from ...remoting.server import Call
from ..handlers.parts import Parts
from ..state.state_log import SECURITY
from .security_table import event_merged, in_pieces

log = logging.getLogger(__name__)

RETRY_MS: Final = 20


class SecurityHandler(RowsHandler):
    """The rows are those of the state log."""

    def __init__(self, parts: Parts) -> None:
        table = parts.state.security_table
        super().__init__(table.rows, parts.clock)
        self._parts = parts
        self._staged_end = 0  # of the last change in the log
        self._is_refreshing = self._is_full = False
        table.on_changed = self._on_changed
        self.refresh()

    def served(self) -> list[Row]:
        """The requests that are answered here."""
        return [
            *super().served(),
            row(PutSecurityRow, self.on_put),
            row(DeleteSecurityRow, self.on_delete),
            row(MakeSecret, self.on_make_secret),
        ]

    def on_put(self, call: Call[PutSecurityRow]) -> None:
        """Stores the row. Raises what is wrong with it, SecurityRowChanged, BrokerBusy."""
        given = decode_row(call.request.row)
        if given.value is None:
            raise InvalidParameter("row", given.key, "a user or role; DeleteSecurityRow deletes one")
        self._change(call, given, call.request.expected_version)

    def on_delete(self, call: Call[DeleteSecurityRow]) -> None:
        """Stores that it is deleted. Raises SecurityRowNotFound, SecurityRowChanged, InvalidParameter, BrokerBusy."""
        request = call.request
        try:
            kind = RowKind(request.kind)
        except ValueError as error:
            raise InvalidParameter("kind", request.kind[:80], "user or role") from error
        self._change(call, deletion(kind, request.name), request.expected_version)

    def on_make_secret(self, call: Call[MakeSecret]) -> SecretReply | None:
        """Stores a secret, sealed; one that the user has already is left. Raises as `on_put`, SecretsNotKept,
        SecurityRowNotFound."""
        name = call.request.user
        key = self.secret_keys()[0]
        known = self.rows.row(row_key(RowKind.USER, name))
        if any(each.user.name == name for each in self.trusted):
            raise SecurityRowTrusted(name)
        if known is None or not isinstance(known.value, User):
            raise SecurityRowNotFound(row_key(RowKind.USER, name[:80]))
        given = check_secret(call.payload.decode("utf-8", "replace")) if call.payload else ""
        if given and given in (unseal(self.secret_keys(), name, each) for each in known.value.secrets):
            row_text = encode_row(known)
            return SecretReply(row_text, row_text, given)
        if len(known.value.secrets) >= SECRETS_MAX:
            expected = f"at most {SECRETS_MAX}; take the older one away first: zenit user remove-secret {name}"
            raise InvalidParameter("secret", "one more", expected)
        secret = given or secrets.token_urlsafe(24)
        sealed = seal(key, name, secret, secrets.token_bytes(NONCE_BYTES))
        self._change(call, row_of(replace(known.value, secrets=(sealed, *known.value.secrets))), known.version, secret)
        return None

    def take(self, rows: list[SecurityRow]) -> None:
        """A master stages what other servers know; a slave gets it from its master's log."""
        self._expire()
        if not rows or not self._parts.leads():
            return
        for piece in in_pieces(rows):
            try:
                self._stage(piece)
            except (StoreNotWriteable, MessageIllegal, MessageTooLarge) as error:  # told again with the next exchange
                if not self._is_full:
                    log.warning("users and roles of other servers are not stored here; error=%s", error)
                self._is_full = True
                return
        self._is_full = False

    def _change(self, call: Call[Request], given: SecurityRow, expected_version: int, secret: str = "") -> None:
        """`secret`: the answer tells it."""
        if self._staged_end > self._parts.state.applied:
            raise BrokerBusy(RETRY_MS, "another user or role is being changed")
        known = self.rows.row(given.key)
        changed = self.rows.changed(
            given, expected_version=expected_version, now_ms=self._clock.now_ms(), trusted=self.trusted
        )
        self._stage([changed])
        before = encode_row(known) if known is not None and known.value is not None else ""
        stored = encode_row(changed)
        reply = SecretReply(stored, before, secret) if secret else ChangedRowReply(stored, before)
        _tell_changed(known, changed, by=call.user)
        self._parts.acknowledgements.staged.append((call, reply, self._staged_end, ()))

    def _stage(self, rows: list[SecurityRow]) -> None:
        self._staged_end = self._parts.state.stage(self._parts.store, SECURITY, event_merged(rows))

    def _on_changed(self) -> None:
        """In the dispatch: the table is made once, after it."""
        if not self._is_refreshing:
            self._is_refreshing = True
            self._parts.loop.call_later(0, self._refresh_once)

    def _refresh_once(self) -> None:
        self._is_refreshing = False
        self.refresh()


def _tell_changed(known: SecurityRow | None, changed: SecurityRow, *, by: str) -> None:
    """The event of a change."""
    if changed.value is None:
        what = "deleted"
    elif known is None or known.value is None:
        what = "created"
    else:
        before, after = known.value, changed.value
        what = ",".join(
            field.name for field in fields(after) if getattr(before, field.name) != getattr(after, field.name)
        )
    is_user = changed.kind is RowKind.USER
    tell(
        log,
        USER_CHANGED,
        user=changed.name if is_user else None,
        by=by,
        what=what if is_user else f"{changed.key}: {what}",
    )
