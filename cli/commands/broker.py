"""`zenit broker`: a broker in the foreground, as launch scripts call it; config, stats, promote, drain of one that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import ConnectionLost, InvalidParameter, RequestTimeout
from .. import garbage
from ..options import ConfigFile, Json, Namesrv, Settings
from ..output import note, print_facts, show
from ..roles import load_role, rereader
from ..watch import watched
from .controller import Controllers, check_promotion, elect

if TYPE_CHECKING:
    from ...client.admin import Admin

LOOK_MS: Final = 100
DRAINED: Final = "drained"

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
    broker_app.command("drain")(drain)
    app.add_typer(broker_app, name="broker")


def broker(context: typer.Context, config_file: ConfigFile = None, settings: Settings = None) -> None:
    """Run a broker in the foreground until SIGTERM or Ctrl-C, or ask one that runs (config, stats, promote, drain).

    SIGTERM makes it hand over to another replica of its group first; Ctrl-C, or a second signal, ends it at once.
    """
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
        bool,
        typer.Option(
            "--accept-loss",
            help="Even if another replica has more, or may have more, as one that is down may: that is lost.",
        ),
    ] = False,
    controllers: Controllers = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Make a follower the master of its group, in a new epoch; the group's former master must be dead.

    Messages that it has not copied are lost; the event election_forced keeps which range that is.
    """
    check_promotion(group, follower, accept_loss=accept_loss, controllers=controllers, namesrv=namesrv)
    elect(group, follower, True, accept_loss, controllers, namesrv, as_json)
    note(f'zenit: set role = "replica" in the settings of {follower} before its broker is started again')


def drain(
    name: Annotated[str, typer.Argument(metavar="BROKER", help="A replica's name in its group, or HOST:PORT.")],
    ends: Annotated[bool, typer.Option("--stop", help="Then it leaves the in-sync set, and its process ends.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="It works as before, and may lead again.")] = False,
    waits: Annotated[bool, typer.Option("--wait", help="Return once that is done.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Of --wait.")] = 30.0,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Make a broker hand over to another replica of its group; it does not lead again until --undo, or its restart.

    A master waits until all that it has taken is acknowledged, then another is elected: producers wait for a fraction of a
    second, and nothing is sent twice. It goes on as an in-sync slave, unless --stop is given. SIGTERM does the same as --stop.
    """
    from ...client.admin import Admin
    from ...deploy.upgrade.upgrade_survey import replica_named, running_groups

    if ends and undo:
        raise typer.BadParameter("expected without --stop", param_hint="--undo")
    with Admin(namesrv) as admin:
        group, replica = replica_named(running_groups(admin), name)
        in_sync = group.in_sync or ()
        if ends and replica.name in in_sync and group.is_replicated and len(in_sync) <= group.min_in_sync:
            expected = f"one that {group.name} can do without: {len(in_sync)} are in sync, {group.min_in_sync} needed"
            raise InvalidParameter("broker", name, f"{expected} (SIGTERM stops it all the same)")
        admin.drain_broker(replica.address, ends=ends, undo=undo)
        step = _wait_drained(admin, replica.address, ends=ends, timeout_s=timeout) if waits and not undo else None
    document: dict[str, Any] = {"broker_name": group.name, "replica": replica.name, "address": replica.address}
    document |= {"undone": undo, "ends": ends, "drain": step}
    said = "works as before" if undo else step or f"drains{' and stops' if ends else ''}"
    show(document, as_json, lambda: typer.echo(f"{replica.name} ({replica.address}) {said}"))


def _wait_drained(admin: Admin, address: str, *, ends: bool, timeout_s: float) -> str:
    """Returns what it is then: drained, or stopped. Raises RequestTimeout, which says how far it is."""
    from ...deploy.upgrade.upgrade_survey import drained

    deadline_ms = monotonic_ms() + round(timeout_s * 1000)
    while True:
        try:
            step = drained(admin, address)
        except (ConnectionLost, RequestTimeout):
            if ends:
                return "stopped"
            raise
        if step == DRAINED and not ends:
            return step
        if monotonic_ms() >= deadline_ms:
            raise RequestTimeout(f"the drain of {address}; it is {step or 'not draining'}", round(timeout_s * 1000))
        sleep_ms(LOOK_MS)
