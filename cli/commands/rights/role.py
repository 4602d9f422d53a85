"""`zenit role create | list | show | delete`: rules under one name, for several users."""

from __future__ import annotations

import typer

from ...options import Json, Namesrv, usage_of_values
from ...output import print_table, show
from .changing import RoleName, print_row, row_document, show_change


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    role_app = typer.Typer()
    role_app.command("create")(create)
    role_app.command("list")(list_roles)
    role_app.command("show")(show_role)
    role_app.command("delete")(delete)
    app.add_typer(role_app, name="role")


def create(name: RoleName, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Create a role; `zenit policy allow role:NAME ...` gives it rules."""
    from ....client.admin import Admin
    from ....model.security.principals import UserRole, check_role

    with usage_of_values():
        role = check_role(UserRole(name, ()))
    with Admin(namesrv) as admin:
        change = admin.put_security_row(role, expected_version=0)
    show_change(change, as_json, f"role {name} is created")


def list_roles(namesrv: Namesrv = None, as_json: Json = False) -> None:
    """List roles, and who has them."""
    from ....client.admin import Admin
    from ....model.security.principals import User

    with Admin(namesrv) as admin:
        rows = admin.security_rows()
    users = [row.value for row in rows.users if isinstance(row.value, User)]
    roles = [
        {**row_document(row), "users": [user.name for user in users if row.name in user.roles]} for row in rows.roles
    ]
    cells = [[role["name"], len(role["rules"]), role["users"]] for role in roles]
    show(roles, as_json, lambda: print_table(("name", "rules", "users"), cells))


def show_role(name: RoleName, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Show the rules of a role."""
    from ....client.admin import Admin
    from ....model.security.row_codec import RowKind

    with Admin(namesrv) as admin:
        document = row_document(admin.security_row(RowKind.ROLE, name))
    show(document, as_json, lambda: print_row(document))


def delete(name: RoleName, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Delete a role; users who have it lose its rules."""
    from ....client.admin import Admin
    from ....model.security.row_codec import RowKind

    with Admin(namesrv) as admin:
        change = admin.delete_security_row(RowKind.ROLE, name)
    show_change(change, as_json, f"role {name} is deleted")
