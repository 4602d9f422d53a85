"""`zenit controller`: a controller in the foreground, for launch scripts; and operators' requests to the leading one:
`status`, `elect`, `settings`, `remove`, `restore`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...model.clock import monotonic_ms, sleep_ms
from ...model.config import describe_config
from ...model.errors import ConnectionLost, InvalidParameter, RequestTimeout, UnknownRequest
from ...model.groups.group import AckMode, FlushMode
from ...model.groups.group_limits import (
    LAG_MS_MAX,
    LAG_MS_MIN,
    REPLICAS_MAX,
    SIGHTED_EPOCH_MAX,
    check_group_id,
    check_name,
)
from ...model.groups.log_reach import best_log, lost_range
from .. import garbage
from ..group_state_text import note_reaches, print_state, state_document
from ..options import ConfigFile, Json, Namesrv, Settings, usage_of_values
from ..output import note, print_facts, show
from ..roles import load_role, measured, reread_on_hangup, rereader, stop_on_signals
from ..watch import watched

if TYPE_CHECKING:
    from ...client.administration.replica_reach import ReplicaReach
    from ...client.connection.controller_calls import ControllerCalls
    from ...model.groups.group import GroupNode
    from ...remoting.client import RemotingClient

TIMEOUT_MS: Final = 10_000
REPLICA_TIMEOUT_MS: Final = 1_000
"""A replica that does not answer within this time is left out."""
FLUSH_TIMEOUT_MS: Final = 30_000
"""For a change that waits until replicas have flushed their logs."""
KAZOO_LOGS_TO: Final = "zenitmq.controller.zookeeper"


def _check_group(group: str) -> str:
    """Wrong usage if the name is invalid, whatever the controllers would say. Raises InvalidName."""
    return check_name("group", group)


def _check_replica(replica: str | None) -> str | None:
    """The same; "" is probably an unset shell variable, and must not mean "the best replica"."""
    return None if replica is None else check_name("replica", replica)


def _check_controllers(controllers: str | None) -> str | None:
    """Raises typer.BadParameter."""
    from ...client.connection.cluster import parse_addresses

    if controllers is not None:
        with usage_of_values():
            parse_addresses("--controllers", controllers)
    return controllers


Group = Annotated[
    str, typer.Argument(metavar="GROUP", callback=_check_group, help="The replica group: its broker name.")
]
Controllers = Annotated[
    str | None,
    typer.Option(
        "--controllers",
        metavar="HOST:PORT[,...]",
        callback=_check_controllers,
        help="Controllers; else those that registered brokers run with, or that `zenit up` started last here.",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    controller_app = typer.Typer(invoke_without_command=True)
    controller_app.callback()(controller)
    controller_app.command("status")(status)
    controller_app.command("elect")(elect)
    controller_app.command("settings")(change_settings)
    controller_app.command("remove")(remove)
    controller_app.command("restore")(restore)
    app.add_typer(controller_app, name="controller")


def controller(context: typer.Context, config_file: ConfigFile = None, settings: Settings = None) -> None:
    """Run a controller in the foreground until SIGTERM or Ctrl-C, or ask the one that leads."""
    if context.invoked_subcommand is not None:
        return
    from ...controller.config import ControllerConfig

    config = load_role(ControllerConfig, "controller", config_file, settings)
    if not logging.getLogger().isEnabledFor(logging.DEBUG):  # kazoo logs each try; the service logs once
        logging.getLogger(KAZOO_LOGS_TO).setLevel(logging.ERROR)
    logging.getLogger(__name__).info("settings config=%s", describe_config(config))
    from ...controller.service import Controller

    with measured(config.metrics) as metrics, Controller(config, metrics=metrics) as service:
        stop_on_signals(service.stop)
        reread_on_hangup(config, rereader(ControllerConfig, "controller", config_file, settings))
        garbage.serve()
        status = service.run()
    raise typer.Exit(status)


@watched
def status(group: Group, controllers: Controllers = None, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Show what ZooKeeper holds about a group, how far each replica says that its log reaches, and any problems."""
    from ...client.administration.replica_reach import ask_reaches

    with leading(controllers, namesrv) as calls:
        state = calls.state(group, timeout_ms=TIMEOUT_MS)
        node = state.known.node if state.known is not None else None
        reaches = {} if node is None else ask_reaches(calls.remoting, node, timeout_ms=REPLICA_TIMEOUT_MS)
    document = state_document(group, state, reaches)
    show(document, as_json, lambda: print_state(document))


