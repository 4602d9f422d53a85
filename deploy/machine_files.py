"""The files of a secured group on several machines: for each, what its /etc/zenit has to hold.

    DIR/keys/                   what `zenit key cluster` makes: a key of each server, and admin.key of the first super user
    DIR/HOST/namesrv.toml       and controller.toml, broker-a-1.toml: configurations, named as the units of systemd expect
    DIR/HOST/namesrv.key        and one for each of the others
    DIR/HOST/trusted.toml       and users.secrets, zookeeper.login, metrics.token: the same on every machine

Each machine has a name server, a controller and one replica of the group. A key that is there stays; the rest is written anew.
A configuration that was another one, perhaps by an operator's hand, is kept beside as NAME.toml.old.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from typing import Final

from ..model.errors import InvalidParameter
from ..model.groups.group_limits import REPLICAS_MAX, check_address, check_host, check_name
from ..model.plain_dataclass import dataclass
from .cluster_keys import write_keys
from .cluster_plan import LOGIN_FILE, SECRETS_KEY_FILE, TRUSTED_FILE
from .cluster_record import BROKER, CONTROLLER, NAME_SERVER, ClusterRecord, ProcessRecord
from .port_choice import BROKER_PORT, CONTROLLER_PORT, NAME_SERVER_PORT, ZOOKEEPER_PORT
from .text_file import write_text

PORTS: Final = {NAME_SERVER: NAME_SERVER_PORT, CONTROLLER: CONTROLLER_PORT, BROKER: BROKER_PORT}
METRICS_PORTS: Final = {NAME_SERVER: 9880, CONTROLLER: 9881, BROKER: 9882}
KEYS_FOLDER: Final = "keys"
SCRAPES_FILE: Final = "metrics.token"
OLD: Final = ".old"
EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 (behind a name a machine may have any address)
SMALL_STORE: Final = {"segment_bytes": 64 << 20, "index_slots": 100_000, "index_entries": 400_000}
"""For a trial, on whose disk all replicas are."""

Tables = Mapping[str, Mapping[str, object]]
"""Of a configuration file; "" has the keys that are in no table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """`hosts`: the DNS name or address of each machine. `zookeeper`: host:port of its servers; empty = one on each machine.

    `is_here`: for a trial on one machine, with addresses like 127.0.0.2: configurations name the files where they are written,
    and stores are beside them, with small files. Raises InvalidParameter, InvalidName, ConfigError.
    """

    directory: str
    hosts: tuple[str, ...]
    group: str = "broker-a"
    cluster: str = "zenit"
    zookeeper: tuple[str, ...] = ()
    is_here: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.hosts) <= REPLICAS_MAX or len(set(self.hosts)) < len(self.hosts):
            raise InvalidParameter("hosts", ", ".join(self.hosts), f"1 to {REPLICAS_MAX}, each another machine")
        for host in self.hosts:
            check_host("hosts", host)
            if host == KEYS_FOLDER:
                raise InvalidParameter("hosts", host, f"another name: {KEYS_FOLDER} is the folder of all keys")
        check_name("broker", self.group)
        check_name("cluster", self.cluster)
        for address in self.zookeeper:
            check_address("zookeeper", address)

    def addresses(self, role: str) -> list[str]:
        """Where each server of a role answers."""
        return [_at(host, PORTS[role]) for host in self.hosts]

    def place(self, number: int) -> str:
        """Where the files of a machine are when its servers start. `number`: from 1, as in the names of replicas."""
        return self.folder(number) if self.is_here else "/etc/zenit"

    def folder(self, number: int) -> str:
        """Where they are written."""
        return os.path.join(os.path.abspath(self.directory), self.hosts[number - 1])

    def instance(self, number: int) -> str:
        """The name of a replica for systemd: a-1 of broker-a-1."""
        return f"{self.group.removeprefix('broker-')}-{number}"

    def files(self, number: int) -> dict[str, str]:
        """{role: name of its files, without .toml or .key}."""
        return {NAME_SERVER: "namesrv", CONTROLLER: "controller", BROKER: f"broker-{self.instance(number)}"}

    def user(self, role: str, number: int) -> str:
        """The name of a server in the trusted file."""
        return f"{self.group if role == BROKER else role}-{number}"

    def process(self, role: str, number: int) -> ProcessRecord:
        """A server, as far as its key has to say what it is."""
        address = "" if role == BROKER else _at(self.hosts[number - 1], PORTS[role])
        return ProcessRecord(
            role=role, name=self.user(role, number), address=address, group=self.group if role == BROKER else None
        )

    def configuration(self, role: str, number: int) -> Tables:
        """The tables of one server's configuration."""
        host, place = self.hosts[number - 1], self.place(number)
        own = {NAME_SERVER: self._name_server, CONTROLLER: self._controller, BROKER: self._broker}[role](number)
        tables: dict[str, Mapping[str, object]] = {"": own}
        if role == CONTROLLER:
            count = len(self.hosts)
            tables["new_group"] = {"min_in_sync": min(2, max(1, count - 1)), "replicas": count}
        if self.is_here and role == BROKER:
            tables["store"] = SMALL_STORE
        tables["security"] = {
            "key": f"{place}/{self.files(number)[role]}.key",
            "trusted": f"{place}/{TRUSTED_FILE}",
            "secrets_key": f"{place}/{SECRETS_KEY_FILE}",
        }
        tables["metrics"] = {"bind": _at(_bound(host), METRICS_PORTS[role]), "token_file": f"{place}/{SCRAPES_FILE}"}
        return tables

    def _name_server(self, number: int) -> dict[str, object]:
        return {"host": _bound(self.hosts[number - 1])}

    def _controller(self, number: int) -> dict[str, object]:
        host = self.hosts[number - 1]
        listens = {} if _is_address(host) else {"listen_host": EVERYWHERE}
        zookeeper = list(self.zookeeper) or [_at(one, ZOOKEEPER_PORT) for one in self.hosts]
        login = f"{self.place(number)}/{LOGIN_FILE}"
        return {"cluster": self.cluster, "host": host, **listens, "zookeeper": zookeeper, "zookeeper_login": login}

    def _broker(self, number: int) -> dict[str, object]:
        host, name = self.hosts[number - 1], self.instance(number)
        named = {"host": "auto", "listen_host": EVERYWHERE, "advertised_host": host}
        return {
            "cluster": self.cluster,
            "name": self.group,
            "replica": self.user(BROKER, number),
            **({"host": host} if _is_address(host) else named),
            "namesrv": self.addresses(NAME_SERVER),
            "controllers": self.addresses(CONTROLLER),
            "store_dir": os.path.join(self.folder(number), "store") if self.is_here else f"/var/lib/zenit/{name}",
        }


