"""`zenit broker`: a broker in the foreground, as launch scripts call it; `broker config | stats` of one that runs."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import garbage
from ..options import ConfigFile, Json, Namesrv, Settings
from ..output import print_facts, show
from ..roles import load_role, rereader
from ..watch import watched

Name = Annotated[
    str | None, typer.Argument(metavar="[BROKER]", help="A broker's name or HOST:PORT; else the only one.")
]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    broker_app = typer.Typer(invoke_without_command=True)
    broker_app.callback()(broker)
    broker_app.command("config")(config)
    broker_app.command("stats")(stats)
    app.add_typer(broker_app, name="broker")


def broker(context: typer.Context, config_file: ConfigFile = None, settings: Settings = None) -> None:
    """Run a broker in the foreground until SIGTERM or Ctrl-C, or ask one that runs (config, stats)."""
    if context.invoked_subcommand is not None:
        return
    from ...broker.config import BrokerConfig

    running = load_role(BrokerConfig, "broker", config_file, settings)
    from ...broker.service import run

    garbage.serve()
    raise typer.Exit(run(running, rereader(BrokerConfig, "broker", config_file, settings)))


def config(name: Name = None, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Print the settings that a broker runs with."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.broker_config(name)
    show(document, as_json, lambda: print_facts(document))


@watched
def stats(name: Name = None, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Print a broker's counters, positions and memory."""
    from ...client.admin import Admin

    with Admin(namesrv) as admin:
        document = admin.broker_statistics(name)
    show(document, as_json, lambda: print_facts(document))
