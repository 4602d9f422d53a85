"""`zenit config schema ROLE`: every key with its default, its range and its meaning; `config machines`: files of a cluster."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from ...model.config import SettingInfo, config_schema
from ..options import Json, usage_of_values
from ..output import note, print_table, show

ROLES: Final = ("namesrv", "broker", "controller", "proxy")


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    config_app = typer.Typer()
    config_app.callback()(_group)
    config_app.command("schema")(schema)
    config_app.command("machines")(machines)
    app.add_typer(config_app, name="config")


def _group() -> None:
    """What can be configured, and the configuration of a new cluster."""


def machines(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Where the files go.")],
    hosts: Annotated[list[str], typer.Argument(metavar="HOST...", help="The DNS name or address of each machine.")],
    group: Annotated[str, typer.Option(metavar="NAME", help="The name of the replica group.")] = "broker-a",
    cluster: Annotated[str, typer.Option(metavar="NAME", help="The name of the cluster.")] = "zenit",
    zookeeper: Annotated[
        str | None, typer.Option(metavar="HOST:PORT[,...]", help="ZooKeeper's servers; else port 2181 of each HOST.")
    ] = None,
    here: Annotated[
        bool,
        typer.Option("--here", help="To try it on this machine: servers run from DIR, on addresses like 127.0.0.2."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write configurations and keys of a secured group: in DIR/HOST what /etc/zenit of that machine has to hold.

    Each machine gets a name server, a controller and one replica. DIR/keys has all keys, as `zenit key cluster` makes them;
    admin.key is the first super user's. A key that is there stays, the rest is written anew: so a machine is added by the
    same command with one more. A configuration that was another one is kept as NAME.toml.old.
    """
    from ...deploy.machine_files import OLD, Machines, write_machine_files

    servers = tuple(filter(None, (zookeeper or "").split(",")))
    with usage_of_values():
        wanted = Machines(
            directory=directory, hosts=tuple(hosts), group=group, cluster=cluster, zookeeper=servers, is_here=here
        )
    rows = write_machine_files(wanted)
    document = [{"host": host, "file": name} for host, name in rows]
    show(document, as_json, lambda: print_table(("host", "file"), rows))
    for host, name in rows:
        if name.endswith(OLD):
            note(
                f"zenit: {host}/{name.removesuffix(OLD)} is another one now: bring over what you had changed in {name}"
            )


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
    if role == "proxy":
        from ...proxy.config import ProxyConfig

        return config_schema(ProxyConfig)
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
