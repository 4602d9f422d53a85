"""A cluster of real processes on this machine, in a directory: a name server, brokers, and what replicas need.

    DIR/cluster.json   the processes (cluster_record.py) DIR/cluster.lock   held during `up` and `down`
    DIR/log/NAME.log   the output of each process        DIR/NAME/          a broker's store, ZooKeeper's data and log
    ~/.zenit/last      the directory of the cluster that was started last, used by clients without an address

`up` starts what is down, on its old ports if they are still free; `down` ends processes by pid, and only ours. A process
counts as up when it answers requests. For the processes of a cluster see cluster_plan.py.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ..client.connection.controller_calls import ControllerCalls
from ..model.clock import monotonic_ms, sleep_ms
from ..model.errors import (
    ClusterNotStarted,
    ConnectionLost,
    InvalidParameter,
    NoCluster,
    RequestTimeout,
    StoreFormatError,
    ZenitError,
)
from ..model.new_cluster import new_cluster_id
from ..model.route import MASTER_ID
from ..proxy.config import PORTS_APART, VIP_BELOW
from ..proxy.installation import check_installed
from ..remoting.commands import GetBrokerStatistics, GetClusterInfo, GetController, Reply, RequestFor
from .cluster_keys import administrator, write_keys
from .cluster_plan import (
    HOST,
    arguments_of,
    asked_port,
    broker_port_of,
    check_settings,
    check_shape,
    choose_metrics_port,
    deciding_addresses,
    group_names,
    plan,
    replica_names,
    with_broker_port,
)
from .cluster_record import (
    BROKER,
    CONTROLLER,
    FILE_NAME,
    NAME_SERVER,
    PROXY,
    ZOOKEEPER,
    ClusterRecord,
    ProcessRecord,
    Shape,
    decode_record,
    encode_record,
)
from .cluster_status import ASK_TIMEOUT_MS, ask_json, force_wanted, status_document
from .embedded_zookeeper import find_jars, find_java, start_zookeeper
from .left_stores import check_left, left_cluster_id, left_shape, left_stores
from .port_choice import CONTROLLER_STEP, STEP, choose_port
from .processes import birth_of, is_ready, is_running, last_line, port_is_free, spawn, terminate
from .setting_check import check_planned
from .text_file import write_text

READY_TIMEOUT_MS: Final = 60_000
STOP_TIMEOUT_MS: Final = 20_000
LISTED_WAIT_MS: Final = (
    2_000  # for replicas that serve nobody: one that halted is not listed before an operator has acted
)
POLL_MS: Final = 30
LOCK_WAIT_MS: Final = 600_000  # longer than an `up` of many processes takes on a busy machine
PORT_TRIES: Final = 5
QUESTIONS: Final[Mapping[str, RequestFor[Reply]]] = {
    NAME_SERVER: GetClusterInfo(),
    CONTROLLER: GetController(),
    BROKER: GetBrokerStatistics(),
}
"""A request that a process of a role answers when it is up."""
KEYS: Final = "keys"  # the directory with the keys of a secured cluster
LAST_CLUSTER_FILE: Final = "~/.zenit/last"  # client/connection/cluster.py reads it

DAMAGED_RECORD: Final = (
    "end the cluster's processes if any run, move this file away, and run `zenit up` on the directory again, with the --set"
    " that it had: the stores say the rest"
)

Say = Callable[[str], None]


def last_directory() -> str | None:
    """The directory of the cluster that was started last on this machine; None if unknown or deleted."""
    try:
        with open(os.path.expanduser(LAST_CLUSTER_FILE), encoding="utf-8") as file:
            directory = file.read().strip()
    except OSError:
        return None
    return directory if os.path.exists(os.path.join(directory, FILE_NAME)) else None


class ProcessCluster:
    """The cluster of one directory. Any thread, one at a time; several processes take turns by the lock file."""

    def __init__(self, directory: str, *, say: Say = lambda _: None, ready_timeout_ms: int = READY_TIMEOUT_MS) -> None:
        self.directory = os.path.abspath(os.path.expanduser(directory))
        self._say = say
        self._ready_timeout_ms = ready_timeout_ms
        self._expected: Sequence[ProcessRecord] = ()  # all processes, while they are started

    # ---- for the CLI and tests

    def up(
        self,
        *,
        settings: Sequence[str] = (),
        shape: Shape | None = None,
        namesrv_port: int | None = None,
        secure: bool = False,
        proxy: bool = False,
    ) -> ClusterRecord:
        """Starts what is down and waits until it answers. `settings`: of the brokers, in the form for `--set`; stored for
        later. `shape`: None = unchanged, one broker for a new cluster. `namesrv_port`: stored for later, and never
        replaced by another one; None = unchanged. `secure`: with keys, users and rights; a secured cluster stays secured.
        `proxy`: with one; a cluster that had it has it again.

        Raises ClusterNotStarted with the last line of the log; then everything that this call started is stopped again, and
        the record is restored. Before anything is written: InvalidParameter for a setting that no broker has, or that is
        decided here, for a port that is taken, for another shape than the cluster's, and for keys while it runs without;
        ConfigError for the environment; RequirementMissing if ZooKeeper cannot run here.
        """
        self._planned(shape, settings, namesrv_port, secure=secure, proxy=proxy)
        os.makedirs(os.path.join(self.directory, "log"), exist_ok=True)
        with self._locked():
            found = self.read()
            if found is None and (stores := left_stores(self.directory)):
                self._say(f"no {FILE_NAME}: the cluster is what its stores say ({', '.join(stores)}); repeat its --set")
            before, planned = self._planned(shape, settings, namesrv_port, secure=secure, proxy=proxy)
            record, started, self._expected = before, list[ProcessRecord](), planned
            try:
                for process in planned:
                    if process.role == PROXY:  # it comes last
                        self._wait_serving(record)
                    record = self._up_process(before, record, process, started)
                write_keys(record, ())
                self._wait_serving(record)
            except BaseException:
                for process in reversed(started):
                    _stop(process)
                self._put_back(found, before, planned)
                raise
            write_text(os.path.expanduser(LAST_CLUSTER_FILE), self.directory + "\n")
            return record

    def _planned(
        self, shape: Shape | None, settings: Sequence[str], namesrv_port: int | None, *, secure: bool, proxy: bool
    ) -> tuple[ClusterRecord, list[ProcessRecord]]:
        """The record to start from and the wanted processes, after all checks that are possible before a start."""
        record = self._record_of(shape)
        if secure:
            if not record.keys and any(is_running(process.pid, process.birth) for process in record.processes):
                expected = f"a cluster that is down first: it runs without keys (zenit down --dir {self.directory})"
                raise InvalidParameter("--secure", self.directory, expected)
            record = replace(record, keys=os.path.join(self.directory, KEYS))
        check_settings(settings, record.shape)
        planned = plan(self.directory, record, settings, namesrv_port, proxy=proxy, environ=os.environ)
        if planned[-1].role == PROXY:
            check_installed()
        check_planned(record, planned, settings, os.environ)
        _check_asked_ports(record, planned, {NAME_SERVER: namesrv_port, BROKER: asked_port(settings)})
        if record.shape.has_controllers and not record.shape.zookeeper:
            find_java()
            find_jars()
        return record, planned

    def _put_back(self, found: ClusterRecord | None, before: ClusterRecord, planned: Sequence[ProcessRecord]) -> None:
        """Restores the old record. If a store was created it has the new cluster's id: then the new record is kept."""
        path = os.path.join(self.directory, FILE_NAME)
        if found is None and any(os.path.exists(process.store_dir) for process in planned if process.store_dir):
            found = before
        if found is not None:
            write_text(path, encode_record(found))
        elif os.path.exists(path):
            os.unlink(path)

    def down(self) -> list[ProcessRecord]:
        """Stops what runs, brokers before the name server; returns the stopped processes. Raises NoCluster."""
        self.existing()
        with self._locked():
            record = self.existing()
            ended = [process for process in reversed(record.processes) if is_running(process.pid, process.birth)]
            for process in ended:
                if _stop(process):
                    self._say(f"{process.name} did not stop within {STOP_TIMEOUT_MS // 1000} s and was killed")
            return ended

    def status(self) -> dict[str, Any]:
        """The document of `zenit status --json` (docs/operate.md). Raises NoCluster."""
        return status_document(self.existing())

    def first_dead(self) -> ProcessRecord | None:
        """A process of the record that has ended, or None."""
        record = self.existing()
        return next((p for p in record.processes if not is_running(p.pid, p.birth)), None)

    def read(self) -> ClusterRecord | None:
        """The record of this directory; None if there is none."""
        path = os.path.join(self.directory, FILE_NAME)
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return decode_record(file.read(), path)
        except FileNotFoundError:
            return None
        except StoreFormatError as error:
            raise StoreFormatError(path, f"{error.reason}; {DAMAGED_RECORD}") from error

    def existing(self) -> ClusterRecord:
        """The record of this directory. Raises NoCluster, also if no process was ever started."""
        record = self.read()
        if record is None or not record.processes:
            raise NoCluster(self.directory)
        return record

    def last_words(self, name: str) -> str:
        """The last line that a process printed."""
        return last_line(self.log_path(name)).removeprefix("zenit: ")

    def log_path(self, name: str) -> str:
        """The log file of a process."""
        if name == ZOOKEEPER:
            return os.path.join(self.directory, ZOOKEEPER, "zookeeper.log")
        return os.path.join(self.directory, "log", f"{name}.log")

    # ---- starting

    def _record_of(self, shape: Shape | None) -> ClusterRecord:
        """The record to start from. Raises InvalidParameter if there are brokers' stores of another shape."""
        record = self.read()
        if shape is not None:
            check_shape(shape)
        if record is None:
            shape = shape or left_shape(self.directory) or Shape()
            check_left(self.directory, shape)
            record = ClusterRecord(cluster="zenit", namesrv="", shape=shape)
        elif shape is not None and shape != record.shape:
            brokers = record.of_role(BROKER)
            if any(
                os.path.exists(broker.store_dir or "") or is_running(broker.pid, broker.birth) for broker in brokers
            ):
                has = f"{record.shape.replicas} replicas, {record.shape.groups} groups, {record.shape.controllers} controllers"
                raise InvalidParameter("--dir", self.directory, f"a directory for another cluster: this one has {has}")
            record = replace(record, shape=shape, processes=record.of_role(NAME_SERVER))
        cluster_id = record.cluster_id or left_cluster_id(self.directory) or new_cluster_id()
        return replace(record, cluster_id=cluster_id, zookeeper=record.shape.zookeeper or record.zookeeper)

    def _up_process(
        self, before: ClusterRecord, record: ClusterRecord, planned: ProcessRecord, started: list[ProcessRecord]
    ) -> ClusterRecord:
        """Starts a process that is down; restarts it if its settings have changed since its start."""
        if is_running(planned.pid, planned.birth):
            running = before.find(planned.role, planned.name)
            address = planned.address if running is None else running.address
            if arguments_of(before, replace(planned, address=address)) == arguments_of(record, planned):
                return record
            self._say(f"{planned.name}: restarted, since an address that it needs has changed")
            terminate(planned.pid, planned.birth, timeout_ms=STOP_TIMEOUT_MS)
        if planned.role == ZOOKEEPER:
            return self._start_zookeeper(record, planned, started)
        return self._start(record, planned, started)

    def _start_zookeeper(
        self, record: ClusterRecord, planned: ProcessRecord, started: list[ProcessRecord]
    ) -> ClusterRecord:
        with _ports_locked():
            port = choose_port(_port_of(planned), port_is_free, span=1)
            directory = planned.store_dir or ""
            server = start_zookeeper(directory, port, timeout_ms=self._ready_timeout_ms)
        process = replace(planned, pid=server.pid, birth=server.birth, address=server.address)
        started.append(process)
        record = replace(record.with_process(process), zookeeper=process.address)
        write_text(os.path.join(self.directory, FILE_NAME), encode_record(record))
        return record

    def _start(self, record: ClusterRecord, planned: ProcessRecord, started: list[ProcessRecord]) -> ClusterRecord:
        """Starts a process on its port, or the next free one, and waits until it answers.

        If another program binds a free port first, the process ends at once, and the next port is tried.
        """
        span, step = (1, CONTROLLER_STEP) if planned.role == CONTROLLER else (2, STEP)
        is_proxy = planned.role == PROXY
        with _ports_locked():
            for tries_left in reversed(range(PORT_TRIES)):
                port = asked_port(planned.settings) or choose_port(
                    _port_of(planned) - is_proxy, port_is_free, span=span, step=step
                )
                metrics = choose_metrics_port(record, planned, range(port, port + span), port_is_free)
                process = replace(planned, address=f"{HOST}:{port + is_proxy}", metrics=f"{HOST}:{metrics}")
                if is_proxy:
                    process = replace(self._standing(record, process), remoting=f"{HOST}:{port}")
                if process.role == NAME_SERVER:
                    record = replace(record, namesrv=process.address)
                write_keys(record.with_process(process), self._expected)
                process = self._spawn(process, arguments_of(record, process))
                started.append(process)
                record = record.with_process(process)
                write_text(os.path.join(self.directory, FILE_NAME), encode_record(record))
                answers = partial(_answers, record, process)
                try:
                    self._wait(process, answers, "does not answer")
                except ClusterNotStarted:
                    was_taken = not all(port_is_free(one) for one in (*range(port, port + span), metrics))
                    ended = not is_running(process.pid, process.birth)
                    if tries_left and was_taken and ended and asked_port(planned.settings) is None:
                        continue
                    raise
                return record
        raise AssertionError("the last try returns or raises")

    @staticmethod
    def _standing(record: ClusterRecord, proxy: ProcessRecord) -> ProcessRecord:
        """The proxy with ports that stand for the brokers of the cluster: its old ones, if they are free."""
        span = VIP_BELOW + PORTS_APART * (record.shape.groups - 1) + 1
        first = choose_port(broker_port_of(proxy) - VIP_BELOW, port_is_free, span=span)
        return with_broker_port(proxy, first + VIP_BELOW)

    def _spawn(self, process: ProcessRecord, settings: Sequence[str]) -> ProcessRecord:
        command = [sys.executable, "-P", "-m", "zenitmq", process.role]
        for setting in settings:
            command += ["--set", setting]
        pid = spawn(command, log_path=self.log_path(process.name), environ=os.environ)
        birth = birth_of(pid)
        if birth is None:
            raise self._not_started(process.name, "ended at once")
        return replace(process, pid=pid, birth=birth)

    def _wait_serving(self, record: ClusterRecord) -> None:
        """Waits until clients can send to every group, except groups that need an operator first."""
        for group in group_names(record.shape):
            brokers = [record.find(BROKER, name) for name in replica_names(group, record.shape)]
            first = brokers[0]
            assert first is not None
            self._wait(
                first,
                partial(self._is_served, record, group),
                "is not known to the name server, or no master is elected",
            )
        deadline_ms = monotonic_ms() + LISTED_WAIT_MS
        while not self._is_listed(record) and monotonic_ms() < deadline_ms:
            sleep_ms(POLL_MS)

    def _is_listed(self, record: ClusterRecord) -> bool:
        """Whether the name server lists every broker, so that a command to all of them finds all of them."""
        with administrator(record) as remoting:
            info = ask_json(remoting, record.namesrv, GetClusterInfo()) or {}
        listed = {broker["address"] for broker in info.get("brokers", ())}
        return listed.issuperset(broker.address for broker in record.of_role(BROKER))

    def _is_served(self, record: ClusterRecord, group: str) -> bool:
        """Whether the name server lists a master in its present incarnation, and enough replicas are in sync with it.

        A group whose node was lost or set back counts too, and one whose master an operator must force: `up` can only
        report them.
        """
        with administrator(record) as remoting:
            info = ask_json(remoting, record.namesrv, GetClusterInfo()) or {}
            masters = {broker["address"] for broker in info.get("brokers", ()) if broker["broker_id"] == MASTER_ID}
            if not record.shape.is_replicated:
                alone = record.find(BROKER, group)
                return alone is not None and alone.address in masters
            calls = ControllerCalls(remoting, deciding_addresses(record, group))
            try:
                state = calls.state(group, timeout_ms=ASK_TIMEOUT_MS)
            except ZenitError:
                return False
        if state.lost is not None:
            self._say(str(state.lost))
            return True
        assert state.known is not None
        node = state.known.node
        wanted = force_wanted(node)
        if wanted is not None:
            self._say(f"{group}: no master: {wanted}")
            return True
        master = node.replica(node.master or "")
        registered = {replica.name for replica in node.replicas}
        return (
            master is not None
            and master.incarnation == node.master_incarnation
            and master.address in masters
            and len(node.in_sync) >= node.settings.min_in_sync
            and registered >= set(replica_names(group, record.shape))
        )

    def _wait(self, process: ProcessRecord, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = monotonic_ms() + self._ready_timeout_ms
        while True:
            is_so = condition()
            if not is_running(process.pid, process.birth):  # then another process gave the answer
                raise self._not_started(process.name, "ended at start")
            if is_so:
                return
            if monotonic_ms() >= deadline:
                raise self._not_started(process.name, f"{otherwise} after {self._ready_timeout_ms} ms")
            sleep_ms(POLL_MS)

    def _not_started(self, name: str, what: str) -> ClusterNotStarted:
        line = self.last_words(name)
        return ClusterNotStarted(name, f"{what}: {line}" if line else what, self.log_path(name))

    # ---- files

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds DIR/cluster.lock; waits for another `up` or `down`, which have deadlines of their own."""
        with _file_locked(os.path.join(self.directory, "cluster.lock")):
            yield


@contextmanager
def _file_locked(path: str) -> Iterator[None]:
    """Raises ClusterNotStarted if another process holds it for LOCK_WAIT_MS."""
    deadline_ms = monotonic_ms() + LOCK_WAIT_MS
    with open(path, "w", encoding="utf-8") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic_ms() >= deadline_ms:
                    reason = f"waited {LOCK_WAIT_MS} ms for another `zenit up` or `down` that holds {path}"
                    raise ClusterNotStarted("the cluster", reason, path) from None
            sleep_ms(POLL_MS)
        yield


@contextmanager
def _ports_locked() -> Iterator[None]:
    """Lets only one process of this user choose ports at a time, until its processes have bound them.

    Otherwise two clusters that start together could both find a port free, and take the other's answer for their own.
    """
    with _file_locked(os.path.join(tempfile.gettempdir(), f"zenit-ports-{os.getuid()}.lock")):
        yield


def _check_asked_ports(
    record: ClusterRecord, planned: Sequence[ProcessRecord], asked: Mapping[str, int | None]
) -> None:
    """Raises InvalidParameter if a port requested for a role's process is taken, unless by that process itself."""
    for process in planned:
        port, running = asked.get(process.role), record.find(process.role, process.name)
        if port is None or port_is_free(port, HOST):
            continue
        if running is None or _port_of(running) != port or not is_running(running.pid, running.birth):
            name = "--namesrv-port" if process.role == NAME_SERVER else "--set port"
            raise InvalidParameter(name, port, "a free port; this one is taken by another process")


def _stop(process: ProcessRecord) -> bool:
    """With all others of its cluster, so that a broker has nobody to hand over to. True if it had to be killed."""
    is_broker = process.role == BROKER
    return terminate(process.pid, process.birth, timeout_ms=STOP_TIMEOUT_MS, hands_over=not is_broker)


def _port_of(process: ProcessRecord) -> int:
    return int(process.address.rpartition(":")[2])


def _answers(record: ClusterRecord, process: ProcessRecord) -> bool:
    """Whether a process answers yet."""
    if process.role == PROXY:
        return is_ready(process.metrics)
    with administrator(record) as remoting:
        try:
            remoting.call(process.address, QUESTIONS[process.role], timeout_ms=ASK_TIMEOUT_MS)
        except (ConnectionLost, RequestTimeout):
            return False
    return True
