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
from ...model.groups.group_limits import AUTO
from ...model.names import VERSION
from ...namesrv.config import NameServerConfig
from ...record.kernel import COMPILED
from ...remoting.addresses import split_address
from ...remoting.examination.examiner import examined_machine, judged_peers
from ...remoting.security.opened_security import read_identity
from ..processes import bind_refusal
from .report import Examined

Config = NameServerConfig | BrokerConfig | ControllerConfig
ROLES: Final[dict[str, type[Config]]] = {
    "namesrv": NameServerConfig,
    "broker": BrokerConfig,
    "controller": ControllerConfig,
}
EVERYWHERE: Final = "0.0.0.0"  # noqa: S104  # nothing listens there: it is only tried
OWN_KEY: Final = "give the server its own key, and the trusted file of its cluster; zenit key cluster makes them"


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
        yield _identity(config)
    if isinstance(config, BrokerConfig):
        yield from examined_machine(config.store_dir)
        peers = [("name server", address) for address in config.namesrv]
        yield from judged_peers([*peers, *(("controller", address) for address in config.controllers)])
    elif isinstance(config, ControllerConfig):
        yield from judged_peers([("ZooKeeper", address) for address in config.zookeeper])


def _ports(config: Config) -> Iterator[Finding]:
    host = config.host if isinstance(config, NameServerConfig) else config.listen_host or config.host
    places = [("port", host, config.port)]
    if isinstance(config, NameServerConfig):
        places.append(("publish_port", host, config.publish_port))
    if isinstance(config, BrokerConfig) and config.has_group:
        places.append(("replication_port", host, config.replication_port))
    if config.metrics.bind:
        places.append(("metrics.bind", *split_address(config.metrics.bind)))
    for key, at, port in places:
        place = f"[{at}]:{port}" if ":" in at else f"{at}:{port}"
        if not port:
            continue
        if why := bind_refusal(EVERYWHERE if at == AUTO else at, port):
            remedy = "end what listens there, choose another port, or mend the address"
            yield Finding(Severity.PROBLEM, key, f"{place}: {why}", remedy)
        else:
            yield Finding(Severity.OK, key, f"{place} is free")


def _identity(config: Config) -> Finding:
    """Whether this key is this server's."""
    try:
        read_identity(config.security, config.binding if isinstance(config, BrokerConfig) else None)
    except ConfigError as error:
        return Finding(Severity.PROBLEM, error.key, f"{error.value}: expected {error.expected}", OWN_KEY)
    except ZenitError as error:
        return Finding(Severity.PROBLEM, "security.key", str(error), OWN_KEY)
    return Finding(Severity.OK, "security.key", config.security.key)
