"""Examines this machine, and the configuration of a role before it is started."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator
from typing import Final

from ...broker.config import BrokerConfig
from ...controller.config import ControllerConfig
from ...model.config import load_config
from ...model.errors import ConfigError, ZenitError
from ...model.examination.finding import Finding, Severity
from ...model.names import VERSION
from ...namesrv.config import NameServerConfig
from ...record.kernel import COMPILED
from ...remoting.examination.examiner import examined_machine, judged_peers
from ...remoting.security.key_file import read_key_file
from ..processes import port_is_free
from .report import Examined

Config = NameServerConfig | BrokerConfig | ControllerConfig
ROLES: Final[dict[str, type[Config]]] = {
    "namesrv": NameServerConfig,
    "broker": BrokerConfig,
    "controller": ControllerConfig,
}


def examine_machine() -> Examined:
    """This machine, for clients and servers."""
    return Examined(f"this machine, {socket.gethostname()}", (*_installed(), *examined_machine(None)), VERSION)


def _installed() -> Iterator[Finding]:
    yield Finding(Severity.OK, "python", platform.python_version())
    if COMPILED:
        yield Finding(Severity.OK, "record kernel", "compiled")
    else:
        remedy = "install a C compiler and Python's headers, then ZenitMQ again"
        yield Finding(Severity.NOTE, "record kernel", "interpreted: correct, but many times slower", remedy)


def examine_configuration(role: str, file: str, overrides: tuple[str, ...] = ()) -> Examined:
    """A configuration whose role does not run yet on this machine."""
    what = f"{role} of {file}"
    try:
        config = load_config(ROLES[role], role, file=file, environ=os.environ, overrides=overrides)
    except ConfigError as error:
        remedy = f"expected {error.expected} (zenit config schema {role})"
        return Examined(what, (Finding(Severity.PROBLEM, error.key, f"{error.value!r}", remedy),))
    return Examined(what, tuple(_configured(config)))


def _configured(config: Config) -> Iterator[Finding]:
    yield from _ports(config)
    if config.security.key:
        yield _key_file(config.security.key)
    if isinstance(config, BrokerConfig):
        yield from examined_machine(config.store_dir)
        peers = [("name server", address) for address in config.namesrv]
        yield from judged_peers([*peers, *(("controller", address) for address in config.controllers)])
    elif isinstance(config, ControllerConfig):
        yield from judged_peers([("ZooKeeper", address) for address in config.zookeeper])


def _ports(config: Config) -> Iterator[Finding]:
    ports = {"port": config.port}
    if isinstance(config, NameServerConfig):
        ports["publish_port"] = config.publish_port
    if isinstance(config, BrokerConfig) and config.has_group:
        ports["replication_port"] = config.replication_port
    for key, port in ports.items():
        if port and not port_is_free(port, "0.0.0.0"):  # noqa: S104  # nothing listens there: it is only tried
            yield Finding(Severity.PROBLEM, key, f"port {port} is taken", "end what listens there, or choose another")
        elif port:
            yield Finding(Severity.OK, key, f"port {port} is free")


def _key_file(path: str) -> Finding:
    try:
        read_key_file(path)
    except ZenitError as error:
        return Finding(Severity.PROBLEM, "security.key", str(error), "zenit key new makes one")
    return Finding(Severity.OK, "security.key", path)
