"""`zenit doctor`: what may be wrong with this machine, a configuration, and each server of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ....model.errors import ZenitError
from ....model.examination.finding import Finding, Severity, worst
from ...options import ConfigFile, Json, Namesrv, Settings
from ...output import show

if TYPE_CHECKING:
    from ....client.admin import Admin
    from ....deploy.doctor.report import Examined
    from ....deploy.upgrade.upgrade_plan import RunningGroup

TOGETHER: Final = 16
NO_BROKER: Final = Finding(
    Severity.PROBLEM,
    "brokers",
    "none is registered with the name servers",
    "start one, and give it their addresses as `namesrv`; its log says what keeps it from registering",
)
START_IT: Final = (
    "start its broker, or wait until it has caught up (zenit controller status); one that is gone: replace it"
)
ROLES: Final = ("broker", "namesrv", "controller")


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("doctor")(doctor)


def doctor(
    config_file: ConfigFile = None,
    role: Annotated[
        str, typer.Option(metavar="ROLE", help=f"Whose configuration --config is: {', '.join(ROLES)}.")
    ] = "broker",
    settings: Settings = None,
    machine: Annotated[bool, typer.Option("--machine", help="Examine this machine alone, no cluster.")] = False,
    proxies: Annotated[
        list[str] | None,
        typer.Option("--proxy", metavar="HOST:PORT", help="Examine a proxy too, by its metrics' port; several times."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Print also what is in order.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Examine this machine, and each server of a cluster: limits, disks, clocks, versions, who reaches whom.

    Each server examines its own machine, and connects to those whom it has to reach. No name server knows of proxies: each
    is named by --proxy. With --config the configuration of a server that does not run yet is examined instead: its values,
    ports, keys, disk, and whether it reaches the others.

    Exit code 1 if there is a problem; notes and warnings are printed only.
    """
    from ....deploy.doctor.here import examine_configuration, examine_machine
    from ....deploy.doctor.proxy_pages import examine_proxy
    from ....deploy.doctor.report import report_lines

    if role not in ROLES:
        raise typer.BadParameter(f"{role!r}: expected one of {', '.join(ROLES)}", param_hint="--role")
    examined = [examine_machine()]
    if config_file is not None:
        examined.append(examine_configuration(role, config_file, tuple(settings or ())))
    elif not machine:
        examined += examined_cluster(namesrv)
    examined += [examine_proxy(address) for address in proxies or ()]
    found = worst(finding for one in examined for finding in one.findings)
    document = {"severity": found.value, "examined": [one.document() for one in examined]}
    show(document, as_json, lambda: typer.echo("\n".join(report_lines(examined, with_ok=everything))))
    if found is Severity.PROBLEM:
        raise typer.Exit(1)


def examined_cluster(namesrv: str | None) -> Iterator[Examined]:
    """The cluster as a whole, then each of its servers."""
    from ....client.admin import Admin
    from ....deploy.doctor.report import Examined, judged_versions

    with Admin(namesrv) as admin:
        try:
            servers = admin.servers()
        except ZenitError as error:
            yield Examined("the cluster", (Finding(Severity.PROBLEM, "name servers", str(error)),))
            return
        with ThreadPoolExecutor(TOGETHER) as threads:
            answers = list(threads.map(lambda server: _server(admin, *server), servers))
        groups = [one.missing() for one in _groups(admin)]
    findings = [judged_versions([one.version for one in answers if one.version])]
    findings += [Finding(Severity.PROBLEM, "group", missing, START_IT) for missing in filter(None, groups)]
    if not any(role == "broker" for role, _ in servers):
        findings.append(NO_BROKER)
    yield Examined("the cluster", tuple(findings))
    yield from answers


def _groups(admin: Admin) -> list[RunningGroup]:
    """Empty if nobody tells: then there is a finding of each server that did not answer."""
    from ....deploy.upgrade.upgrade_survey import running_groups

    try:
        return running_groups(admin)
    except ZenitError:
        return []


def _server(admin: Admin, role: str, address: str) -> Examined:
    from ....deploy.doctor.report import Examined, examined_server

    what = f"{role} {address}"
    try:
        return examined_server(what, admin.examine_server(address))
    except ZenitError as error:
        return Examined(what, (Finding(Severity.PROBLEM, "reach", str(error)),))
