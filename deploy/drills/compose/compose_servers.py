"""The servers of a drill as containers of a compose project, harmed by the program `docker`, and reached by published ports.

The engine tells of a container what it was when the drill began; what the drill did to it since is noted here, so that a look
at the cluster asks the engine nothing. A container that ends by itself is started again by its restart policy.
"""

from __future__ import annotations

import io
import json
import os
import posixpath
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

from ....client.connection.client_keys import ENVIRONMENT_KEY, new_remoting
from ....client.connection.cluster import ADMINISTRATOR_KEY
from ....model.clock import monotonic_ms, now_ms, sleep_ms
from ....model.errors import InvalidParameter, RequirementMissing, SystemFault
from ....remoting.addresses import ENVIRONMENT_DETOURS, detours_text
from ....remoting.client import RemotingClient
from ....remoting.commands import GetBrokerStatistics
from ...cluster_record import CONTROLLER, NAME_SERVER, ServerRecord
from ...cluster_status import UNKNOWN, ask_controllers, ask_json, group_document
from ..catalogue import Deed
from ..servers import Group
from .docker_command import docker, docker_both
from .project import PROJECT_LABEL, ComposeProject, ContainerRecord, project_of

STOP_S: Final = 30
FREEZE_MS: Final = 5_000
"""The engine may fail to freeze processes while they start others; then it is asked again for so long."""
AGAIN_MS: Final = 50
SLOW_TURNS_MS: Final = (800, 200)
"""Long: the engine takes a part of a second for each."""


