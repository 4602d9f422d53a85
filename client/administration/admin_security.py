"""The administrator's calls about users, roles and rights.

A change goes to one master: the first by its name, so that two administrators who change the same user meet there. Then every
other server is told at once; one that does not answer learns it from the masters within seconds of coming back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from ...model.errors import BrokerBusy, ConnectionLost, RequestTimeout, SecurityRowNotFound, ZenitError
from ...model.security.access_rows import WHICHEVER
from ...model.security.principals import User, UserRole
from ...model.security.rights import Action, Resource
from ...model.security.row_codec import RowKind, SecurityRow, decode_row, encode_row, row_key, row_of
from ...remoting.commands import (
    ChangedRowReply,
    DeleteSecurityRow,
    ExplainReply,
    ExplainRight,
    GetBrokerConfig,
    GetSecurityRows,
    MakeSecret,
    PutSecurityRow,
    RequestFor,
    TakeSecurityRows,
)
from ..connection.documents import document_of
from .admin_calls import AdminCalls

_C = TypeVar("_C", bound=ChangedRowReply)

TELL_MS = 2000
"""A server that does not answer within this time learns of a change later."""


@dataclass(frozen=True)
class SecurityRows:
    """All users and roles, sorted. `trusted`: the names of users of the servers' own file, which no request changes."""

    users: tuple[SecurityRow, ...]
    roles: tuple[SecurityRow, ...]
    trusted: frozenset[str]


@dataclass(frozen=True)
class SecurityChange:
    """`row`: as stored; `before`: what it was. `untold`: {server's address: why it has not taken it yet}."""

    row: SecurityRow
    before: SecurityRow | None
    untold: dict[str, str]


@dataclass(frozen=True)
class SecretChange(SecurityChange):
    """`secret`: nobody is told it again."""

    secret: str = field(repr=False)


class SecurityAdmin(AdminCalls):
    """Calls about users and roles."""

    async def _security_rows(self, *, timeout: float | None = None) -> SecurityRows:
        """All users and roles, without those that were deleted. Raises NoRoute, AccessDenied."""
        deadline_ms = self._deadline(timeout)
        address = await self._first_master(deadline_ms)
        found: list[SecurityRow] = []
        trusted: list[SecurityRow] = []
        more, after = True, ""
        while more:
            reply, _ = await self._call(address, GetSecurityRows(after), deadline_ms)
            rows = [decode_row(text) for text in reply.rows]
            trusted += [decode_row(text) for text in reply.trusted]
            found += [row for row in rows if row.value is not None]
            more = reply.more and bool(rows)
            after = rows[-1].key if rows else ""
        names = frozenset(row.name for row in trusted)
        own = [row for row in found if row.kind is RowKind.USER and row.name not in names]
        return SecurityRows(
            tuple(sorted([*own, *trusted], key=lambda row: row.name)),
            tuple(row for row in found if row.kind is RowKind.ROLE),
            names,
        )

    async def _security_row(self, kind: RowKind, name: str, *, timeout: float | None = None) -> SecurityRow:
        """One user or role; version 0 if it is trusted. Raises SecurityRowNotFound."""
        rows = await self._security_rows(timeout=timeout)
        for row in rows.users if kind is RowKind.USER else rows.roles:
            if row.name == name:
                return row
        raise SecurityRowNotFound(row_key(kind, name))

    async def _put_security_row(
        self, value: User | UserRole, *, expected_version: int = WHICHEVER, timeout: float | None = None
    ) -> SecurityChange:
        """Makes a user or role, or changes it. `expected_version`: of the row that was read; 0 = there is none yet.

        Raises SecurityRowChanged, SecurityRowTrusted, TooManySecurityRows, InvalidParameter.
        """
        return await self._change(PutSecurityRow(encode_row(row_of(value)), expected_version), timeout)

    async def _delete_security_row(
        self, kind: RowKind, name: str, *, expected_version: int = WHICHEVER, timeout: float | None = None
    ) -> SecurityChange:
        """Deletes a user or role. Raises SecurityRowNotFound, SecurityRowChanged, SecurityRowTrusted."""
        return await self._change(DeleteSecurityRow(kind.value, name, expected_version), timeout)

    async def _make_secret(self, name: str, secret: str = "", *, timeout: float | None = None) -> SecretChange:
        """Gives a user a secret beside the one that it has, for clients that come through a gateway; "" = a random one.

        Raises SecretsNotKept, SecurityRowNotFound, SecurityRowTrusted, InvalidParameter if it has two.
        """
        reply, untold = await self._changed(MakeSecret(name), timeout, secret.encode() or None)
        before = decode_row(reply.before) if reply.before else None
        return SecretChange(decode_row(reply.row), before, untold, reply.secret)

    async def _explain_right(
        self,
        user: str,
        action: Action,
        resource: Resource,
        name: str = "",
        *,
        address: str = "",
        timeout: float | None = None,
    ) -> ExplainReply:
        """May this user do that, and by which rule; `address`: the IP address it comes from. Raises SecurityRowNotFound."""
        deadline_ms = self._deadline(timeout)
        request = ExplainRight(user, action.value, resource.value, name, address)
        return (await self._call(await self._first_master(deadline_ms), request, deadline_ms))[0]

    async def _change(self, request: RequestFor[ChangedRowReply], timeout: float | None) -> SecurityChange:
        reply, untold = await self._changed(request, timeout)
        return SecurityChange(decode_row(reply.row), decode_row(reply.before) if reply.before else None, untold)

    async def _changed(
        self, request: RequestFor[_C], timeout: float | None, payload: bytes | None = None
    ) -> tuple[_C, dict[str, str]]:
        deadline_ms = self._deadline(timeout)
        address = await self._first_master(deadline_ms)
        while True:
            try:
                reply, _ = await self._call(address, request, deadline_ms, payload)
                break
            except BrokerBusy as busy:
                if self._left_s(deadline_ms) * 1000 <= busy.retry_after_ms:
                    raise
                await self._waits.sleep(busy.retry_after_ms)
        return reply, await self._tell_others(address, reply.row, deadline_ms)

    async def _tell_others(self, master: str, row: str, deadline_ms: int) -> dict[str, str]:
        """Each server that takes rows; a slave has them from its master."""
        untold = {}
        masters = await self._masters(deadline_ms)
        servers = dict.fromkeys((*masters.values(), *self._connection.addresses))
        try:
            payload = (await self._call(master, GetBrokerConfig(), deadline_ms))[1]
            controllers = document_of(payload).get("controllers") or ()
            servers.update(dict.fromkeys(str(each) for each in controllers))
        except ZenitError as error:
            untold["controllers"] = str(error)
        for address in servers:
            if address == master:
                continue
            left_ms = min(TELL_MS, int(self._left_s(deadline_ms) * 1000))
            try:
                await self._waits.call(address, TakeSecurityRows((row,)), timeout_ms=left_ms)
            except (ConnectionLost, RequestTimeout):
                untold[address] = "does not answer"
            except ZenitError as error:
                untold[address] = str(error)
        return untold

    async def _first_master(self, deadline_ms: int) -> str:
        return min((await self._masters(deadline_ms)).items())[1]
