"""What each server answers about users and roles, and how it learns of changes. Loop thread.

A name server or controller keeps the rows in its memory: after a restart it has those of its trusted file, and gets the rest
from the masters within a second. A broker keeps them in its log (broker/security).
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable
from enum import Enum
from typing import Final, TypeVar

from ...model.clock import Clock
from ...model.errors import InvalidParameter, SecretsNotKept, SecurityRowNotFound
from ...model.security.access_rows import AccessRows, parse_rows
from ...model.security.access_table import AccessDecision, AccessTable
from ...model.security.delegation import DELEGATION_MS, delegated_user, new_delegation
from ...model.security.principals import GIVEN, GIVEN_ON, NAME_LENGTH_MAX
from ...model.security.row_codec import RowKind, SecurityRow, encode_row, row_key, row_of
from ...model.security.sealed_secrets import unseal
from ...model.security.signatures import is_signed
from ...model.security.trusted_file import StaticRow
from ..commands import (
    CheckSignatures,
    Done,
    ExchangeReply,
    ExchangeSecurity,
    ExplainReply,
    ExplainRight,
    GetSecurityRows,
    SecurityRowsReply,
    SignaturesReply,
    TakeSecurityRows,
)
from ..request_rows import Row, row
from ..server import Call, RequestLoop
from .guard import Refusal
from .opened_security import Secured, TrustedWatch
from .row_exchange import answer

log = logging.getLogger(__name__)

SIGNATURES_MAX: Final = 256
DELEGATIONS_MAX: Final = 4096
EXPIRE_MS: Final = 60_000
LOOK_MS: Final = 1000  # at the trusted file
LEARN_MS: Final = 5000  # masters come within 4 s: a look each second, and an answer that is lost is given up after 2 s

_E = TypeVar("_E", bound=Enum)


class RowsHandler:
    """`table`: who may do what, by the trusted file and the rows."""

    def __init__(self, rows: AccessRows, clock: Clock) -> None:
        self.rows = rows
        self.trusted: tuple[StaticRow, ...] = ()
        self.table = AccessTable((), ())
        self._clock = clock
        self._on_table: Callable[[AccessTable], None] = _tell_nobody
        self._expired_at_ms = clock.monotonic_ms()
        self._unread_told = False
        self._secured: Secured | None = None
        self._has_learnt = False  # it has had the same rows as a master
        self._delegations: dict[
            tuple[str, str], tuple[str, int]
        ] = {}  # (gateway, delegation): as delegated_user has it

    def begin(self, trusted: tuple[StaticRow, ...], on_table: Callable[[AccessTable], None]) -> None:
        """Calls `on_table` with the present table now, and with the next one after each change."""
        self.trusted = trusted
        self._on_table = on_table
        self.refresh()

    def guard(
        self, secured: Secured, loop: RequestLoop, on_trusted: Callable[[tuple[StaticRow, ...]], None] | None = None
    ) -> None:
        """From now on the loop decides by these users and rights, and by the trusted file whenever that changes.

        `on_trusted`: called with what the file says then, too.
        """
        self._secured = secured
        secured.door.guard.delegated = self._delegated
        self.begin(secured.rows, loop.set_access)

        def on_rows(rows: tuple[StaticRow, ...]) -> None:
            self.begin(rows, loop.set_access)
            if on_trusted is not None:
                on_trusted(rows)

        loop.every(LOOK_MS, TrustedWatch(secured, on_rows).look)

    def learn(self) -> None:
        """For a server that keeps no users, at its start: it knows those of its trusted file. Who has another key waits at the
        door until a master has told its rows. There may be no master, so this ends after LEARN_MS."""
        assert self._secured is not None
        until_ms = self._clock.monotonic_ms() + LEARN_MS
        self._secured.door.doorkeeper.is_learning = lambda: (
            not self._has_learnt and self._clock.monotonic_ms() < until_ms
        )

    def refresh(self) -> None:
        """The rows have changed."""
        self.table = self.rows.table(self.trusted)
        self._on_table(self.table)

    def take(self, rows: list[SecurityRow]) -> None:
        """Makes rows count that are later than what is here. A broker stages them instead."""
        self._expire()
        if self.rows.merge(rows):
            self.refresh()

    def served(self) -> list[Row]:
        """The requests that are answered here."""
        return [
            row(TakeSecurityRows, self.on_take),
            row(GetSecurityRows, self.on_get),
            row(ExplainRight, self.on_explain),
            row(ExchangeSecurity, self.on_exchange),
            row(CheckSignatures, self.on_check_signatures),
        ]

    def on_take(self, call: Call[TakeSecurityRows]) -> Done:
        """Raises InvalidParameter for what is no row."""
        rows, refused = parse_rows(call.request.rows)
        if refused:
            raise refused[0]
        self.take(self.rows.later(rows, self._clock.now_ms()))
        return Done()

    def on_get(self, call: Call[GetSecurityRows]) -> SecurityRowsReply:
        """One page."""
        after = call.request.after
        page, more = self.rows.page(after)
        trusted = () if after else tuple(encode_row(row_of(each.user)) for each in self.trusted)
        return SecurityRowsReply(page, trusted, more)

    def on_explain(self, call: Call[ExplainRight]) -> ExplainReply:
        """Decides as the guard would. Raises SecurityRowNotFound, InvalidParameter."""
        request = call.request
        action = _member("action", request.action, GIVEN)
        resource = _member("resource", request.resource, GIVEN_ON)
        if request.address:
            _check_address(request.address)
        user = self.table.users.get(request.user)
        if user is None:
            raise SecurityRowNotFound(row_key(RowKind.USER, request.user[:80]))
        decision = self.table.decide(user, action, resource, request.name, request.address)
        return ExplainReply(decision.allowed, decision.reason, decision.of)

    def on_exchange(self, call: Call[ExchangeSecurity]) -> ExchangeReply:
        """Takes what is later, and tells what differs. Raises InvalidParameter."""
        rows, refused = parse_rows(call.request.rows)
        self.note_unread(len(refused))
        self.take(self.rows.later(rows, self._clock.now_ms()))
        self._has_learnt = self._has_learnt or call.request.digests == self.rows.digests()
        return answer(self.rows, call.request)

    def on_check_signatures(self, call: Call[CheckSignatures]) -> SignaturesReply:
        """Who signed each. Raises SecretsNotKept, InvalidParameter."""
        asked, payload = call.request.asked, memoryview(call.payload)
        self.secret_keys()
        sizes = [size for _, _, size in asked]
        if len(asked) > SIGNATURES_MAX or min(sizes, default=0) < 0 or sum(sizes) != len(payload):
            expected = f"at most {SIGNATURES_MAX}, and as many bytes behind them as they say"
            raise InvalidParameter("asked", f"{len(asked)} signatures, {len(payload)} bytes", expected)
        users, begin = [], 0
        for name, signature, size in asked:
            users.append(name if self._is_signed(name, signature, bytes(payload[begin : begin + size])) else "")
            begin += size
            if not users[-1]:
                self._on_wrong_signature(call, name)
        key, expires_ms = self.secret_keys()[0], self._clock.now_ms() + DELEGATION_MS
        delegations = (name and new_delegation(key, name, call.user, expires_ms) for name in users)
        return SignaturesReply(tuple(users), tuple(delegations))

    def _delegated(self, gateway: str, delegation: str) -> str:
        """See Guard. Any thread."""
        if self._secured is None:
            return ""
        now_ms = self._clock.now_ms()
        known = self._delegations.get((gateway, delegation))
        if known is None:
            known = delegated_user(self._secured.secret_keys, gateway, delegation, now_ms)
            if len(self._delegations) >= DELEGATIONS_MAX:
                self._delegations.clear()
            self._delegations[gateway, delegation] = known
        return known[0] if now_ms < known[1] else ""

    def secret_keys(self) -> tuple[bytes, ...]:
        """Under which users' secrets are stored, the one that seals first. Raises SecretsNotKept."""
        keys = () if self._secured is None else self._secured.secret_keys
        if not keys:
            raise SecretsNotKept("security.secrets_key")
        return keys

    def _is_signed(self, name: str, signature: str, content: bytes) -> bool:
        user = self.table.users.get(name)
        if user is None or user.disabled:
            return False
        secrets = [unseal(self.secret_keys(), name, sealed) for sealed in user.secrets]
        return any(secret is not None and is_signed(secret, content, signature) for secret in secrets)

    def _on_wrong_signature(self, call: Call[CheckSignatures], name: str) -> None:
        """For the audit and the events: as any refusal, of the user whose name was given."""
        if self._secured is not None:
            decision = AccessDecision(False, f"a signature that gateway {call.user} brought is wrong")
            refusal = Refusal(call.key, name[:NAME_LENGTH_MAX], call.address, "CheckSignatures", None, "", decision)
            self._secured.door.on_denied(refusal)

    def note_unread(self, count: int) -> None:
        """Another server told rows of a later version: they do not count here until this one is upgraded too."""
        if count and not self._unread_told:
            self._unread_told = True
            log.warning("users or roles of a newer version do not count here; upgrade this server; count=%s", count)

    def _expire(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._expired_at_ms >= EXPIRE_MS:
            self._expired_at_ms = now_ms
            self.rows.expire(self._clock.now_ms())


def _member(what: str, value: str, known: frozenset[_E]) -> _E:
    for each in known:
        if each.value == value:
            return each
    expected = ", ".join(sorted(str(each.value) for each in known))
    raise InvalidParameter(what, value[:80], f"one of {expected}")


def _check_address(text: str) -> None:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError as error:
        raise InvalidParameter("address", text[:80], "an IP address") from error


def _tell_nobody(_: AccessTable) -> None:
    """Where security is off."""
