"""`zenit debug bundle`: an archive that shows a fault to somebody who cannot see the machines."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ....model.clock import datetime_of_ms, now_ms
from ...options import Json, Namesrv, check_directory, usage_of_values
from ...output import note, show
from .doctor import examined_cluster


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    debug_app = typer.Typer()
    debug_app.callback()(_group)
    debug_app.command("bundle")(bundle)
    app.add_typer(debug_app, name="debug")


def _group() -> None:
    """Find the cause of a fault."""


def bundle(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE.tar.gz]", help="Where it goes; else zenit-debug-TIME.tar.gz here.")
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            callback=check_directory,
            help="The cluster whose logs it has; else the one `zenit up` started last here.",
        ),
    ] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Collect what `zenit doctor` finds, versions, settings, counters, events and the ends of logs in one archive.

    No message and no key goes into it; what looks like a secret is ***. Look into it before you send it to somebody. Logs are
    those of the cluster that `zenit up` started on this machine.
    """
    from ....deploy.doctor.bundle import write_bundle
    from ....deploy.doctor.here import examine_machine
    from ....deploy.local_cluster import last_directory

    path = file or f"zenit-debug-{datetime_of_ms(now_ms()):%Y%m%d-%H%M%S}.tar.gz"
    local = directory or last_directory()
    examined = [examine_machine(), *examined_cluster(namesrv)]
    logs = None if local is None else os.path.join(os.path.expanduser(local), "log")
    with usage_of_values():
        write_bundle(path, namesrv, examined, log_directory=logs, told=lambda name: note(f"  {name}"))
    show({"file": path}, as_json, lambda: typer.echo(path))
