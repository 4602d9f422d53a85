"""`zenit controller`: a controller in the foreground, as launch scripts call it; `controller elect` at one that leads."""

from __future__ import annotations

import logging
from typing import Annotated, Any, Final

import typer

from ..model.config import describe_config
from .options import ConfigFile, Json, Namesrv, Settings
from .output import show
from .roles import load_role, stop_on_signals

TIMEOUT_MS: Final = 10_000
KAZOO_LOGS_TO: Final = "zenitmq.controller.zookeeper"


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    controller_app = typer.Typer(
        help="Run a controller in the foreground, or ask the one that leads.", invoke_without_command=True
    )
    controller_app.callback()(controller)
    controller_app.command("elect")(elect)
    app.add_typer(controller_app, name="controller")


def controller(context: typer.Context, config_file: ConfigFile = None, settings: Settings = None) -> None:
    """Run a controller in the foreground until SIGTERM or Ctrl-C, or ask the one that leads (elect)."""
    if context.invoked_subcommand is not None:
        return
    from ..controller.config import ControllerConfig

    config = load_role(ControllerConfig, "controller", config_file, settings)
    if not logging.getLogger().isEnabledFor(logging.DEBUG):  # kazoo tells of each try; the service tells once
        logging.getLogger(KAZOO_LOGS_TO).setLevel(logging.ERROR)
    logging.getLogger(__name__).info("settings config=%s", describe_config(config))
    from ..controller.service import Controller

    with Controller(config) as service:
        stop_on_signals(service.stop)
        service.run()


def elect(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The replica group: its broker name.")],
    replica: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whom; else the one with the longest log but the present master.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also one that may lack acknowledged messages, which are lost then; the old master must be dead.",
        ),
    ] = False,
    controllers: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT[,...]", help="Controllers; else those that the cluster's brokers run with."),
    ] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Make another replica of a group its master, and print who is."""
    from ..client.cluster import name_servers, parse_addresses
    from ..client.controller_calls import ControllerCalls, controllers_of
    from ..remoting.client import RemotingClient

    with RemotingClient() as remoting:
        if controllers is not None:
            addresses = parse_addresses("controllers", controllers)
        else:
            addresses = controllers_of(remoting, name_servers(namesrv), timeout_ms=TIMEOUT_MS)
        node = ControllerCalls(remoting, addresses).elect(group, replica or "", force=force, timeout_ms=TIMEOUT_MS).node
    document: dict[str, Any] = {"broker_name": group, "epoch": node.epoch, "master": node.master}
    document |= {"in_sync": list(node.in_sync), "min_in_sync": node.settings.min_in_sync}
    text = f"{group}: master {node.master}, epoch {node.epoch}, in sync {', '.join(node.in_sync)}"
    show(document, as_json, lambda: typer.echo(text))
