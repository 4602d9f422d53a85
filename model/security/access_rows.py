"""The users and roles of a cluster as one server knows them: a set of rows in which the latest of each name counts. Pure.

Two servers that exchange what differs end with the same set, whatever was lost, repeated or reordered on the way: `merge` takes
only what is later. They find out what differs by 64 numbers, each the digest of the rows whose names fall into it.

Deleted rows are kept for DELETED_KEPT_MS: a server that was away for longer may bring a deleted user back.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from typing import Final

from ..errors import InvalidParameter, SecurityRowChanged, SecurityRowNotFound, SecurityRowTrusted, TooManySecurityRows
from .access_table import AccessTable
from .principals import User, UserKind, UserRole
from .row_codec import (
    ROW_CHARACTERS_MAX,
    VERSION_MAX,
    RowKind,
    SecurityRow,
    decode_row,
    encode_row,
    is_later,
)
from .trusted_file import StaticRow

ROWS_MAX: Final = 10_000
MERGED_MAX: Final = 2 * ROWS_MAX
"""Several masters may each add the last row at once; what comes from other servers is refused only far above the limit."""
BUCKETS: Final = 64
PAGE_CHARACTERS_MAX: Final = 256 << 10  # of the rows in one message, which is a header
DELETED_KEPT_MS: Final = 30 * 86_400_000
WHICHEVER: Final = -1
"""As an expected version: change the row whoever changed it last."""

_DIGEST_BITS: Final = (1 << 63) - 1
assert ROW_CHARACTERS_MAX < PAGE_CHARACTERS_MAX


class AccessRows:
    """Changed by one thread."""

    def __init__(self) -> None:
        self._rows: dict[str, SecurityRow] = {}
        self._texts: dict[str, str] = {}  # as they are encoded
        self._digests = [0] * BUCKETS
        self._version = 0

    def __len__(self) -> int:
        return len(self._rows)

    # ---- what is there

    def row(self, key: str) -> SecurityRow | None:
        """The row, deleted or not."""
        return self._rows.get(key)

    def texts(self) -> list[str]:
        """All rows, encoded, in the order of their keys. Any thread."""
        return [text for _, text in sorted(self._texts.copy().items())]

    def page(self, after: str) -> tuple[tuple[str, ...], bool]:
        """The rows behind the key `after`, deleted ones too, as many as one message has room for; are there more?"""
        behind = sorted(key for key in self._texts if key > after)
        page = self._fitting(behind)
        return page, len(page) < len(behind)

    def table(self, trusted: Iterable[StaticRow] = ()) -> AccessTable:
        """Who may do what. A trusted user wins over a row of the same name, or that has the same key.

        A row that calls itself a server does not count: a server that was broken into could tell of one that is bound to
        another replica. Servers stand in the trusted file alone.
        """
        users = [row.user for row in trusted]
        names = {user.name for user in users}
        roles = []
        for _, row in sorted(self._rows.items()):
            if isinstance(row.value, UserRole):
                roles.append(row.value)
            elif row.value is not None and row.name not in names and row.value.kind is not UserKind.SERVER:
                users.append(row.value)
        return AccessTable(users, roles, version=self._version)

    # ---- changes

    def changed(
        self, row: SecurityRow, *, expected_version: int, now_ms: int, trusted: Iterable[StaticRow] = ()
    ) -> SecurityRow:
        """The row with the version that makes it count; `merge` puts it in. `expected_version`: what the sender saw, 0 = none.

        Raises SecurityRowChanged, SecurityRowNotFound (nothing to delete), SecurityRowTrusted, TooManySecurityRows, and
        InvalidParameter if it is a server, another user has one of the keys, or the row is too large.
        """
        known = self._rows.get(row.key)
        version = known.version if known is not None and known.value is not None else 0
        self._check_trusted(row, trusted)
        if isinstance(row.value, User) and row.value.kind is UserKind.SERVER:
            raise InvalidParameter("kind", "server", "normal or super: servers stand in the trusted file alone")
        if row.value is None and not version:
            raise SecurityRowNotFound(row.key)
        if expected_version not in (WHICHEVER, version):
            raise SecurityRowChanged(row.key, version, expected_version)
        if known is None and len(self._rows) >= ROWS_MAX:
            raise TooManySecurityRows(ROWS_MAX)
        if known is not None and known.version >= VERSION_MAX:
            raise InvalidParameter(
                "version", str(known.version), f"below {VERSION_MAX}; give the {row.kind.value} another name"
            )
        self._check_keys(row)
        assigned = max(min(now_ms, VERSION_MAX), known.version + 1 if known is not None else 1)
        return decode_row(encode_row(SecurityRow(row.kind, row.name, assigned, row.value)))

    def later(self, rows: Iterable[SecurityRow], now_ms: int) -> list[SecurityRow]:
        """Those of another server that would change something here; not what was deleted so long ago that it is forgotten."""
        return [
            row
            for row in rows
            if is_later(row, self._rows.get(row.key)) and (row.value is not None or not _is_old(row, now_ms))
        ]

    def merge(self, rows: Iterable[SecurityRow]) -> list[SecurityRow]:
        """Takes those that are later than what is here; returns them. One that finds no room at all is left out."""
        taken = []
        for row in rows:
            known = self._rows.get(row.key)
            if not is_later(row, known) or (known is None and len(self._rows) >= MERGED_MAX):
                continue
            if known is not None:
                self._count(known.key)
            self._rows[row.key], self._texts[row.key] = row, encode_row(row)
            self._count(row.key)
            self._version += 1
            taken.append(row)
        return taken

    def expire(self, now_ms: int) -> None:
        """Forgets rows that were deleted long ago."""
        for key, row in list(self._rows.items()):
            if row.value is None and _is_old(row, now_ms):
                self._count(key)
                del self._rows[key], self._texts[key]

    # ---- exchange

    def digests(self) -> tuple[int, ...]:
        """One number for each bucket of names; equal on two servers that have the same rows in it."""
        return tuple(self._digests)

    def differing(self, digests: Sequence[int], after: str = "") -> tuple[tuple[str, ...], str]:
        """The rows in buckets whose digests differ from the other server's, as many as one message has room for.

        They begin behind the key `after`, and at the first again after the last. Returns the key behind which to go on: "" if
        these are all.
        """
        if len(digests) != BUCKETS:
            raise InvalidParameter("digests", str(len(digests)), str(BUCKETS))
        differ = {bucket for bucket in range(BUCKETS) if digests[bucket] != self._digests[bucket]}
        if not differ:
            return (), ""
        keys = sorted(key for key in self._texts if _bucket(key) in differ)
        turned = [key for key in keys if key > after] + [key for key in keys if key <= after]
        page = self._fitting(turned)
        return page, turned[len(page) - 1] if len(page) < len(turned) else ""

    def _fitting(self, keys: Sequence[str]) -> tuple[str, ...]:
        page, characters = [], 0
        for key in keys:
            text = self._texts[key]
            characters += len(text)
            if characters > PAGE_CHARACTERS_MAX:
                break
            page.append(text)
        return tuple(page)

    def _count(self, key: str) -> None:
        """Adds a row to its digest, or takes it out."""
        digest = hashlib.blake2b(self._texts[key].encode(), digest_size=8).digest()
        self._digests[_bucket(key)] ^= int.from_bytes(digest, "big") & _DIGEST_BITS

    # ---- checks

    def _check_trusted(self, row: SecurityRow, trusted: Iterable[StaticRow]) -> None:
        keys = set(row.value.keys) if isinstance(row.value, User) else set()
        for static in trusted:
            if row.kind is RowKind.USER and static.user.name == row.name:
                raise SecurityRowTrusted(row.name)
            for key in keys.intersection(static.user.keys):
                raise _taken(key, static.user.name)

    def _check_keys(self, row: SecurityRow) -> None:
        if not isinstance(row.value, User) or not row.value.keys:
            return
        keys = set(row.value.keys)
        for other in self._rows.values():
            if isinstance(other.value, User) and other.name != row.name:
                for key in keys.intersection(other.value.keys):
                    raise _taken(key, other.name)


def deletion(kind: RowKind, name: str) -> SecurityRow:
    """The row that deletes one."""
    return SecurityRow(kind, name, 0, None)


def parse_rows(texts: Iterable[str]) -> tuple[list[SecurityRow], list[InvalidParameter]]:
    """The rows, and why others are none: a newer server may tell of fields that this one does not know."""
    rows, refused = [], []
    for text in texts:
        try:
            rows.append(decode_row(text))
        except InvalidParameter as error:
            refused.append(error)
    return rows, refused


def _is_old(row: SecurityRow, now_ms: int) -> bool:
    return row.version < now_ms - DELETED_KEPT_MS


def _taken(key: str, name: str) -> InvalidParameter:
    return InvalidParameter("key", key, f"a key of nobody else: user {name!r} has it")


def _bucket(key: str) -> int:
    return zlib.crc32(key.encode()) % BUCKETS
