"""A cluster of real processes for a test: a directory of its own, free ports, gone afterwards.

It is what `zenit up` starts, so a test may do to it what happens to clusters: kill a broker, stop one for a while, bring
back what is down. The cluster that a user started last on this machine stays the last one.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Self

from ..client.admin import Admin
from ..client.connection.client_keys import ENVIRONMENT_KEY, forget_key, remember_key
from ..deploy.cluster_keys import ADMINISTRATOR
from ..deploy.cluster_record import ProcessRecord
from ..deploy.drills.drilled_cluster import HEALTHY_MS, DrilledCluster
from ..deploy.drills.process_servers import ProcessServers
from ..deploy.local_cluster import KEYS
from ..deploy.processes import is_running, stand_still
from ..model.clock import monotonic_ms
from ..model.errors import ClientClosed, ConnectionLost, InvalidParameter, WrongCluster

SECURE_ENVIRONMENT: Final = "ZENIT_TEST_SECURE"
SMALL_STORE: Final = ("store.segment_bytes=16777216", "store.index_slots=4096", "store.index_entries=16384")
"""A few dozen MiB a broker instead of some GiB."""


class LocalCluster:
    """Context manager: entered, the cluster is up and every replica in sync; left, it is gone. One thread."""

    def __init__(
        self,
        *,
        replicas: int = 1,
        controllers: int = 1,
        directory: str | None = None,
        settings: Sequence[str] = SMALL_STORE,
        secure: bool | None = None,
    ) -> None:
        """`directory`: where it lives, and stays with its data; None = a temporary one, removed in the end.

        `settings`: of the brokers, as `zenit up --set` takes them. `controllers`: from two replicas on; 0 = the
        first replica is the master, always. `secure`: with keys, users and rights; clients of this process that name
        no key come as the administrator. None = only where $ZENIT_TEST_SECURE is set.
        """
        self._secure = bool(os.environ.get(SECURE_ENVIRONMENT)) if secure is None else secure
        self._replicas, self._controllers = replicas, controllers
        self._settings = tuple(settings)
        self._directory = directory
        self._cluster: DrilledCluster | None = None
        self._servers: ProcessServers | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as started:
            directory = self._directory
            if directory is None:
                directory = tempfile.mkdtemp(prefix="zenit-test-")
                started.callback(shutil.rmtree, directory, ignore_errors=True)
            servers = ProcessServers(
                directory,
                replicas=self._replicas,
                controllers=self._controllers,
                settings=self._settings,
                secure=self._secure,
            )
            started.callback(servers.down)
            servers.up()
            cluster = DrilledCluster(servers, replicas=self._replicas)
            cluster.wait_healthy()
            self._cluster, self._servers = cluster, servers
            if self._secure:
                name_servers = (cluster.namesrv,)
                remember_key(name_servers, self.key())
                started.callback(forget_key, name_servers)
            self._stack = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster = self._servers = None
        self._stack.close()

    # ---- where things are

    @property
    def namesrv(self) -> str:
        """The name server's address, as `namesrv=` takes it."""
        return self._running.namesrv

    def key(self, user: str = ADMINISTRATOR) -> str:
        """The key file of a user, as `key=` takes it. Raises InvalidParameter if the cluster is not secured."""
        if not self._secure:
            raise InvalidParameter("key", user, "a secured cluster: LocalCluster(secure=True)")
        return os.path.join(self.directory, KEYS, f"{user}.key")

    @property
    def environ(self) -> dict[str, str]:
        """The environment for a program that is to find this cluster: this process's, $ZENIT_NAMESRV, and $ZENIT_KEY with
        the administrator's key of a secured one."""
        environ = {**os.environ, "ZENIT_NAMESRV": self.namesrv}
        environ.pop(ENVIRONMENT_KEY, None)
        return environ | ({ENVIRONMENT_KEY: self.key()} if self._secure else {})

    @property
    def directory(self) -> str:
        """Where the cluster lives: a store in DIR/NAME for each broker, what NAME printed in DIR/log/NAME.log."""
        return self._processes.directory

    @property
    def brokers(self) -> list[str]:
        """The names of the brokers."""
        return [process.name for process in self._running.brokers()]

    @property
    def master(self) -> str:
        """The name of the group's master; waits until there is one. Raises RequestTimeout."""
        return self._running.master().name

    def process(self, name: str) -> ProcessRecord:
        """The process of that name: role, pid, address, store_dir. Raises InvalidParameter."""
        return self._processes.process(name)

    def group(self) -> dict[str, Any]:
        """The replica group as `zenit status --json` shows it."""
        return dict(self._running.group())

    def create_topic(self, topic: str, *, queues: int = 4) -> str:
        """Creates a topic and returns its name once clients can find it."""
        deadline_ms = monotonic_ms() + HEALTHY_MS
        while True:
            with Admin(self.namesrv) as admin:
                try:
                    admin.create_topic(topic, queues=queues)
                except (ConnectionLost, WrongCluster):
                    # This process has a connection to the cluster that was at these addresses before; it is given up now.
                    if monotonic_ms() > deadline_ms:
                        raise
                else:
                    return topic

    # ---- what may happen to it

    def kill(self, name: str) -> None:
        """kill -9 of a process; returns once it is gone."""
        self._processes.kill([self.process(name)])

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Within, a process stands still (SIGSTOP); afterwards it goes on as if nothing had been."""
        process = self.process(name)
        stand_still(process.pid)
        try:
            yield
        finally:
            if is_running(process.pid, process.birth):
                os.kill(process.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Starts whatever is down, and waits until every replica is in sync. Raises ClusterNotStarted, RequestTimeout."""
        self._processes.up()
        self._running.wait_healthy()

    def wait_healthy(self, timeout: float = HEALTHY_MS / 1000) -> None:
        """Waits at most so many seconds until there is a master and every replica is in sync. Raises RequestTimeout."""
        self._running.wait_healthy(round(timeout * 1000))

    @property
    def _running(self) -> DrilledCluster:
        if self._cluster is None:
            raise ClientClosed("cluster")
        return self._cluster

    @property
    def _processes(self) -> ProcessServers:
        if self._servers is None:
            raise ClientClosed("cluster")
        return self._servers