def check_promotion(
    group: str, follower: str, *, accept_loss: bool, controllers: str | None, namesrv: str | None
) -> None:
    """A follower may be promoted, unless a replica that holds all that was acknowledged may only be down for a while.

    Raises InvalidParameter, and what the controllers answer.
    """
    from ...client.administration.replica_reach import ask_reaches

    with leading(controllers, namesrv) as calls:
        known = calls.state(group, timeout_ms=TIMEOUT_MS).known
        replicas = () if known is None else known.node.replicas
        if known is None or follower not in [replica.name for replica in replicas if replica.is_follower]:
            raise InvalidParameter("REPLICA", follower, f"a follower of {group}; zenit controller elect elects others")
        if accept_loss:
            return
        answering = ask_reaches(calls.remoting, known.node, timeout_ms=REPLICA_TIMEOUT_MS)
    silent = ", ".join(sorted({*known.node.in_sync, *known.node.eligible} - answering.keys()))
    if silent:
        expected = f"an answer from {silent}, with all that was acknowledged: start one of them instead, or lose what"
        raise InvalidParameter("REPLICA", follower, f"{expected} {follower} lacks of it (--accept-loss)")


def elect(
    group: Group,
    replica: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=_check_replica,
            help="Which replica; else the one with the longest log, except the present master.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also a replica that may lack acknowledged messages, which are then lost. The old master must be dead.",
        ),
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="With --force: even if another replica has more, or may have more.")
    ] = False,
    controllers: Controllers = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Make another replica the master of a group, and print which one it is."""
    if accept_loss and not force:
        raise typer.BadParameter("expected only with --force", param_hint="--accept-loss")
    with leading(controllers, namesrv) as calls:
        if force:
            _check_force(calls, group, replica, accept_loss=accept_loss)
        node = calls.elect(group, replica or "", force=force, timeout_ms=TIMEOUT_MS).node
    document: dict[str, Any] = {"broker_name": group, "epoch": node.epoch, "master": node.master}
    document |= {"in_sync": list(node.in_sync), "min_in_sync": node.settings.min_in_sync}
    text = f"{group}: master {node.master}, epoch {node.epoch}, in sync {', '.join(node.in_sync)}"
    show(document, as_json, lambda: typer.echo(text))


def change_settings(
    group: Group,
    min_in_sync: Annotated[
        int | None, typer.Option(min=1, max=REPLICAS_MAX, help="With fewer replicas in sync, writes are refused.")
    ] = None,
    flush: Annotated[
        FlushMode | None,
        typer.Option(help="sync: a replica counts once it has flushed to disk; async: once it has written."),
    ] = None,
    ack: Annotated[
        AckMode | None,
        typer.Option(
            help="A send waits for the whole in-sync set (all), or only for the master; then a dead master may lose messages."
        ),
    ] = None,
    lag_ms: Annotated[
        int | None,
        typer.Option(
            min=LAG_MS_MIN, max=LAG_MS_MAX, help="A replica that is behind for this long leaves the in-sync set."
        ),
    ] = None,
    controllers: Controllers = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Change settings of a group while it runs, and print all of them.

    A change to --flush sync waits until every replica that may become master has flushed its log.
    """
    asked = {
        "min_in_sync": min_in_sync,
        "flush_mode": None if flush is None else flush.value,
        "ack_mode": None if ack is None else ack.value,
        "lag_ms_max": lag_ms,
    }
    changes = tuple((name, str(value)) for name, value in asked.items() if value is not None)
    with leading(controllers, namesrv) as calls:
        if changes:
            node = calls.change_settings(group, changes, timeout_ms=FLUSH_TIMEOUT_MS).node
        else:
            node = calls.group(group, timeout_ms=TIMEOUT_MS).node
    settings = node.settings
    document: dict[str, Any] = {"broker_name": group, "min_in_sync": settings.min_in_sync}
    document |= {"flush_mode": settings.flush_mode.value, "ack_mode": settings.ack_mode.value}
    document |= {"lag_ms_max": settings.lag_ms_max}
    show(document, as_json, lambda: print_facts(document))


