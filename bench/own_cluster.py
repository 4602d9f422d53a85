"""Starts a name server and a broker for a run: the shipped services, each in a process, in a directory of the run.

Needed to choose flush mode and kind of files, and to leave no trace in a cluster that others use. Ports are free ones; the
broker keeps its port over restarts. Their logs are in the directory, `namesrv.log`, `broker.log`.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from ..model.clock import monotonic_ms, sleep_ms
from ..model.errors import ClusterNotStarted, ConnectionLost, RequestTimeout, StoreFormatError
from ..remoting.client import RemotingClient
from ..remoting.commands import GetBrokerStatistics, GetClusterInfo
from ..store.log.commit_log import SPARE_FOLDER
from ..store.log.spare_files import SPARE_INDEX_FOLDER, SPARE_QUEUE_FOLDER
from .processes import BenchWorker
from .raw.cached_pages import touch_pages

USAGE: Final = "usage"
"""A word to a service: how much it has used so far."""
_READY_S: Final = 60.0
_TRIES_MAX: Final = 6  # to start a broker again at its port
_TRY_AGAIN_MS: Final = 500
_ENTRIES_PER_SLOT: Final = 4  # as in the defaults
_PROBE_MS: Final = 500
_POLL_MS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFiles:
    """The sizes of a measured broker's files. Published figures use these sizes; tests use smaller ones."""

    segment_bytes: int = 128 << 20
    retained_bytes: int = 1 << 30  # of a warm run's log; older segments are recycled
    pool_segments: int = 32  # recycled segments at the start of a warm run: 4 GiB
    index_entries: int = 5_000_000  # of a warm run's index files: small, so that some expire with so small a log

    @property
    def fill_bytes(self) -> int:
        """How much to write until this many segments have expired."""
        return self.retained_bytes + (self.pool_segments + 1) * self.segment_bytes

    @property
    def settle_bytes(self) -> int:
        """How much to write then, until queues and index use recycled files and as much expires as is written."""
        return 2 * self.retained_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceJob:
    """The settings of a role's configuration; `store`, `metrics`: of the tables of these names. `stamps_path`: where a broker
    saves the times of its stages at each word USAGE; "" = it notes none."""

    settings: dict[str, Any]
    log_path: str
    store: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    stamps_path: str = ""


class OwnCluster:
    """Context manager: inside, the name server runs; `start_broker` starts the broker. One thread."""

    def __init__(self, directory: str, files: LogFiles, stamps_path: str = "") -> None:
        """`stamps_path`: of the broker's job."""
        self.files = files
        self.stamps_path = stamps_path
        self._directory = directory
        self._stack = ExitStack()
        self._broker: BenchWorker | None = None
        self.namesrv = ""
        self.address = ""  # of the broker, after its first start

    def __enter__(self) -> Self:
        self._client = self._stack.enter_context(RemotingClient())
        job = ServiceJob(settings={"port": 0, "listen_ms": 0}, log_path=os.path.join(self._directory, "namesrv.log"))
        server = self._stack.enter_context(BenchWorker("namesrv", job))
        try:
            self.namesrv = str(server.wait_ready(_READY_S)["address"])
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop_broker()
        finally:
            self._stack.close()

    @property
    def store_directory(self) -> str:
        """The broker's store."""
        return os.path.join(self._directory, "store")

    def start_broker(self, store: dict[str, Any], *, seconds: float = _READY_S, metrics_bind: str = "") -> None:
        """Starts the broker and waits until it answers and is registered. `metrics_bind`: as the setting. Raises
        ClusterNotStarted."""
        port = int(self.address.rpartition(":")[2]) if self.address else 0
        log_path = os.path.join(self._directory, "broker.log")
        settings = {"port": port, "namesrv": [self.namesrv], "store_dir": self.store_directory}
        metrics = {"bind": metrics_bind}
        job = ServiceJob(
            settings=settings, store=store, log_path=log_path, metrics=metrics, stamps_path=self.stamps_path
        )
        self._broker = BenchWorker("broker", job)
        deadline = monotonic_ms() + round(seconds * 1000)
        tries = 1
        while not self._is_up():
            if (
                not self._broker.is_running and port and tries < _TRIES_MAX
            ):  # a connection may have its port for a moment
                tries += 1
                sleep_ms(_TRY_AGAIN_MS)
                self._broker.stop()
                self._broker = BenchWorker("broker", job)
            elif not self._broker.is_running or monotonic_ms() >= deadline:
                raise ClusterNotStarted(
                    "broker", "ended" if not self._broker.is_running else "does not answer", log_path
                )
            sleep_ms(_POLL_MS)
        self._broker.wait_ready(_READY_S)
        self._broker.go()

    def _is_up(self) -> bool:
        """Whether the broker answers at its address, which at first comes from the name server."""
        try:
            if not self.address:
                _, payload = self._client.call(self.namesrv, GetClusterInfo(), timeout_ms=_PROBE_MS)
                self.address = next((str(broker["address"]) for broker in json.loads(payload)["brokers"]), "")
                return bool(self.address)
            self._client.call(self.address, GetBrokerStatistics(), timeout_ms=_PROBE_MS)
        except (ConnectionLost, RequestTimeout):
            return False
        return True

    def usage(self) -> dict[str, Any]:
        """Of the running broker: {cpu_seconds, memory_bytes without file pages, threads}; it saves its stamps."""
        if self._broker is None:
            raise ClusterNotStarted("broker", "is not running", self._directory)
        return self._broker.ask(USAGE, _READY_S)

    def stop_broker(self) -> None:
        """Stops it like SIGTERM."""
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    def kill_broker(self) -> None:
        """Ends it like `kill -9`."""
        if self._broker is not None:
            self._broker.kill()
            self._broker.stop()
            self._broker = None


def spare_files(store_directory: str, folder: str = SPARE_FOLDER) -> list[str]:
    """Paths of the expired files of a store that wait for reuse: segments, or those of another folder."""
    directory = os.path.join(store_directory, folder)
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return [os.path.join(directory, name) for name in names if name.isdigit()]


def cache_spares(store_directory: str) -> None:
    """Brings the pages of all spare files into the page cache, from which a machine drops unused ones."""
    for folder in (SPARE_FOLDER, SPARE_QUEUE_FOLDER, SPARE_INDEX_FOLDER):
        for path in spare_files(store_directory, folder):
            with suppress(FileNotFoundError, StoreFormatError):  # it was reused or deleted meanwhile
                touch_pages(path, os.path.getsize(path))


Pages = Literal["fresh", "filling", "recycled"]


def store_settings(files: LogFiles, *, flush: str, index: bool, pages: Pages, engine: str = "file") -> dict[str, Any]:
    """The [store] table of a measured broker.

    `pages`: "recycled" keeps files beyond `retained_bytes` for reuse, in a store that was "filling" until then.
    """
    settings: dict[str, Any] = {
        "segment_bytes": files.segment_bytes,
        "flush_mode": flush,
        "index_enabled": index,
        "consume_queue": engine,
    }
    if pages != "fresh":
        slots = files.index_entries // _ENTRIES_PER_SLOT
        settings |= {"index_entries": files.index_entries, "index_slots": slots}
    if pages == "recycled":
        settings |= {"retention_bytes": files.retained_bytes, "recycle_segments": files.pool_segments}
    return settings
