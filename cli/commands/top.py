"""`zenit top`: what a cluster does now, live in the terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..options import Json, Namesrv

USUAL_SECONDS = 2.0


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("top")(top)


def top(
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.5, max=3600, help="Draw again every SECONDS.")
    ] = USUAL_SECONDS,
    sort: Annotated[str, typer.Option("--sort", metavar="in|out|lag", help="What the rows are sorted by.")] = "in",
    once: Annotated[
        bool, typer.Option("--once", help="Print the tables once, after two samples; so it does in a pipe.")
    ] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Show rates in and out, lag, replicas, disks and the newest events, live.

    Keys: i, o, l sort by in, out, lag; q quits. With --json a document a line each interval. It sends at most ten requests a
    second: of a big cluster, topics and groups that are not shown are asked for by turns. docs/operate.md explains it.
    """
    import asyncio

    from ..top.figures import ClusterFigures, Order
    from ..top.sampling import CALL_S, PacedAdmin
    from ..top.screen import print_documents, show_live, show_once

    figures = ClusterFigures()
    try:
        figures.order = Order(sort)
    except ValueError:
        raise typer.BadParameter(f"{sort!r}: expected in, out or lag", param_hint="--sort") from None
    interval_ms = int(interval * 1000)

    async def run() -> None:
        async with PacedAdmin(namesrv, timeout=CALL_S) as admin:
            if once or not (as_json or sys.stdout.isatty()):
                await show_once(admin, figures, interval_ms, as_json=as_json)
            elif as_json:
                await print_documents(admin, figures, interval_ms)
            else:
                await show_live(admin, figures, interval_ms)

    asyncio.run(run())