def remove(
    group: Group,
    replica: Annotated[
        str,
        typer.Argument(metavar="REPLICA", callback=_check_replica, help="Its name within the group; stop it first."),
    ],
    controllers: Controllers = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Remove a replica that is gone for good from a group.

    A replica that still runs registers again; a line on stderr says so."""
    from ...client.administration.replica_reach import ask_reaches

    with leading(controllers, namesrv) as calls:
        before = calls.group(group, timeout_ms=TIMEOUT_MS).node
        meant = replace(before, replicas=tuple(one for one in before.replicas if one.name == replica))
        runs = bool(ask_reaches(calls.remoting, meant, timeout_ms=REPLICA_TIMEOUT_MS))
        node = calls.remove_replica(group, replica, timeout_ms=TIMEOUT_MS).node
    if runs:
        note(f"zenit: {replica} runs, and registers again within seconds: stop it, then remove it once more")
    document: dict[str, Any] = {
        "broker_name": group,
        "removed": replica,
        "runs": runs,
        "replicas": [left.name for left in node.replicas],
    }
    show(document, as_json, lambda: typer.echo(f"{group}: {replica} removed, left {', '.join(document['replicas'])}"))


def restore(
    group: Group,
    epoch: Annotated[
        int,
        typer.Option(
            min=1,
            max=SIGHTED_EPOCH_MAX,
            metavar="N",
            help="The highest epoch that any of its replicas has seen (zenit status).",
        ),
    ],
    group_id: Annotated[
        str, typer.Option(metavar="ID", help="Id of the group, if its replicas name several or none.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Even if no loss is known: its master is deposed.")] = False,
    controllers: Controllers = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Restore a group after ZooKeeper lost its data or went back to older data; then elect its master with --force.

    This deposes the master and empties the in-sync set: the group takes no writes until the election. No record says any more
    which replica has all messages; `zenit controller status` shows which log reaches furthest. If no loss is known, nothing is
    done without --force.
    """
    if group_id:
        with usage_of_values():
            check_group_id(group_id)
    with leading(controllers, namesrv) as calls:
        node = calls.restore(group, epoch, group_id=group_id, force=force, timeout_ms=TIMEOUT_MS).node
    document = {"broker_name": group, "group_id": node.group_id, "epoch": node.epoch, "master": node.master}
    master = f"master {node.master}" if node.master else "without a master"
    hint = "" if node.master else f"; then start all its replicas, and: zenit controller elect {group} --force"
    show(document, as_json, lambda: typer.echo(f"{group}: restored at epoch {node.epoch}, {master}{hint}"))


def _check_force(calls: ControllerCalls, group: str, replica: str | None, *, accept_loss: bool) -> None:
    """Stops an operator who may not know that another log has more, or may have; else shows how far the logs reach.

    Right after a start or a restore, replicas are still registering: unless a loss is accepted, it looks again for HEARD_MS.
    Raises InvalidParameter.
    """
    from ...client.connection.controller_calls import HEARD_MS, PAUSE_MS

    look_until_ms = monotonic_ms() + (0 if accept_loss else HEARD_MS)
    while (compared := _compare(calls, group, replica)) is not None:
        if not compared.missing or monotonic_ms() + PAUSE_MS >= look_until_ms:
            break
        sleep_ms(PAUSE_MS)
    if compared is None:
        return
    node, reaches, missing = compared.node, compared.reaches, compared.missing
    if not reaches and replica is None:
        raise InvalidParameter(
            "replica", "", f"the name of a replica; none answers yet (see zenit controller status {group})"
        )
    if missing and not accept_loss:
        raise InvalidParameter(
            "replica",
            replica or "",
            f"that all replicas can be compared, but {missing}: start what is missing, or lose what it has (--accept-loss)",
        )
    if not reaches:
        return
    logs = [reach.log for reach in reaches.values()]
    best = best_log(logs)
    if replica is None:
        raise InvalidParameter("replica", "", f"a name; {best.name} has most of those that answer")
    begin, end = lost_range(reaches[replica].log, logs) if replica in reaches else (0, 0)
    if end > begin and not accept_loss:
        raise InvalidParameter(
            "replica", replica, f"{best.name}, which has bytes {begin} to {end} that {replica} lacks (--accept-loss)"
        )
    note_reaches(node, reaches)


@dataclass(frozen=True, slots=True)
class _Compared:
    """A group's logs. `missing`: a sign that one that did not answer may have more, "" if there is none (`not_compared`)."""

    node: GroupNode
    reaches: dict[str, ReplicaReach]
    missing: str


def _compare(calls: ControllerCalls, group: str, replica: str | None) -> _Compared | None:
    """None where nothing is to be compared: the replica has all messages, or the controller will report a problem."""
    from ...client.administration.replica_reach import ask_reaches, not_compared
    from ...client.connection.cluster import recorded_replicas

    state = calls.state(group, timeout_ms=TIMEOUT_MS)
    if state.lost is not None or state.known is None:
        return None
    node, missing = state.known.node, ""
    if replica in {*node.in_sync, *node.eligible}:
        return None
    reaches = ask_reaches(calls.remoting, node, timeout_ms=REPLICA_TIMEOUT_MS)
    if not (node.in_sync or node.eligible):
        missing = not_compared(node, reaches, recorded_replicas(os.path.expanduser("~"), calls.addresses, group))
    return _Compared(node, reaches, missing)


@contextmanager
def leading(controllers: str | None, namesrv: str | None) -> Iterator[ControllerCalls]:
    """Calls to the given controllers, or to the known ones. Raises InvalidParameter if those are of another cluster."""
    from ...client.connection.client_keys import key_path, new_remoting
    from ...client.connection.cluster import name_servers, parse_addresses
    from ...client.connection.controller_calls import ControllerCalls

    servers = name_servers(namesrv)
    with new_remoting(key_path(None, servers), servers) as remoting:
        if controllers is not None:
            addresses = parse_addresses("controllers", controllers)
        else:
            addresses = _known_controllers(remoting, servers)
        try:
            yield ControllerCalls(remoting, addresses)
        except UnknownRequest as error:
            expected = "those of controllers (zenit status names them); another role, or another release, answers there"
            raise InvalidParameter("controllers", ",".join(addresses), expected) from error


def _known_controllers(remoting: RemotingClient, name_servers: tuple[str, ...]) -> tuple[str, ...]:
    """The controllers of registered brokers.

    A group without a master may have no registered broker: then those of the cluster that `zenit up` started last here.
    Raises InvalidParameter, and the errors of name servers if none answers.
    """
    from ...client.connection.cluster import recorded_controllers
    from ...client.connection.controller_calls import controllers_of

    try:
        return controllers_of(remoting, name_servers, timeout_ms=TIMEOUT_MS)
    except (InvalidParameter, ConnectionLost, RequestTimeout):
        recorded = recorded_controllers(os.path.expanduser("~"), name_servers)
        if recorded:
            return recorded
        raise
