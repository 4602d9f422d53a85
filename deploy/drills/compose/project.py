"""A compose project as a drill sees it, from what `docker inspect` says of its containers. Pure.

A server is a container whose command begins with a role of `zenit`. Its settings are read as that server reads them, from
the command and the environment of the container. The ZooKeepers are the services that the controllers name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from ....broker.config import BrokerConfig
from ....controller.config import ControllerConfig
from ....model.config import load_config
from ....model.errors import InvalidParameter
from ....model.groups.group_limits import AUTO
from ....namesrv.config import NameServerConfig
from ...cluster_record import BROKER, CONTROLLER, NAME_SERVER, ZOOKEEPER, ServerRecord

PROJECT_LABEL: Final = "com.docker.compose.project"
SERVICE_LABEL: Final = "com.docker.compose.service"
ONE_OFF_LABEL: Final = "com.docker.compose.oneoff"
LOOPBACK: Final = "127.0.0.1"
ANYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104 (compared, not bound)
ROLES: Final = {NAME_SERVER: NameServerConfig, CONTROLLER: ControllerConfig, BROKER: BrokerConfig}
FIXED: Final = "published at a port of this machine that is named, as deploy/compose.yaml does"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord(ServerRecord):
    """A server in a container. `container`: its id; `image`: its image's. `networks`: by name, the aliases that it has there.

    `state`: as the engine says. `key`: the path of its key inside, "" if it is not secured. `store_dir`: "" if it has none, or
    no volume holds it. `detours`: where its addresses are reached from this machine.
    """

    container: str
    image: str
    state: str
    networks: Mapping[str, tuple[str, ...]]
    key: str = ""
    store_dir: str = ""
    detours: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ComposeProject:
    """The servers of a project: ZooKeeper, name servers, controllers, brokers, each role by name."""

    name: str
    servers: tuple[ContainerRecord, ...]

    @property
    def groups(self) -> dict[str, tuple[ContainerRecord, ...]]:
        """The brokers of each group, by its name."""
        brokers = [server for server in self.servers if server.role == BROKER]
        names = sorted({broker.group or "" for broker in brokers})
        return {name: tuple(broker for broker in brokers if broker.group == name) for name in names}

    def check(self) -> None:
        """Raises InvalidParameter, in one line, if a drill cannot be done to it."""
        for role in (NAME_SERVER, BROKER, CONTROLLER):
            if not any(server.role == role for server in self.servers):
                raise InvalidParameter(
                    "--compose", self.name, f"a project that is up, with a {role}: docker compose -p {self.name} up -d"
                )
        wrong = [f"{server.name} is {server.state}" for server in self.servers if server.state != "running"]
        if wrong := wrong or [f"{server.name} has no network" for server in self.servers if not server.networks]:
            raise InvalidParameter("--compose", self.name, f"a project whose servers run; {', '.join(wrong)}")
        sizes = {name: len(brokers) for name, brokers in self.groups.items()}
        if len(set(sizes.values())) > 1:
            told = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            raise InvalidParameter("--compose", self.name, f"groups of the same size; {told}")
        if double := [name for name, count in Counter(server.name for server in self.servers).items() if count > 1]:
            raise InvalidParameter("--compose", self.name, f"one server of each name; several are {double[0]}")


def project_of(name: str, inspected: Sequence[Mapping[str, Any]]) -> ComposeProject:
    """`inspected`: the documents of `docker inspect`. Raises InvalidParameter for a server that cannot be reached from here;
    ConfigError for settings that no server has.
    """
    known = [one for one in inspected if one["Config"]["Labels"].get(ONE_OFF_LABEL) != "True"]
    servers = [server for one in known if (server := _server(one)) is not None]
    zookeepers = {
        address.rpartition(":")[0]: address
        for one in known
        if _role(one) == CONTROLLER
        for address in _config(one, CONTROLLER).zookeeper
    }
    servers += [
        _record(one, ZOOKEEPER, zookeepers[_service(one)], ports=()) for one in known if _service(one) in zookeepers
    ]
    order = (ZOOKEEPER, NAME_SERVER, CONTROLLER, BROKER)
    return ComposeProject(name, tuple(sorted(servers, key=lambda server: (order.index(server.role), server.name))))


def _server(one: Mapping[str, Any]) -> ContainerRecord | None:
    role = _role(one)
    if role is None:
        return None
    config, service = _config(one, role), _service(one)
    host = next((each for each in _hosts(config) if each not in (*ANYWHERE, AUTO, LOOPBACK)), service)
    ports = [config.port]
    if role == NAME_SERVER:
        ports.append(config.publish_port or config.port + 1)
    address = f"{host}:{config.port}"
    if role != BROKER:
        return _record(one, role, address, ports=ports, key=config.security.key)
    name, store_dir = config.replica or service, config.store_dir if _is_in_volume(one, config.store_dir) else ""
    return _record(
        one, role, address, ports=ports, name=name, group=config.name, key=config.security.key, store_dir=store_dir
    )


def _record(one: Mapping[str, Any], role: str, address: str, *, ports: Sequence[int], **more: Any) -> ContainerRecord:
    host = address.rpartition(":")[0]
    name = more.pop("name", _service(one))
    return ContainerRecord(
        role=role,
        name=name,
        address=address,
        container=one["Id"],
        image=one["Image"],
        state=one["State"]["Status"],
        networks={
            network: tuple(alias for alias in found["Aliases"] or () if not one["Id"].startswith(alias))
            for network, found in one["NetworkSettings"]["Networks"].items()
        },
        detours={f"{host}:{port}": _published(one, name, port) for port in ports},
        **more,
    )


def _published(one: Mapping[str, Any], name: str, port: int) -> str:
    """Where a port is reached from this machine, also after the container was started again."""
    bindings = (one["HostConfig"]["PortBindings"] or {}).get(f"{port}/tcp") or ()
    for binding in bindings:
        if binding["HostPort"] not in ("", "0"):
            host = LOOPBACK if binding["HostIp"] in ANYWHERE else binding["HostIp"]
            return f"{host}:{binding['HostPort']}"
    raise InvalidParameter("port", f"{port} of {name}", FIXED)


def _role(one: Mapping[str, Any]) -> str | None:
    command = one["Config"]["Cmd"] or ()
    return command[0] if command and command[0] in ROLES else None


def _service(one: Mapping[str, Any]) -> str:
    return str(one["Config"]["Labels"][SERVICE_LABEL])


def _config(one: Mapping[str, Any], role: str) -> Any:
    environ = dict(text.partition("=")[::2] for text in one["Config"]["Env"] or ())
    return load_config(ROLES[role], role, environ=environ, overrides=tuple(_settings(one["Config"]["Cmd"])))


def _settings(command: Sequence[str]) -> Iterator[str]:
    """The texts after `--set`."""
    for flag, value in pairwise(command):
        if flag == "--set":
            yield value
    yield from (word.removeprefix("--set=") for word in command if word.startswith("--set="))


def _hosts(config: Any) -> tuple[str, ...]:
    return (getattr(config, "advertised_host", ""), config.host)


def _is_in_volume(one: Mapping[str, Any], path: str) -> bool:
    return any(f"{path}/".startswith(f"{mount['Destination']}/") for mount in one["Mounts"] if mount["RW"])
