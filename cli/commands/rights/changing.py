"""What the commands about users, roles and rules share: read a row, change it, store it, say which server does not know yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...options import usage_of_values
from ...output import note, print_facts, print_table, show

if TYPE_CHECKING:
    from ....client.admin import Admin
    from ....client.administration.admin_security import SecurityChange
    from ....model.security.principals import Rule, User, UserRole
    from ....model.security.row_codec import SecurityRow

TRIES: Final = 3
ROLE_PREFIX: Final = "role:"

UserName = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
RoleName = Annotated[str, typer.Argument(metavar="NAME", help="The role's name.")]


def changed_user(admin: Admin, name: str, change: Callable[[User], User]) -> SecurityChange:
    """Stores what `change` makes of the user. Raises SecurityRowNotFound, InvalidParameter."""
    from ....model.security.row_codec import RowKind

    return _changed(admin, RowKind.USER, name, change)


def changed_rules(admin: Admin, whom: str, change: Callable[[tuple[Rule, ...]], tuple[Rule, ...]]) -> SecurityChange:
    """Stores what `change` makes of the rules of a user, or of a role ("role:readers")."""
    from ....model.security.row_codec import RowKind

    is_role = whom.startswith(ROLE_PREFIX)
    kind = RowKind.ROLE if is_role else RowKind.USER
    return _changed(admin, kind, whom.removeprefix(ROLE_PREFIX), lambda one: replace(one, rules=change(one.rules)))


def _changed(admin: Admin, kind: Any, name: str, change: Callable[[Any], User | UserRole]) -> SecurityChange:
    """If somebody else changed it meanwhile, what `change` makes of that. A trusted user cannot be changed."""
    from ....model.errors import SecurityRowChanged, SecurityRowTrusted

    for left in reversed(range(TRIES)):
        row = admin.security_row(kind, name)
        if not row.version:
            raise SecurityRowTrusted(name)
        with usage_of_values():
            value = change(row.value)
        try:
            return admin.put_security_row(value, expected_version=row.version)
        except SecurityRowChanged:
            if not left:
                raise
    raise AssertionError("one of the tries returns or raises")


def show_change(change: SecurityChange, as_json: bool, said: str, **more: str) -> None:
    """Prints what was stored, and on stderr which server does not know it yet. `more`: for --json, if it is not empty."""
    told = {name: value for name, value in more.items() if value}
    document = {**row_document(change.row), "untold": change.untold, **told}
    show(document, as_json, lambda: typer.echo(said))
    for address, reason in change.untold.items():
        note(f"{address} does not know it yet ({reason}); it learns it within seconds of coming back")


def row_document(row: SecurityRow, *, is_trusted: bool = False) -> dict[str, Any]:
    """A user or role, for --json and to show it: its rules as texts."""
    from ....model.security.principal_fields import fields_of_user
    from ....model.security.principals import NO_LIMITS, User

    document: dict[str, Any] = {"kind": row.kind.value, "name": row.name, "version": row.version}
    if row.value is None:
        return document | {"deleted": True}
    rules = [str(rule) for rule in row.value.rules]
    if not isinstance(row.value, User):
        return document | {"rules": rules}
    user = row.value
    limits = fields_of_user(user).get("limits", {}) if user.limits != NO_LIMITS else {}
    document |= {
        "user_kind": user.kind.value,
        "disabled": user.disabled,
        "trusted": is_trusted,
        "keys": list(user.keys),
        "secrets": len(user.secrets),
        "roles": list(user.roles),
        "rules": rules,
        "limits": limits,
    }
    if user.binding is not None:
        document["server_of"] = {
            "cluster": user.binding.cluster,
            "group": user.binding.group,
            "replica": user.binding.replica,
        }
    return document


def print_row(document: dict[str, Any]) -> None:
    """A row for a person: its facts, then a line for each rule."""
    print_facts({name: value for name, value in document.items() if name not in ("kind", "version", "rules")})
    print_table(("rules",), [[rule] for rule in document["rules"]])
