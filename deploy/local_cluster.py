"""A cluster of real processes on this machine: one name server and one broker in a directory.

    DIR/cluster.json   who runs (cluster_record.py)      DIR/cluster.lock   held while `up` or `down` is at work
    DIR/log/NAME.log   what each process printed         DIR/NAME/          a broker's store
    ~/.zenit/last      the directory of the cluster that was started last, where clients without an address look

`up` starts what is down, on the ports it had if they are still free; `down` ends by pid and only what is ours. A
process counts as up once it answers requests, not once it runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ..model.clock import monotonic_ms, sleep_ms
from ..model.errors import ClusterNotStarted, ConnectionLost, InvalidParameter, NoCluster, RequestTimeout
from ..remoting.client import RemotingClient
from ..remoting.commands import GetBrokerStatistics, GetClusterInfo, Request
from .cluster_record import BROKER, FILE_NAME, NAME_SERVER, ClusterRecord, ProcessRecord, decode_record, encode_record
from .port_choice import BROKER_PORT, NAME_SERVER_PORT, choose_port
from .processes import birth_of, is_running, last_line, port_is_free, spawn, terminate

READY_TIMEOUT_MS: Final = 60_000
STOP_TIMEOUT_MS: Final = 20_000
PROBE_TIMEOUT_MS: Final = 1_000
POLL_MS: Final = 30
PORT_TRIES: Final = 5
DECIDED_HERE: Final = ("cluster", "name", "host", "namesrv", "store_dir")
HOST: Final = "127.0.0.1"
LAST_CLUSTER_FILE: Final = "~/.zenit/last"  # client/cluster.py reads it

Say = Callable[[str], None]


def last_directory() -> str | None:
    """Where the cluster lives that was started last on this machine; None where that is not known or no longer there."""
    try:
        with open(os.path.expanduser(LAST_CLUSTER_FILE), encoding="utf-8") as file:
            directory = file.read().strip()
    except OSError:
        return None
    return directory if os.path.exists(os.path.join(directory, FILE_NAME)) else None


class LocalCluster:
    """The cluster of one directory. Any thread, one at a time; several processes take turns by the lock file."""

    def __init__(self, directory: str, *, say: Say = lambda _: None, ready_timeout_ms: int = READY_TIMEOUT_MS) -> None:
        self.directory = os.path.abspath(os.path.expanduser(directory))
        self._say = say
        self._ready_timeout_ms = ready_timeout_ms

    # ---- what the CLI and tests call

    def up(self, *, settings: Sequence[str] = ()) -> ClusterRecord:
        """Starts what is down and waits until it answers. `settings`: the broker's, as `--set` takes them; kept for later.

        Raises ClusterNotStarted with the last line of the log; what this call had started is then stopped again.
        InvalidParameter for a setting that is decided here.
        """
        check_settings(settings)
        os.makedirs(os.path.join(self.directory, "log"), exist_ok=True)
        with self._locked():
            record = self.read() or ClusterRecord(cluster="zenit", namesrv="")
            started: list[ProcessRecord] = []
            try:
                record = self._up_name_server(record, started)
                record = self._up_broker(record, started, tuple(settings))
            except BaseException:
                for process in reversed(started):
                    terminate(process.pid, process.birth, timeout_ms=STOP_TIMEOUT_MS)
                raise
            _write_text(os.path.expanduser(LAST_CLUSTER_FILE), self.directory + "\n")
            return record

    def down(self) -> list[ProcessRecord]:
        """Ends what runs, brokers before the name server; returns what was ended. Raises NoCluster."""
        if self.read() is None:
            raise NoCluster(self.directory)
        with self._locked():
            record = self.existing()
            ended = [process for process in reversed(record.processes) if is_running(process.pid, process.birth)]
            for process in ended:
                if terminate(process.pid, process.birth, timeout_ms=STOP_TIMEOUT_MS):
                    self._say(f"{process.name} did not stop within {STOP_TIMEOUT_MS // 1000} s and was killed")
            return ended

    def status(self) -> dict[str, Any]:
        """The document of `zenit status --json` (docs/operate.md). Raises NoCluster."""
        record = self.existing()
        processes, groups = [], []
        for process in record.processes:
            up = is_running(process.pid, process.birth)
            entry: dict[str, Any] = {"role": process.role, "name": process.name, "pid": process.pid}
            entry |= {"address": process.address, "up": up}
            if process.store_dir is not None:
                entry["store_dir"] = process.store_dir
            processes.append(entry)
            if process.role == BROKER:
                groups.append(_group_status(process, _ask(process.address, GetBrokerStatistics()) if up else None))
        return {"cluster": record.cluster, "namesrv": record.namesrv, "processes": processes, "groups": groups}

    def first_dead(self) -> ProcessRecord | None:
        """A process of the record that does not run any more, or None."""
        record = self.existing()
        return next((p for p in record.processes if not is_running(p.pid, p.birth)), None)

    def read(self) -> ClusterRecord | None:
        """The record of this directory; None where there is none."""
        path = os.path.join(self.directory, FILE_NAME)
        try:
            with open(path, encoding="utf-8") as file:
                return decode_record(file.read(), path)
        except FileNotFoundError:
            return None

    def existing(self) -> ClusterRecord:
        """The record of this directory. Raises NoCluster."""
        record = self.read()
        if record is None:
            raise NoCluster(self.directory)
        return record

    def last_words(self, name: str) -> str:
        """The last line that a process printed."""
        return last_line(self.log_path(name)).removeprefix("zenit: ")

    def log_path(self, name: str) -> str:
        """Where a process prints to."""
        return os.path.join(self.directory, "log", f"{name}.log")

    # ---- starting

    def _up_name_server(self, record: ClusterRecord, started: list[ProcessRecord]) -> ClusterRecord:
        before = record.find(NAME_SERVER, "namesrv-1")
        if before is not None and is_running(before.pid, before.birth):
            return record
        planned = before or ProcessRecord(role=NAME_SERVER, name="namesrv-1", address=f"{HOST}:{NAME_SERVER_PORT}")
        return self._start(record, planned, started, GetClusterInfo())

    def _up_broker(
        self, record: ClusterRecord, started: list[ProcessRecord], settings: tuple[str, ...]
    ) -> ClusterRecord:
        name = "broker-a"
        before = record.find(BROKER, name)
        if before is not None and is_running(before.pid, before.birth):
            if not started:
                return record
            # The name server was down and may have moved: a broker that looks for it elsewhere is started anew.
            self._say(f"{name}: restarted, to register with the new name server")
            terminate(before.pid, before.birth, timeout_ms=STOP_TIMEOUT_MS)
        planned = before or ProcessRecord(
            role=BROKER,
            name=name,
            address=f"{HOST}:{BROKER_PORT}",
            store_dir=os.path.join(self.directory, name),
        )
        record = self._start(
            record, replace(planned, settings=settings or planned.settings), started, GetBrokerStatistics()
        )
        self._wait_registered(record.processes[-1], record.namesrv)
        return record

    def _start(
        self, record: ClusterRecord, planned: ProcessRecord, started: list[ProcessRecord], question: Request
    ) -> ClusterRecord:
        """Starts a process on its port, or the next free one, and waits until it answers `question`.

        Somebody else may be quicker to bind a port that was free: then it ends at once, and the next one is tried.
        """
        with _ports_locked():
            for tries_left in reversed(range(PORT_TRIES)):
                port = asked_port(planned.settings) or choose_port(_port_of(planned), port_is_free)
                process = replace(planned, address=f"{HOST}:{port}")
                if process.role == NAME_SERVER:
                    record = replace(record, namesrv=process.address)
                process = self._spawn(process, arguments_of(record, process))
                started.append(process)
                record = record.with_process(process)
                _write_text(os.path.join(self.directory, FILE_NAME), encode_record(record))
                try:
                    self._wait(process, partial(_answers, process.address, question), "does not answer")
                except ClusterNotStarted:
                    was_taken = not (port_is_free(port) and port_is_free(port + 1))
                    ended = not is_running(process.pid, process.birth)
                    if tries_left and was_taken and ended and asked_port(planned.settings) is None:
                        continue
                    raise
                return record
        raise AssertionError("the last try returns or raises")

    def _spawn(self, process: ProcessRecord, settings: Sequence[str]) -> ProcessRecord:
        command = [sys.executable, "-P", "-m", "zenitmq", process.role]
        for setting in settings:
            command += ["--set", setting]
        pid = spawn(command, log_path=self.log_path(process.name), environ=os.environ)
        birth = birth_of(pid)
        if birth is None:
            raise self._not_started(process.name, "ended at once")
        return replace(process, pid=pid, birth=birth)

    def _wait_registered(self, process: ProcessRecord, namesrv: str) -> None:
        """Until the name server tells clients of the broker."""

        def registered() -> bool:
            info = _ask(namesrv, GetClusterInfo()) or {}
            return any(broker["address"] == process.address for broker in info.get("brokers", ()))

        self._wait(process, registered, "is not known to the name server")

    def _wait(self, process: ProcessRecord, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = monotonic_ms() + self._ready_timeout_ms
        while True:
            is_so = condition()
            if not is_running(process.pid, process.birth):  # then the answer came from somebody else
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
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _ports_locked() -> Iterator[None]:
    """Only one process of this user chooses ports at a time, until what it started has bound them.

    Else two clusters that start together could both find a port free, and each take the other's answer for its own's.
    """
    with _file_locked(os.path.join(tempfile.gettempdir(), f"zenit-ports-{os.getuid()}.lock")):
        yield


def check_settings(settings: Sequence[str]) -> None:
    """Raises InvalidParameter for a key that is not the user's to set, since `up` decides it."""
    for setting in settings:
        if setting.partition("=")[0].strip() in DECIDED_HERE:
            raise InvalidParameter(
                "--set", setting, f"a key that `up` does not decide itself ({', '.join(DECIDED_HERE)})"
            )


