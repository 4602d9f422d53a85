"""A row: a user or a role as the servers of a cluster tell it each other, in JSON. Pure.

    {"kind": "user", "name": "app", "version": 1700000000000, "fields": {"kind": "normal", "keys": ["..."], ...}}
    {"kind": "role", "name": "readers", "version": 1700000000001, "deleted": true}

`version` is assigned by the master that stored the row: its time in milliseconds, or one more than the row had before. Of two
rows of one name the later counts, whatever the order in which they arrive (`is_later`).
"""

from __future__ import annotations

import enum
import json
from typing import Any, Final

from ..errors import InvalidParameter
from ..plain_dataclass import dataclass
from .principal_fields import fields_of_role, fields_of_user, role_from_fields, user_from_fields
from .principals import User, UserRole, check_name

ROW_CHARACTERS_MAX: Final = 64 << 10
VERSION_MAX: Final = (1 << 53) - 1  # the largest number that every JSON reader keeps exact
_FIELDS: Final = frozenset({"kind", "name", "version", "deleted", "fields"})


class RowKind(enum.Enum):
    """What a row is about."""

    USER = "user"
    ROLE = "role"


@dataclass(frozen=True, slots=True)
class SecurityRow:
    """`value` None: it was deleted. `version` 0: not assigned yet."""

    kind: RowKind
    name: str
    version: int
    value: User | UserRole | None

    @property
    def key(self) -> str:
        """ "user/NAME" or "role/NAME": rows are sorted by it."""
        return row_key(self.kind, self.name)


def row_key(kind: RowKind, name: str) -> str:
    """As `SecurityRow.key`."""
    return f"{kind.value}/{name}"


def row_of(value: User | UserRole, version: int = 0) -> SecurityRow:
    """The row of a user or role."""
    return SecurityRow(RowKind.USER if isinstance(value, User) else RowKind.ROLE, value.name, version, value)


def is_later(row: SecurityRow, known: SecurityRow | None) -> bool:
    """Whether `row` replaces `known`. Two of one version were made by two masters at once: their bytes decide."""
    if known is None or row.version != known.version:
        return known is None or row.version > known.version
    return encode_row(row) > encode_row(known)


def encode_row(row: SecurityRow) -> str:
    """The same text on each server, ASCII."""
    document: dict[str, Any] = {"kind": row.kind.value, "name": row.name, "version": row.version}
    if isinstance(row.value, User):
        document["fields"] = fields_of_user(row.value)
    elif row.value is not None:
        document["fields"] = fields_of_role(row.value)
    else:
        document["deleted"] = True
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def decode_row(text: str) -> SecurityRow:
    """The row. Raises InvalidParameter: no row, an unknown field, a value out of its range, too large."""
    if len(text) > ROW_CHARACTERS_MAX:
        raise InvalidParameter(
            "row",
            f"{len(text)} characters",
            f"at most {ROW_CHARACTERS_MAX}: give rules to roles, and roles to the user",
        )
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidParameter("row", ascii(text[:80]), "a JSON object") from error
    return row_from_document(document)


def row_from_document(document: Any) -> SecurityRow:
    """The row in a JSON object that is decoded already. Raises InvalidParameter."""
    if not isinstance(document, dict) or not document.keys() <= _FIELDS:
        raise InvalidParameter("row", ascii(document)[:80], f"an object with {', '.join(sorted(_FIELDS))}")
    version, deleted, fields = document.get("version"), document.get("deleted", False), document.get("fields")
    try:
        kind = RowKind(document.get("kind"))
    except ValueError as error:
        raise InvalidParameter("kind", ascii(document.get("kind"))[:80], "user or role") from error
    name = check_name(kind.value, document.get("name"))
    if type(version) is not int or not 0 <= version <= VERSION_MAX:
        raise InvalidParameter("version", ascii(version)[:80], f"0 to {VERSION_MAX}")
    if deleted is True and fields is None:
        return SecurityRow(kind, name, version, None)
    if deleted is not False or not isinstance(fields, dict):
        raise InvalidParameter("row", name, "either fields or deleted")
    value = user_from_fields(name, fields) if kind is RowKind.USER else role_from_fields(name, fields)
    return SecurityRow(kind, name, version, value)
