"""The trusted file: users that each process knows from its start, before any row of the cluster reached it. Pure.

The servers are there, and the first super user. TOML:

    [[user]]
    name = "broker-a-1"
    kind = "server"                 # normal, super or server
    keys = ["<public key, Z85>"]    # one or two
    cluster = "zenit"               # of a server: which replica it is; "*" = any
    group = "broker-a"
    replica = "a1"
    addresses = ["10.0.0.1:9876"]   # of a name server or controller: where it answers

A user of this file wins over a row of the same name or key, and no request changes it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from typing import Any, Final

from ..errors import InvalidParameter
from ..plain_dataclass import dataclass
from .principal_fields import USER_FIELDS, fields_of_user, user_from_fields
from .principals import NAME_LENGTH_MAX, User, UserKind

TEXT_MAX: Final = 4 << 20  # characters
USERS_MAX: Final = 2_000
PLACES_MAX: Final = 16  # addresses of one server
ADDRESS_LENGTH_MAX: Final = 255

_EXPECTED: Final = f"TOML with [[user]] tables, at most {USERS_MAX} of them"


@dataclass(frozen=True, slots=True)
class StaticRow:
    """A user of the file. `addresses`: "host:port" where a name server or controller answers; for the directory of keys."""

    user: User
    addresses: tuple[str, ...] = ()


def parse_trusted(text: str) -> tuple[StaticRow, ...]:
    """The users of the file, in its order. Raises InvalidParameter; two users never share a name or a key."""
    if len(text) > TEXT_MAX:
        raise InvalidParameter("trusted file", f"{len(text)} characters", f"at most {TEXT_MAX}")
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:  # ValueError: a date that there is not
        raise InvalidParameter("trusted file", str(error)[:200], _EXPECTED) from error
    tables = document.pop("user", [])
    if document or not isinstance(tables, list) or len(tables) > USERS_MAX:
        found = next(iter(document), f"{len(tables)} users" if isinstance(tables, list) else "user")
        raise InvalidParameter("trusted file", str(found)[:80], _EXPECTED)
    rows = tuple(map(_row, tables))
    _refuse_twice("name", (row.user.name for row in rows))
    _refuse_twice("key", (key for row in rows for key in row.user.keys))
    return rows


def encode_trusted(rows: Iterable[StaticRow]) -> str:
    """The text of the file; `parse_trusted` reads the same rows from it."""
    parts = []
    for row in rows:
        fields = {"name": row.user.name, **fields_of_user(row.user)}
        if row.addresses:
            fields["addresses"] = list(row.addresses)
        lines = ["[[user]]", *(f"{name} = {_value(value)}" for name, value in fields.items())]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _row(table: Any) -> StaticRow:
    if not isinstance(table, dict):
        raise InvalidParameter("user", str(table)[:80], "a [[user]] table")
    fields = dict(table)
    name, addresses = fields.pop("name", None), fields.pop("addresses", [])
    if not isinstance(name, str):
        raise InvalidParameter("name", str(name)[:80], f"the user's name, 1 to {NAME_LENGTH_MAX} characters")
    if unknown := sorted(fields.keys() - USER_FIELDS):
        known = ", ".join(sorted({"name", "addresses", *USER_FIELDS}))
        raise InvalidParameter(f"user {name[:NAME_LENGTH_MAX]}", unknown[0][:80], f"one of the fields {known}")
    user = user_from_fields(name, fields)
    if addresses and user.kind is not UserKind.SERVER:
        raise InvalidParameter("addresses", name, "none: only servers have them")
    return StaticRow(user, _addresses(addresses))


def _addresses(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or len(values) > PLACES_MAX:
        raise InvalidParameter("addresses", str(values)[:80], f"a list of at most {PLACES_MAX}")
    for value in values:
        host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
        is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 1 << 16
        if not host or not is_port or len(value) > ADDRESS_LENGTH_MAX or not host.isprintable():
            raise InvalidParameter("addresses", str(value)[:80], '"host:port"')
    return tuple(values)


def _refuse_twice(what: str, values: Iterable[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise InvalidParameter(f"trusted file, {what}", value, "one user for each name and each key")
        seen.add(value)


def _value(value: Any) -> str:
    """A value in TOML. A text is as JSON has it, but for DEL, which TOML wants escaped."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