def asked_port(settings: Sequence[str]) -> int | None:
    """The port that was asked for by `port=N`; such a one is never chosen around."""
    texts = [setting.partition("=")[2].strip() for setting in settings if setting.partition("=")[0].strip() == "port"]
    return int(texts[-1]) if texts and texts[-1].isdecimal() and int(texts[-1]) else None


def arguments_of(record: ClusterRecord, process: ProcessRecord) -> list[str]:
    """The settings that a process is started with, as `--set` takes them; the user's own last."""
    host, _, port = process.address.rpartition(":")
    settings = [f"host={host}", f"port={port}"]
    if process.role == BROKER:
        settings += [f"cluster={record.cluster}", f"name={process.name}", f"namesrv={record.namesrv}"]
        settings.append(f"store_dir={process.store_dir}")
    return [*settings, *process.settings]


def _ask(address: str, request: Request) -> dict[str, Any] | None:
    """The JSON document of a reply; None where nobody answers yet."""
    with RemotingClient() as client:
        try:
            _, payload = client.call(address, request, timeout_ms=PROBE_TIMEOUT_MS)
        except (ConnectionLost, RequestTimeout):
            return None
    document: dict[str, Any] = json.loads(payload)
    return document


def _port_of(process: ProcessRecord) -> int:
    return int(process.address.rpartition(":")[2])


def _answers(address: str, question: Request) -> bool:
    return _ask(address, question) is not None


def _write_text(path: str, text: str) -> None:
    """Replaces a small file whole."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


def _group_status(process: ProcessRecord, statistics: Mapping[str, Any] | None) -> dict[str, Any]:
    """One replica group of a single broker: it masters itself."""
    facts = {"epoch": statistics["epoch"], **statistics["positions"]} if statistics else {}
    replica = {"name": process.name, "address": process.address, "role": "master" if statistics else "down"}
    offsets = {name: facts.get(name) for name in ("epoch", "written_offset", "flushed_offset", "confirm_offset")}
    master = process.name if statistics else None
    return {
        "broker_name": process.name,
        "epoch": facts.get("epoch"),
        "master": master,
        "in_sync": [process.name] if statistics else [],
        "min_in_sync": 1,
        "replicas": [{**replica, **offsets, "lag_bytes": 0 if statistics else None}],
    }
