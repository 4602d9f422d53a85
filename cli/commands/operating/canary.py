"""`zenit canary`: a message through each replica group each second; its time is a metric."""

from __future__ import annotations

import logging
import os
from typing import Annotated

import typer

from ....model.events.log_lines import TEXT_FORMAT
from ...options import MetricsTokenFile, Namesrv
from ...roles import measured, stop_on_signals


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("canary")(canary)


def canary(
    metrics_bind: Annotated[
        str, typer.Option("--metrics-bind", metavar="HOST:PORT", help="Where its metrics and health are served.")
    ] = "127.0.0.1:9890",
    metrics_token_file: MetricsTokenFile = "",
    namesrv: Namesrv = None,
) -> None:
    """Send a message through each replica group each second, and serve how long it takes to come back.

    It runs until SIGTERM or Ctrl-C; one is enough for a cluster. docs/metrics.md explains it.
    """
    from ....deploy.canary import Canary
    from ....metrics.config import MetricsConfig
    from ....model.errors import ConfigError

    logging.basicConfig(level=os.environ.get("ZENIT_LOG", "INFO").upper(), format=TEXT_FORMAT, force=True)
    try:
        config = MetricsConfig(bind=metrics_bind, token_file=metrics_token_file)
    except ConfigError as error:
        raise typer.BadParameter(f"{error.value!r}: expected {error.expected}", param_hint="--metrics-bind") from None
    with measured(config) as endpoint, Canary(namesrv) as sender:
        stop_on_signals(sender.stop)
        if endpoint is not None:
            endpoint.serve(sender)
        sender.run()