class ComposeServers:
    """The servers of a project that runs (servers.Servers). Context manager: inside, its servers may be asked, by a process
    that has `environ`. One thread; `status` from a second one, too.
    """

    def __init__(self, project: str, folder: str) -> None:
        """`folder`: for the administrator's key. Raises InvalidParameter, RequirementMissing, ConfigError."""
        self._project = inspected_project(project)
        self._began_ms = now_ms()
        self._by_name = {server.name: server for server in self._project.servers}
        self._ended: set[str] = set()
        self._cut_off: set[str] = set()
        self._key = _administrator_key(self._project, folder)
        self._detours = {told: there for one in self._project.servers for told, there in one.detours.items()}

    def __enter__(self) -> Self:
        self._client = new_remoting(self._key, tuple(self.namesrv.split(",")))
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def replicas(self) -> int:
        """Of each group."""
        return min(map(len, self._project.groups.values()))

    @property
    def groups(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._project.groups)

    # ---- asked

    @property
    def where(self) -> str:
        """The project's name."""
        return self._project.name

    @property
    def slow_turns_ms(self) -> tuple[int, int]:
        """Long ones."""
        return SLOW_TURNS_MS

    @property
    def namesrv(self) -> str:
        """The name servers' true addresses."""
        return ",".join(server.address for server in self.listed(NAME_SERVER))

    def listed(self, role: str = "") -> list[ContainerRecord]:
        """The servers, of one role if it is given, in the order of a start."""
        return [server for server in self._project.servers if role in ("", server.role)]

    def status(self) -> Mapping[str, Any]:
        """The groups, and the leading controller, as they say themselves."""
        running = [one.address for one in self.listed(CONTROLLER) if self.is_running(one)]
        leader, states = ask_controllers(self._client, running)
        groups = []
        for name, brokers in self._project.groups.items():
            answers = {broker.name: self._statistics(broker) for broker in brokers}
            groups.append(group_document(name, brokers, answers, states.get(name, UNKNOWN), min_in_sync=1))
        return {"groups": groups, "controller": leader}

    @contextmanager
    def client(self) -> Iterator[RemotingClient]:
        """The same for the whole drill."""
        yield self._client

    def environ(self) -> dict[str, str]:
        """The detours, and the administrator's key."""
        found = {ENVIRONMENT_DETOURS: detours_text(self._detours)}
        return found | ({ENVIRONMENT_KEY: self._key} if self._key else {})

    def is_running(self, server: ServerRecord) -> bool:
        """Whether the drill has not ended it."""
        return server.name not in self._ended

    def differing_logs(self, _groups: Sequence[Group]) -> None:
        """Files of containers are not compared."""

    def keep_logs(self, folder: str) -> None:
        """Of each container, since the drill began."""
        for server in self._project.servers:
            text = docker_both("logs", "--timestamps", "--since", str(self._began_ms // 1000), server.container)
            with open(os.path.join(folder, f"{server.name}.log"), "wb") as file:
                file.write(text)

    def _statistics(self, broker: ContainerRecord) -> dict[str, Any] | None:
        return ask_json(self._client, broker.address, GetBrokerStatistics()) if self.is_running(broker) else None

    # ---- done

    def kill(self, servers: Sequence[ServerRecord]) -> None:
        """`docker kill`, after which no restart policy starts them."""
        self._ended.update(server.name for server in servers)
        docker("kill", *map(self._id, servers))
        docker("wait", *map(self._id, servers))

    def stop(self, server: ServerRecord) -> None:
        """`docker stop`."""
        self._ended.add(server.name)
        docker("stop", "-t", str(STOP_S), self._id(server))

    def wipe(self, server: ServerRecord) -> None:
        """Empties the store in its volume, by a container of the same image that has its volumes and user."""
        container = self._by_name[server.name]
        if not container.store_dir:
            raise InvalidParameter("server", server.name, "a broker with its store in a volume")
        inside = ("--entrypoint", "find", container.image, container.store_dir, "-mindepth", "1", "-delete")
        docker("run", "--rm", "--network", "none", "--volumes-from", container.container, *inside)

    def start_again(self) -> None:
        """`docker start` of what the drill has ended, in the order of a start."""
        ended = [server for server in self._project.servers if server.name in self._ended]
        if ended:
            docker("start", *map(self._id, ended))
        self._ended.clear()

    def pause(self, servers: Sequence[ServerRecord]) -> None:
        """`docker pause`."""
        self._until("pause", servers, "paused")

    def go_on(self, servers: Sequence[ServerRecord]) -> None:
        """`docker unpause`."""
        self._until("unpause", servers, "running")

    def cut_off(self, server: ServerRecord, deed: Deed) -> None:
        """`docker network disconnect`, of all its networks."""
        if deed is not Deed.CUT_BOTH:
            raise InvalidParameter("fault", deed.value, f"{Deed.CUT_BOTH.value}: a container's network goes as a whole")
        self._cut_off.add(server.name)
        for network in self._by_name[server.name].networks:
            docker("network", "disconnect", network, self._id(server))

    def join_again(self) -> None:
        """`docker network connect`, under the same names; then its ports are published as before."""
        for name in sorted(self._cut_off):
            container = self._by_name[name]
            there = _inspect([container.container])[0]["NetworkSettings"]["Networks"]
            for network, aliases in container.networks.items():
                if network not in there:
                    named = [word for alias in aliases for word in ("--alias", alias)]
                    docker("network", "connect", *named, network, container.container)
            self._cut_off.discard(name)

    def _until(self, command: str, servers: Sequence[ServerRecord], state: str) -> None:
        """Those whose state is another one, until none is; one that has ended is left as it is."""
        deadline_ms = monotonic_ms() + FREEZE_MS
        left = list(map(self._id, servers))
        while True:
            try:
                docker(command, *left)
                return
            except SystemFault:
                states = {one["Id"]: one["State"]["Status"] for one in _inspect(left)}
                left = [each for each in left if states[each] in {"running", "paused"} - {state}]
                if not left:
                    return
                if monotonic_ms() >= deadline_ms:
                    raise
            sleep_ms(AGAIN_MS)

    def _id(self, server: ServerRecord) -> str:
        return self._by_name[server.name].container


def inspected_project(name: str) -> ComposeProject:
    """The project, all of whose servers run. Raises InvalidParameter, RequirementMissing, ConfigError."""
    try:
        found = docker("ps", "--all", "--no-trunc", "--quiet", "--filter", f"label={PROJECT_LABEL}={name}")
    except SystemFault as error:
        raise RequirementMissing("an engine of containers that answers", error.what) from error
    project = project_of(name, _inspect(found.decode().split()))
    project.check()
    return project


def _inspect(containers: Sequence[str]) -> list[dict[str, Any]]:
    if not containers:
        return []
    documents: list[dict[str, Any]] = json.loads(docker("inspect", "--type", "container", *containers))
    return documents


def _administrator_key(project: ComposeProject, folder: str) -> str:
    """The path of a copy of the administrator's key, which lies beside the servers' own; "" if the cluster is not secured."""
    server = next((one for one in project.servers if one.key), None)
    if server is None:
        return ""
    inside = posixpath.join(posixpath.dirname(server.key), ADMINISTRATOR_KEY)
    try:
        packed = docker("cp", f"{server.container}:{inside}", "-")
    except SystemFault as error:
        expected = f"the administrator's key, beside that of {server.name}, as zenit key cluster makes it; {error.what}"
        raise InvalidParameter("key", inside, expected) from error
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        file = archive.extractfile(archive.next() or ADMINISTRATOR_KEY)
        content = file.read() if file is not None else b""
    path = os.path.join(folder, ADMINISTRATOR_KEY)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
        copy.write(content)
    return path
