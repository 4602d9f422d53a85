"""`zenit proxy`: where RocketMQ's own clients reach the cluster, in the foreground, as launch scripts call it."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from ...model.config import describe_config
from .. import garbage
from ..options import ConfigFile, Settings
from ..roles import load_role, measured, reread_on_hangup, rereader, stop_on_signals

if TYPE_CHECKING:
    from ...proxy.config import ProxyConfig


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("proxy")(proxy)


def proxy(config_file: ConfigFile = None, settings: Settings = None) -> None:
    """Run a proxy in the foreground until SIGTERM or Ctrl-C: RocketMQ's own clients come to it, unchanged.

    It keeps nothing: run as many as are wanted. docs/guide/rocketmq-clients.md shows what each client is told.
    """
    from ...proxy.config import ProxyConfig
    from ...proxy.installation import check_installed
    from ...proxy.processes import Processes

    check_installed()
    config = load_role(ProxyConfig, "proxy", config_file, settings)
    logging.getLogger(__name__).info("settings config=%s", describe_config(config))
    reload = rereader(ProxyConfig, "proxy", config_file, settings)

    def serve(number: int) -> int:
        """One process of several; each has a port for metrics of its own."""
        reread_on_hangup(config, reload)
        return _serve(_of_process(config, number), parent=parent)

    parent = os.getpid()
    if config.processes > 1:
        raise typer.Exit(Processes(config.processes, serve, end_ms=config.drain_ms).run())
    reread_on_hangup(config, reload)
    raise typer.Exit(_serve(config, parent=0))


def _serve(config: ProxyConfig, *, parent: int) -> int:
    from ...proxy.service import Proxy

    with measured(config.metrics) as metrics:
        service = Proxy(config, metrics=metrics, parent=parent)
        stop_on_signals(service.stop)
        garbage.serve()
        service.run()
    return 0


def _of_process(config: ProxyConfig, number: int) -> ProxyConfig:
    """The settings of one process of several: its port for metrics is that of the first, plus its number. Only the first
    speaks remoting: a broker's port there stands for one process."""
    from ...proxy.config import NO_PORT

    host, _, port = config.metrics.bind.rpartition(":")
    bind = f"{host}:{int(port) + number}" if config.metrics.bind and int(port) else config.metrics.bind
    remoting_port = config.remoting_port if number == 0 else NO_PORT
    return replace(config, metrics=replace(config.metrics, bind=bind), remoting_port=remoting_port)
