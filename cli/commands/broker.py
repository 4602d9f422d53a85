"""`zenit broker`: a broker in the foreground, as launch scripts call it; `broker config | stats | promote` of one that runs."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import garbage
from ..options import ConfigFile, Json, Namesrv, Settings
from ..output import note, print_facts, show
from ..roles import load_role, rereader
from ..watch import watched
from .controller import Controllers, elect, followers_of

Name = Annotated[
    str | None, typer.Argument(metavar="[BROKER]", help="A broker's name or HOST:PORT; else the only one.")
]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    broker_app = typer.Typer(invoke_without_command=True)
    broker_app.callback()(broker)
    broker_app.command("config")(config)
    broker_app.command("stats")(stats)
    broker_app.command("promote")(promote)
    app.add_typer(broker_app, name="broker")


def broker(context: typer.Context, config_file: ConfigFile = None, settings: Settings = None) -> None:
    """Run a broker in the foreground until SIGTERM or Ctrl-C, or ask one that runs (config, stats, promote)."""
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


def promote(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The replica group: its broker name.")],
    follower: Annotated[str, typer.Argument(metavar="REPLICA", help="The follower's name.")],
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Even if another replica has more, or may have more: that is lost.")
    ] = False,
    controllers: Controllers = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Make a follower the master of its group, in a new epoch; the group's former master must be dead.

    Messages that it has not copied are lost; the event election_forced keeps which range that is.
    """
    from ...model.errors import InvalidParameter

    if follower not in followers_of(group, controllers, namesrv):
        raise InvalidParameter("REPLICA", follower, f"a follower of {group}; zenit controller elect elects others")
    elect(group, follower, True, accept_loss, controllers, namesrv, as_json)
    note(f'zenit: set role = "replica" in the settings of {follower} before its broker is started again')
