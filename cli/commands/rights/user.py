"""`zenit user create | list | show | disable | enable | delete | add-key | remove-key | secret |
remove-secret | add-role | remove-role | limit`."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...options import Json, Namesrv, usage_of_values
from ...output import print_table, show
from .changing import UserName, changed_user, print_row, row_document, show_change

if TYPE_CHECKING:
    from ....model.security.principals import User

Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key", metavar="PUBLIC", help="A public key, as `zenit key show` prints it; repeatable, at most two."
    ),
]
Roles = Annotated[list[str] | None, typer.Option("--role", metavar="ROLE", help="A role it has; repeatable.")]
Key = Annotated[str, typer.Argument(metavar="PUBLIC", help="The public key, as `zenit key show` prints it.")]
Role = Annotated[str, typer.Argument(metavar="ROLE", help="The role's name.")]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    user_app = typer.Typer()
    user_app.command("create")(create)
    user_app.command("list")(list_users)
    user_app.command("show")(show_user)
    user_app.command("disable")(disable)
    user_app.command("enable")(enable)
    user_app.command("delete")(delete)
    user_app.command("add-key")(add_key)
    user_app.command("remove-key")(remove_key)
    user_app.command("secret")(make_secret)
    user_app.command("remove-secret")(remove_secret)
    user_app.command("add-role")(add_role)
    user_app.command("remove-role")(remove_role)
    user_app.command("limit")(limit)
    app.add_typer(user_app, name="user")


def create(
    name: UserName,
    is_super: Annotated[bool, typer.Option("--super", help="It may do everything.")] = False,
    key: Keys = None,
    has_no_key: Annotated[
        bool,
        typer.Option("--no-key", help="It has none: its clients sign with a secret, at a gateway (zenit user secret)."),
    ] = False,
    role: Roles = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Create a user, with a new key unless one is given; without a right it may nothing (zenit policy allow)."""
    from ....client.admin import Admin
    from ....model.security.principals import User, UserKind, check_user
    from ....model.security.row_codec import RowKind
    from ....remoting.security.key_file import read_key_file

    if key and has_no_key:
        raise typer.BadParameter("expected no --key beside it", param_hint="--no-key")
    kind = UserKind.SUPER if is_super else UserKind.NORMAL
    with usage_of_values():
        user = check_user(User(name, tuple(key or ()), kind, roles=tuple(role or ())))
    with Admin(namesrv) as admin, ExitStack() as undone:
        for each in user.roles:
            admin.security_row(RowKind.ROLE, each)  # a name that is mistyped would give nothing
        path = "" if key or has_no_key else _new_key_file(user, namesrv, undone)
        if path:
            user = replace(user, keys=(read_key_file(path).pair.public,))
        change = admin.put_security_row(user, expected_version=0)
        undone.pop_all()
    hint = "" if key else f"; give it a key: zenit user add-key {name} PUBLIC"
    if has_no_key:
        hint = f"; make its secret: zenit user secret {name}"
    elif path:
        hint = f"; its key is in {path}"
    show_change(change, as_json, f"user {name} is created{hint}", key_file=path)


def list_users(namesrv: Namesrv = None, as_json: Json = False) -> None:
    """List users, what they are and what they have."""
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        rows = admin.security_rows()
    users = [row_document(row, is_trusted=row.name in rows.trusted) for row in rows.users]
    columns = ("name", "user_kind", "disabled", "trusted", "keys", "roles", "rules")
    cells = [[len(user[c]) if c in ("keys", "rules") else user[c] for c in columns] for user in users]
    show(users, as_json, lambda: print_table(columns, cells))


