"""`zenit upgrade`: the order of a rolling upgrade, and a gate between two restarts that a script can wait at."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Annotated, Any, Final

import typer

from ....model.errors import ZenitError
from ....model.examination.finding import Severity
from ...options import Json, Namesrv
from ...output import note, print_table, show
from ..controller import leading

ASK_TIMEOUT_MS: Final = 3_000
VERSION_TEXT: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){1,3}[0-9A-Za-z.+-]{0,40}", re.ASCII)
COLUMNS: Final = ("step", "role", "group", "name", "address", "version", "note", "gate")


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    upgrade_app = typer.Typer()
    upgrade_app.callback()(_group)
    upgrade_app.command("plan")(plan)
    upgrade_app.command("wait-in-sync")(wait)
    app.add_typer(upgrade_app, name="upgrade")


def _group() -> None:
    """Upgrade a cluster while it works."""


def plan(
    target: Annotated[
        str, typer.Option("--to", metavar="VERSION", help="Leave out the servers that run this version already.")
    ] = "",
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Print in which order the servers of a cluster are restarted, with the gate after each, and whether it is safe now.

    Controllers first, the leading one last; name servers; of each group the slaves, then the master. Exit code 1 if it is
    not safe to begin: a server does not answer, a replica is not in sync, or a group cannot do without any of its replicas.
    """
    from ....client.admin import Admin
    from ....deploy.doctor.report import judged_target, judged_versions
    from ....deploy.upgrade.upgrade_plan import plan_upgrade
    from ....deploy.upgrade.upgrade_survey import running_groups, running_servers

    if target and not VERSION_TEXT.fullmatch(target):
        raise typer.BadParameter(f"{target!r}: expected a version, such as 0.2.0", param_hint="--to")
    leader, known = _led(namesrv)
    with Admin(namesrv) as admin:
        servers, groups = running_servers(admin), running_groups(admin, known=known)
    running = [one.version for one in servers if one.version]
    judged = judged_versions(running)
    versions = (
        f"{judged.text}: {judged.remedy}" if judged.severity is Severity.PROBLEM else judged_target(running, target)
    )
    found = plan_upgrade(servers, groups, leader=leader, target=target, versions=versions)
    document = found.document()
    show(document, as_json, lambda: _print(document))
    if found.refusals:
        raise typer.Exit(1)


def wait(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="A broker name; else all groups.")] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--for", min=0, metavar="SECONDS", help="How long it must have been so.  [default: 10]"),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How long to wait for it.")] = 300.0,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Wait until a group has a master and every replica is in sync, for 10 seconds without a break: the next may restart.

    Exit code 1, and one line that says what is missing, if that does not come about in time.
    """
    from ....client.admin import Admin
    from ....deploy.upgrade.upgrade_plan import GATE_SECONDS
    from ....deploy.upgrade.upgrade_survey import wait_in_sync

    needed = GATE_SECONDS if seconds is None else seconds
    with Admin(namesrv) as admin:
        found = wait_in_sync(
            admin,
            group,
            seconds=needed,
            timeout_s=timeout,
            known=_led(namesrv)[1],
            told=lambda why: note(f"zenit: {why}"),
        )
    document = {"in_sync_for_seconds": needed, "groups": [{"broker_name": one.name} for one in found]}
    names = ", ".join(one.name for one in found)
    show(document, as_json, lambda: typer.echo(f"in sync for {needed:g} s: {names}"))


def _led(namesrv: str | None) -> tuple[str, tuple[str, ...]]:
    """The address of the leading controller, and the groups that it looks after; "" and none if there is none, or none
    answers."""
    with suppress(ZenitError), leading(None, namesrv) as calls:
        told = calls.metadata(timeout_ms=ASK_TIMEOUT_MS)
        return told.leader, told.broker_names
    return "", ()


def _print(document: dict[str, Any]) -> None:
    print_table(COLUMNS, [["" if step[name] is None else step[name] for name in COLUMNS] for step in document["steps"]])
    for text in document["notes"]:
        note(f"note: {text}")
    for text in document["refusals"]:
        note(f"not now: {text}")
