"""A secured cluster of separate containers, reached by published ports of 127.0.0.1; a test kills, pauses and cuts them off."""

from __future__ import annotations

import http.client
import io
import os
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import docker
from docker.models.containers import Container
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from zenitmq import Admin
from zenitmq.client.connection.client_keys import forget_key, remember_key
from zenitmq.remoting.addresses import add_detours, detours_text, remove_detours
from zenitmq.testing.containers import free_ports
from zenitmq.testing.local_cluster import SMALL_STORE

WAIT_S = 60.0
LOOK_S = 0.1
STOP_S = 30  # as docs/containers.md tells users to give a broker
KEYS, STORE = "/etc/zenit", "/var/lib/zenit"
NAME_SERVERS = ("namesrv-1", "namesrv-2")
CONTROLLERS = ("controller-1", "controller-2")
BROKERS = ("broker-a-1", "broker-a-2", "broker-a-3")
PORTS = {"namesrv": (9876, 9877), "controller": (9878,), "broker": (10911,)}
METRICS = 9880


def wait_until(holds: Callable[[], object], what: str, timeout: float = WAIT_S) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        threading.Event().wait(LOOK_S)


class ContainerCluster:
    """Context manager: entered, every replica is in sync; left, no container, network or volume of it is there."""

    def __init__(self, image: str, zookeeper_image: str) -> None:
        self._image, self._zookeeper_image = image, zookeeper_image
        self._engine = docker.from_env()
        self._stack = ExitStack()
        self._network = Network()
        self._keys = f"{self._network.name}-keys"
        self._detours: dict[str, str] = {}
        self._ports: dict[str, dict[int, int]] = {}
        self._key_file = ""
        self._of: dict[str, DockerContainer] = {}
        self.namesrv = ",".join(f"{name}:9876" for name in NAME_SERVERS)

    def __enter__(self) -> Self:
        with ExitStack() as started:
            started.callback(self._engine.close)
            started.enter_context(self._network)
            self._volume(self._keys, started)
            for name in BROKERS:
                self._volume(self._store_of(name), started)
            self._make_keys(started)
            started.callback(self._stop_all)
            self._start_zookeeper()
            for name in (*NAME_SERVERS, *CONTROLLERS, *BROKERS):
                self.start(name)
            add_detours(self._detours)
            started.callback(remove_detours, self._detours)
            servers = tuple(self.namesrv.split(","))
            remember_key(servers, self._key_file)
            started.callback(forget_key, servers)
            self.wait_healthy()
            self._stack = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def environ(self) -> dict[str, str]:
        """For a program that is to find it."""
        return {
            **os.environ,
            "ZENIT_NAMESRV": self.namesrv,
            "ZENIT_KEY": self._key_file,
            "ZENIT_DETOURS": detours_text(self._detours),
        }

    def create_topic(self, topic: str, *, queues: int = 4) -> str:
        with Admin(self.namesrv) as admin:
            admin.create_topic(topic, queues=queues)
        return topic

    # ---- what is told of health

    def health(self, name: str) -> str:
        """What the server says of itself: "ready: master"; "" if it does not answer."""
        with suppress(OSError, http.client.HTTPException), ExitStack() as opened:
            probe = http.client.HTTPConnection("127.0.0.1", self._ports[name][METRICS], timeout=1)
            opened.callback(probe.close)
            probe.request("GET", "/readyz")
            return probe.getresponse().read().decode().strip()
        return ""

    def masters(self) -> list[str]:
        return [name for name in BROKERS if self.health(name) == "ready: master"]

    def wait_master(self, *, other_than: str = "") -> str:
        """The name of the master, once there is one."""
        wait_until(lambda: set(self.masters()) - {other_than}, "a master")
        return next(name for name in self.masters() if name != other_than)

    def wait_healthy(self) -> None:
        """One master, the others in sync."""

        def holds() -> bool:
            told = [self.health(name) for name in BROKERS]
            return told.count("ready: master") == 1 and sum(each.startswith("ready: slave") for each in told) == 2

        try:
            wait_until(holds, "one master and two slaves in sync")
        except AssertionError as error:
            error.add_note("\n".join(f"{name}: {self.health(name) or self.last_lines(name)}" for name in self._of))
            raise

    def last_lines(self, name: str) -> str:
        return str(self.container(name).logs(tail=5).decode(errors="replace"))

    def container(self, name: str) -> Container:
        return self._of[name].get_wrapped_container()

    # ---- what may happen to it

    def kill(self, name: str) -> None:
        self.container(name).kill()

    def start_again(self, name: str) -> None:
        self.container(name).start()

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        self.container(name).pause()
        try:
            yield
        finally:
            self.container(name).unpause()

    @contextmanager
    def cut_off(self, name: str) -> Iterator[None]:
        """Within, it has no network."""
        network = self._engine.networks.get(self._network.name)
        network.disconnect(self.container(name))
        try:
            yield
        finally:
            network.connect(self.container(name), aliases=[name])

    def lose_volume(self, name: str) -> None:
        """Its container and store are gone; another container comes with an empty one."""
        self._of.pop(name).stop()
        self._engine.volumes.get(self._store_of(name)).remove()
        self._engine.volumes.create(self._store_of(name))
        self.start(name)

    def replace(self, name: str) -> None:
        """Its container ends as an orchestrator ends one; another comes with the same store."""
        self.container(name).stop(timeout=STOP_S)
        self._of.pop(name).stop()
        self.start(name)

    # ---- how it is made

    def start(self, name: str) -> None:
        """Without the image's health check, which starts a process every few seconds; `health` asks from outside."""
        role = name.partition("-")[0]
        settings = [f"security.key={KEYS}/{name}.key", f"security.trusted={KEYS}/trusted.toml"]
        if role == "controller":
            settings += [f"host={name}", "zookeeper=zookeeper-1:2181", f"zookeeper_login={KEYS}/zookeeper.login"]
            settings.append("new_group.replicas=3")
        elif role == "broker":
            controllers = ",".join(f"{each}:9878" for each in CONTROLLERS)
            settings += ["name=broker-a", f"replica={name}", f"advertised_host={name}", f"namesrv={self.namesrv}"]
            settings += [f"controllers={controllers}", *SMALL_STORE]
        made = self._new(name, self._image, [role, *(word for each in settings for word in ("--set", each))])
        made.with_volume_mapping(self._keys, KEYS, "ro")
        if role == "broker":
            made.with_volume_mapping(self._store_of(name), STORE, "rw")
        made.with_kwargs(init=True, read_only=True, cap_drop=["ALL"], healthcheck={"test": ["NONE"]})
        made.with_tmpfs_mount("/tmp")
        self._publish(made, name, (*PORTS[role], METRICS))
        made.start()
        self._of[name] = made

    def _start_zookeeper(self) -> None:
        made = self._new("zookeeper-1", self._zookeeper_image, None)
        made.with_env("ZOO_TICK_TIME", "500")
        made.start()
        self._of["zookeeper-1"] = made

    def _new(self, name: str, image: str, command: list[str] | None) -> DockerContainer:
        made = DockerContainer(image).with_network(self._network).with_network_aliases(name)
        return made if command is None else made.with_command(command)

    def _publish(self, made: DockerContainer, name: str, ports: tuple[int, ...]) -> None:
        """At the same ports when it comes back."""
        if name not in self._ports:
            self._ports[name] = dict(zip(ports, free_ports(len(ports)), strict=True))
            self._detours.update({f"{name}:{inside}": f"127.0.0.1:{at}" for inside, at in self._ports[name].items()})
        made.ports = {str(inside): ("127.0.0.1", at) for inside, at in self._ports[name].items()}

    def _store_of(self, name: str) -> str:
        return f"{self._network.name}-{name}"

    def _volume(self, name: str, started: ExitStack) -> None:
        self._engine.volumes.create(name)
        started.callback(lambda: self._engine.volumes.get(name).remove(force=True))

    def _make_keys(self, started: ExitStack) -> None:
        servers = [f"{name}={name}:9876" for name in NAME_SERVERS] + [f"{name}={name}:9878" for name in CONTROLLERS]
        command = ["key", "cluster", KEYS, *servers, *(f"broker-a/{name}" for name in BROKERS)]
        maker = self._engine.containers.create(
            self._image, command, volumes={self._keys: {"bind": KEYS, "mode": "rw"}}, network_mode="none"
        )
        try:
            maker.start()
            assert maker.wait(timeout=WAIT_S)["StatusCode"] == 0, maker.logs().decode()
            packed, _ = maker.get_archive(f"{KEYS}/admin.key")
        finally:
            maker.remove(force=True, v=True)
        with tarfile.open(fileobj=io.BytesIO(b"".join(packed))) as archive:
            file = archive.extractfile("admin.key")
            assert file is not None
            text = file.read()
        folder = started.enter_context(tempfile.TemporaryDirectory())
        self._key_file = str(Path(folder, "admin.key"))
        Path(self._key_file).touch(mode=0o600)
        Path(self._key_file).write_bytes(text)

    def _stop_all(self) -> None:
        for made in reversed(self._of.values()):
            made.stop()