def show_user(name: UserName, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Show a user: its keys, roles, rules and limits."""
    from ....client.admin import Admin
    from ....model.security.row_codec import RowKind

    with Admin(namesrv) as admin:
        row = admin.security_row(RowKind.USER, name)
    document = row_document(row, is_trusted=not row.version)
    show(document, as_json, lambda: print_row(document))


def disable(name: UserName, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Refuse all that a user asks from now on, until it is enabled."""
    _change(name, namesrv, as_json, lambda user: replace(user, disabled=True), f"user {name} is disabled")


def enable(name: UserName, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Let a disabled user in again."""
    _change(name, namesrv, as_json, lambda user: replace(user, disabled=False), f"user {name} is enabled")


def delete(name: UserName, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Delete a user; its keys let nobody in any more."""
    from ....client.admin import Admin
    from ....model.security.row_codec import RowKind

    with Admin(namesrv) as admin:
        change = admin.delete_security_row(RowKind.USER, name)
    show_change(change, as_json, f"user {name} is deleted")


def add_key(name: UserName, key: Key, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Give a user a second key, to change keys while the first one works."""
    _change(name, namesrv, as_json, lambda user: _with_key(user, key), f"user {name} has the key")


def remove_key(name: UserName, key: Key, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Take a key from a user: who has it is refused from now on."""
    _change(name, namesrv, as_json, lambda user: _without_key(user, key), f"user {name} has the key no more")


def make_secret(name: UserName, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Make a secret for clients that come through a gateway, and print it once; the user's name is their access key."""
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        change = admin.make_secret(name)
    show_change(change, as_json, change.secret, secret=change.secret)


def remove_secret(
    name: UserName,
    remove_all: Annotated[bool, typer.Option("--all", help="All of them, not only the older one.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Take the older of a user's secrets away, or its only one: who signs with it is refused from now on."""

    def without(user: User) -> User:
        from ....model.errors import InvalidParameter

        if not user.secrets:
            raise InvalidParameter("NAME", name, f"a user with a secret: zenit user secret {name}")
        return replace(user, secrets=() if remove_all else user.secrets[:-1])

    _change(name, namesrv, as_json, without, f"user {name} has the secret no more")


def add_role(name: UserName, role: Role, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Give a user a role, which must exist."""
    from ....client.admin import Admin
    from ....model.security.row_codec import RowKind

    with Admin(namesrv) as admin:
        admin.security_row(RowKind.ROLE, role)
    _change(
        name,
        namesrv,
        as_json,
        lambda user: replace(user, roles=tuple(dict.fromkeys((*user.roles, role)))),
        f"user {name} has role {role}",
    )


def remove_role(name: UserName, role: Role, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Take a role from a user."""
    _change(name, namesrv, as_json, lambda user: _without_role(user, role), f"user {name} has role {role} no more")


def limit(
    name: UserName,
    requests: Annotated[int | None, typer.Option("--requests", min=0, help="Requests a second.")] = None,
    bytes_in: Annotated[int | None, typer.Option("--bytes-in", min=0, help="Bytes a second that it sends.")] = None,
    bytes_out: Annotated[int | None, typer.Option("--bytes-out", min=0, help="Bytes a second that it gets.")] = None,
    busy_ratio: Annotated[
        float | None, typer.Option("--busy-ratio", min=0, max=1, help="Share of a broker's time, 0.2 = a fifth.")
    ] = None,
    connections: Annotated[int | None, typer.Option("--connections", min=0, help="Connections at a time.")] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Limit what a user takes of each broker; 0 = no limit, what is not named stays."""
    given: dict[str, Any] = {
        "requests": requests,
        "bytes_in": bytes_in,
        "bytes_out": bytes_out,
        "busy_ratio": busy_ratio,
        "connections": connections,
    }
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes:
        raise typer.BadParameter("nothing to change", param_hint="--requests")
    _change(
        name,
        namesrv,
        as_json,
        lambda user: replace(user, limits=replace(user.limits, **changes)),
        f"user {name} has these limits",
    )


def _change(name: str, namesrv: str | None, as_json: bool, change: Any, said: str) -> None:
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        changed = changed_user(admin, name, change)
    show_change(changed, as_json, said)


def _new_key_file(user: User, namesrv: str | None, undone: ExitStack) -> str:
    """The path of a new key, beside the key of who runs the command; `undone` removes it. "" in a cluster without keys.

    Raises KeyFileRefused, if there is a file of that name.
    """
    from ....client.connection.client_keys import key_path
    from ....client.connection.cluster import name_servers_or_engine
    from ....remoting.security.curve_socket import new_key_pair
    from ....remoting.security.key_file import KeyFile, read_key_file, write_key_file

    own = key_path(None, name_servers_or_engine(namesrv))
    if not own:
        return ""
    path = os.path.join(os.path.dirname(os.path.abspath(os.path.expanduser(own))), f"{user.name}.key")
    write_key_file(path, KeyFile(user.name, new_key_pair(), read_key_file(own).servers))
    undone.callback(os.unlink, path)
    return path


def _with_key(user: User, key: str) -> User:
    from ....model.errors import InvalidParameter
    from ....model.security.principals import KEYS_MAX, check_public_key

    keys = tuple(dict.fromkeys((check_public_key(key), *user.keys)))
    if len(keys) > KEYS_MAX:
        expected = f"at most {KEYS_MAX} keys; take one away first: zenit user remove-key {user.name} {user.keys[-1]}"
        raise InvalidParameter("PUBLIC", key, expected)
    return replace(user, keys=keys)


def _without_key(user: User, key: str) -> User:
    from ....model.errors import InvalidParameter

    if key not in user.keys:
        raise InvalidParameter("PUBLIC", key, f"one of {' '.join(user.keys) or 'none: the user has no key'}")
    return replace(user, keys=tuple(each for each in user.keys if each != key))


def _without_role(user: User, role: str) -> User:
    from ....model.errors import InvalidParameter

    if role not in user.roles:
        raise InvalidParameter("ROLE", role, f"one of {' '.join(user.roles) or 'none: the user has no role'}")
    return replace(user, roles=tuple(each for each in user.roles if each != role))
