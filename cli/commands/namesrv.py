"""`zenit namesrv`: a name server in the foreground, as launch scripts call it."""

from __future__ import annotations

import logging

import typer

from ...model.config import describe_config
from .. import garbage
from ..options import ConfigFile, Settings
from ..roles import load_role, measured, reread_on_hangup, rereader, stop_on_signals


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("namesrv")(namesrv)


def namesrv(config_file: ConfigFile = None, settings: Settings = None) -> None:
    """Run a name server in the foreground until SIGTERM or Ctrl-C."""
    from ...namesrv.config import NameServerConfig

    config = load_role(NameServerConfig, "namesrv", config_file, settings)
    logging.getLogger(__name__).info("settings config=%s", describe_config(config))
    from ...namesrv.service import NameServer

    with measured(config.metrics) as metrics, NameServer(config, metrics=metrics) as server:
        stop_on_signals(server.stop)
        reread_on_hangup(config, rereader(NameServerConfig, "namesrv", config_file, settings))
        garbage.serve()
        server.run()
