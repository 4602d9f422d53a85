"""The servers of a drill as processes of this machine: started by `zenit up`, found by pid and start time.

`zenit up` runs in a process of its own with a home inside the directory, so that the user's last started cluster stays the
last one, and so that the drill's present environment and group id are inherited by the started processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ...client.connection.client_keys import ENVIRONMENT_KEY
from ...model.clock import sleep_ms
from ...model.errors import ClusterNotStarted, InvalidParameter, NoCluster, RequestTimeout
from ...remoting.client import RemotingClient
from ..cluster_keys import ADMINISTRATOR, administrator
from ..cluster_plan import key_path
from ..cluster_record import BROKER, ProcessRecord, ServerRecord
from ..local_cluster import ProcessCluster
from ..processes import is_running, terminate, wait_ended
from .catalogue import Deed
from .faults import partition
from .log_compare import differences
from .servers import Group

UP_TIMEOUT_S: Final = 180
END_S: Final = 20  # for an interrupted `up` to stop what it started
STOP_MS: Final = 20_000
ENDED_MS: Final = 10_000
LOOK_AGAIN_MS: Final = 1_000
SLOW_TURNS_MS: Final = (40, 10)


class ProcessServers:
    """A cluster of processes (servers.Servers). One thread.

    `library`: added to the environment of what is started. `is_apart`: the network's rules can distinguish brokers.
    """

    def __init__(
        self,
        directory: str,
        *,
        replicas: int,
        controllers: int = 1,
        groups: int = 1,
        settings: Sequence[str] = (),
        is_given: bool = False,
        secure: bool = False,
    ) -> None:
        """`replicas`: of each of `groups`.

        `controllers`: 0 = a static master. `settings`: of the brokers, in the form for `--set`. `is_given`: it runs
        already, and is left running. `secure`: with keys and users.
        """
        self.directory = os.path.abspath(directory)
        self.is_given = is_given
        self.is_apart = False
        self.library: Mapping[str, str] = {}
        self._replicas, self._controllers, self._groups = replicas, controllers, groups
        self._settings = tuple(settings)
        self._secure = secure
        self._local = ProcessCluster(self.directory)
        self._started: tuple[ProcessRecord, ...] = ()

    # ---- up and down

    def up(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Starts what is down and waits until it answers. `meanwhile`: called after the start has begun.

        Raises ClusterNotStarted, RequestTimeout.
        """
        command = [sys.executable, "-P", "-m", "zenitmq", "up", "--dir", self.directory, "--detach"]
        if self._secure:
            command.append("--secure")
        if self._replicas > 1:
            command += ["--replicas", str(self._replicas)]
            command += ["--controllers", str(self._controllers)] if self._controllers else ["--no-controller"]
        if self._groups > 1:
            command += ["--groups", str(self._groups)]
        for setting in self._settings:
            command += ["--set", setting]
        environment = {**os.environ, **self.library}
        if not self.is_given:
            environment["HOME"] = self.directory
        try:
            with subprocess.Popen(  # noqa: S603 (our own interpreter and module)
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            ) as child:
                try:
                    meanwhile()
                    _, told = child.communicate(timeout=UP_TIMEOUT_S)
                except BaseException:
                    _end(child)
                    raise
        except subprocess.TimeoutExpired as error:
            raise RequestTimeout("zenit up", UP_TIMEOUT_S * 1000) from error
        if child.returncode:
            said = told.strip().splitlines() or [f"exit code {child.returncode}"]
            reason = f"did not start: {said[-1].removeprefix('zenit: ')}"
            raise ClusterNotStarted("the drill's cluster", reason, os.path.join(self.directory, "log"))
        self._started = self._local.existing().processes

    def down(self) -> None:
        """Stops the cluster, unless it was given; from our own list of processes if its record is unreadable."""
        if self.is_given:
            return
        try:
            with suppress(NoCluster):  # an interrupted `up` has stopped all that it started
                self._local.down()
        finally:
            for process in reversed(self._started):
                terminate(process.pid, process.birth, timeout_ms=STOP_MS, hands_over=process.role != BROKER)

    def start_apart(self, wait_healthy: Callable[[], None]) -> None:
        """Restarts each broker with a group id of its own, and marks its connections, so that it can be cut off."""
        brokers = self.listed(BROKER)
        partition.set_up(len(brokers))
        for broker in brokers:
            self.restart_apart(broker.name)
            wait_healthy()
        self.is_apart = True

    def restart_apart(self, name: str) -> None:
        """Restarts a broker with its own group id."""
        broker = self.process(name)
        terminate(broker.pid, broker.birth, timeout_ms=STOP_MS)
        with partition.started_as(self.listed(BROKER), name):
            self.up()

    # ---- asked

    @property
    def where(self) -> str:
        """The cluster's directory."""
        return self.directory

    @property
    def slow_turns_ms(self) -> tuple[int, int]:
        """Short: a process hears a signal at once."""
        return SLOW_TURNS_MS

    @property
    def namesrv(self) -> str:
        """The name server's address."""
        return self._local.existing().namesrv

    def listed(self, role: str = "") -> list[ProcessRecord]:
        """The processes, of one role if it is given, in the order of their start."""
        return [process for process in self._local.existing().processes if role in ("", process.role)]

    def process(self, name: str) -> ProcessRecord:
        """The process with this name, as recorded now. Raises InvalidParameter."""
        found = next((process for process in self._local.existing().processes if process.name == name), None)
        if found is None:
            raise InvalidParameter("process", name, f"one of the cluster in {self.directory}")
        return found

    def status(self) -> Mapping[str, Any]:
        """The document of `zenit status --json`."""
        return self._local.status()

    def client(self) -> RemotingClient:
        """A client that may ask all processes everything."""
        return administrator(self._local.existing())

    def environ(self) -> dict[str, str]:
        """The administrator's key, of a secured cluster."""
        record = self._local.existing()
        return {ENVIRONMENT_KEY: key_path(record, ADMINISTRATOR)} if record.keys else {}

    def is_running(self, server: ServerRecord) -> bool:
        """Whether its process runs."""
        process = self.process(server.name)
        return is_running(process.pid, process.birth)

    def differing_logs(self, groups: Sequence[Group]) -> list[str]:
        """Replicas of a group whose logs differ, byte for byte, as text; call it when they are level. Raises OSError.

        The logs are read one after the other, and a master may append by itself in between (the end of a lease, a client's
        offsets): what differs has to differ from the same byte on when it is read again.
        """
        found = self._differences(groups)
        if found:
            sleep_ms(LOOK_AGAIN_MS)
            again = self._differences(groups)
            found = [text for text in found if text in again]
        return found

    def keep_logs(self, folder: str) -> None:
        """They are in the cluster's directory."""

    def _differences(self, groups: Sequence[Group]) -> list[str]:
        stores = {process.name: process.store_dir or "" for process in self.listed(BROKER)}
        return [
            text
            for group in groups
            for text in differences({each["name"]: stores[each["name"]] for each in group["replicas"]})
        ]

    # ---- done

    def kill(self, servers: Sequence[ServerRecord]) -> None:
        """kill -9 of exactly those processes. Raises RequestTimeout."""
        processes = [self.process(server.name) for server in servers]
        _send(processes, signal.SIGKILL)  # all of them first, so that they end at almost the same moment
        for process in processes:
            if not wait_ended(process.pid, process.birth, timeout_ms=ENDED_MS):
                raise RequestTimeout(f"the end of {process.name}", ENDED_MS)

    def stop(self, server: ServerRecord) -> None:
        """SIGTERM; SIGKILL if that is not enough."""
        process = self.process(server.name)
        terminate(process.pid, process.birth, timeout_ms=STOP_MS)

    def wipe(self, server: ServerRecord) -> None:
        """Removes the store."""
        process = self.process(server.name)
        if process.store_dir is None:
            raise InvalidParameter("process", process.name, "one that has a store")
        shutil.rmtree(process.store_dir)

    def start_again(self) -> None:
        """Starts what is down, by `zenit up`; brokers that are apart each with its own group id again.

        `zenit up` starts all that is down at once, so if there are several, all but the first are then restarted.
        """
        if self.is_apart:
            for name in [broker.name for broker in self.listed(BROKER) if not self.is_running(broker)]:
                self.restart_apart(name)
        self.up()

    def pause(self, servers: Sequence[ServerRecord]) -> None:
        """SIGSTOP."""
        _send([self.process(server.name) for server in servers], signal.SIGSTOP)

    def go_on(self, servers: Sequence[ServerRecord]) -> None:
        """SIGCONT."""
        _send([self.process(server.name) for server in servers], signal.SIGCONT)

    def cut_off(self, server: ServerRecord, deed: Deed) -> None:
        """By rules of the network, until `join_again`."""
        if not self.is_apart:
            raise InvalidParameter("fault", deed.value, "a cluster that the drill itself started for partitions")
        partition.cut_off(self.listed(BROKER), server, deed)

    def join_again(self) -> None:
        """Removes the rules."""
        if self.is_apart:
            partition.mend()


def _send(processes: Sequence[ProcessRecord], number: signal.Signals) -> None:
    for process in processes:
        if is_running(process.pid, process.birth):
            os.kill(process.pid, number)


def _end(child: subprocess.Popen[str]) -> None:
    """Makes `zenit up` stop what it started, and waits, because it holds the cluster's lock. Kills it if it does not end."""
    child.terminate()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(END_S)
