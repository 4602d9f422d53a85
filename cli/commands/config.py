"""`zenit config schema ROLE`: every key with its default, its range and its meaning."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from ...model.config import SettingInfo, config_schema
from ..options import Json
from ..output import print_table, show

ROLES: Final = ("namesrv", "broker", "controller")


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    config_app = typer.Typer()
    config_app.callback()(_group)
    config_app.command("schema")(schema)
    app.add_typer(config_app, name="config")


def _group() -> None:
    """What can be configured."""


def schema(
    role: Annotated[str, typer.Argument(metavar="ROLE", help=f"One of {', '.join(ROLES)}.")], as_json: Json = False
) -> None:
    """Print every key of a role with its default, its range and its meaning."""
    settings = settings_of(role)
    document = [_document(info, role) for info in settings]
    columns = ("key", "default", "expected", "meaning")
    rows = [[row["key"], str(row["default"]), row["expected"], row["meaning"]] for row in document]
    show(document, as_json, lambda: print_table(columns, rows))


def settings_of(role: str) -> list[SettingInfo]:
    """The schema of a role. Raises typer.BadParameter for an unknown one."""
    if role == "namesrv":
        from ...namesrv.config import NameServerConfig

        return config_schema(NameServerConfig)
    if role == "broker":
        from ...broker.config import BrokerConfig

        return config_schema(BrokerConfig)
    if role == "controller":
        from ...controller.config import ControllerConfig

        return config_schema(ControllerConfig)
    raise typer.BadParameter(f"{role!r} is not one of {', '.join(ROLES)}", param_hint="ROLE")


def _document(info: SettingInfo, role: str) -> dict[str, Any]:
    default = list(info.default) if isinstance(info.default, tuple) else info.default
    return {
        "key": info.key,
        "default": default,
        "expected": info.expected,
        "minimum": info.minimum,
        "maximum": info.maximum,
        "choices": None if info.choices is None else list(info.choices),
        "online": info.online,
        "environment": info.environment(role),
        "meaning": info.meaning,
    }