def write_machine_files(machines: Machines) -> list[tuple[str, str]]:
    """Writes all files; returns (host, file name), host by host. Raises KeyFileRefused, OSError."""
    keys = os.path.join(os.path.abspath(machines.directory), KEYS_FOLDER)
    numbers = range(1, len(machines.hosts) + 1)
    processes = tuple(machines.process(role, number) for number in numbers for role in PORTS)
    write_keys(ClusterRecord(cluster=machines.cluster, namesrv="", processes=processes, keys=keys), ())
    token = os.path.join(keys, SCRAPES_FILE)
    if not os.path.exists(token):
        write_text(token, secrets.token_hex(32) + "\n", mode=0o600)
    written = []
    for number in numbers:
        folder = machines.folder(number)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        files = {name: name for name in (TRUSTED_FILE, SECRETS_KEY_FILE, LOGIN_FILE, SCRAPES_FILE)}
        files |= {f"{name}.key": f"{machines.user(role, number)}.key" for role, name in machines.files(number).items()}
        for name, source in files.items():
            shutil.copy(os.path.join(keys, source), os.path.join(folder, name))
        for role, name in machines.files(number).items():
            path, text = os.path.join(folder, f"{name}.toml"), toml(machines.configuration(role, number))
            if _is_another(path, text):
                shutil.copy(path, f"{path}{OLD}")
                files[f"{name}.toml{OLD}"] = ""
            write_text(path, text)
            files[f"{name}.toml"] = ""
        written += [(machines.hosts[number - 1], name) for name in sorted(files)]
    return written


def _is_another(path: str, text: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read() != text
    except FileNotFoundError:
        return False


def toml(tables: Tables) -> str:
    """The text of a configuration file."""
    parts = []
    for table, keys in tables.items():
        lines = [f"[{table}]"] if table else []
        parts.append("\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]) + "\n")
    return "\n".join(parts)


def _at(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bound(host: str) -> str:
    return host if _is_address(host) else EVERYWHERE


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
