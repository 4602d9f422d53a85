"""A name server and a broker of one's own: the shipped services, each in a process, in a directory of the run.

The only way to choose flush mode and kind of files, and the way to leave no trace in a cluster that others use. Ports
are free ones; the broker keeps its own over restarts. What they log is in the directory, `namesrv.log`, `broker.log`.
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
from .cached_pages import touch_pages
from .processes import BenchWorker

_READY_S: Final = 60.0
_ENTRIES_PER_SLOT: Final = 4  # as the defaults have it
_PROBE_MS: Final = 500
_POLL_MS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFiles:
    """The files of a measured broker. Figures are told of these sizes; tests take smaller ones."""

    segment_bytes: int = 128 << 20
    retained_bytes: int = 1 << 30  # of a warm run's log; what is older is recycled
    pool_segments: int = 32  # recycled segments that a warm run starts with: 4 GiB
    index_entries: int = 5_000_000  # of a warm run's index files: so that some expire with so small a log

    @property
    def fill_bytes(self) -> int:
        """How much is written so that so many segments expire."""
        return self.retained_bytes + (self.pool_segments + 1) * self.segment_bytes

    @property
    def settle_bytes(self) -> int:
        """How much is written then, so that queues and index go on in recycled files and what expires is like what comes."""
        return 2 * self.retained_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceJob:
    """Settings of a role's configuration; `store` those of the [store] table."""

    settings: dict[str, Any]
    log_path: str
    store: dict[str, Any] = field(default_factory=dict)


class OwnCluster:
    """Context manager: entered, the name server runs; the broker by `start_broker`. One thread."""

    def __init__(self, directory: str, files: LogFiles) -> None:
        self.files = files
        self._directory = directory
        self._stack = ExitStack()
        self._broker: BenchWorker | None = None
        self.namesrv = ""
        self.address = ""  # of the broker, once it ran

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
        """Of the broker."""
        return os.path.join(self._directory, "store")

    def start_broker(self, store: dict[str, Any], *, seconds: float = _READY_S) -> None:
        """Starts the broker and waits until it answers and is registered. Raises ClusterNotStarted."""
        port = int(self.address.rpartition(":")[2]) if self.address else 0
        log_path = os.path.join(self._directory, "broker.log")
        settings = {"port": port, "namesrv": [self.namesrv], "store_dir": self.store_directory}
        self._broker = BenchWorker("broker", ServiceJob(settings=settings, store=store, log_path=log_path))
        deadline = monotonic_ms() + round(seconds * 1000)
        while not self._is_up():
            if not self._broker.is_running or monotonic_ms() >= deadline:
                raise ClusterNotStarted(
                    "broker", "ended" if not self._broker.is_running else "does not answer", log_path
                )
            sleep_ms(_POLL_MS)

    def _is_up(self) -> bool:
        """Answers at its address, which the name server tells the first time."""
        try:
            if not self.address:
                _, payload = self._client.call(self.namesrv, GetClusterInfo(), timeout_ms=_PROBE_MS)
                self.address = next((str(broker["address"]) for broker in json.loads(payload)["brokers"]), "")
                return bool(self.address)
            self._client.call(self.address, GetBrokerStatistics(), timeout_ms=_PROBE_MS)
        except (ConnectionLost, RequestTimeout):
            return False
        return True

    def stop_broker(self) -> None:
        """Ends it as SIGTERM does."""
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    def kill_broker(self) -> None:
        """Ends it as `kill -9` does."""
        if self._broker is not None:
            self._broker.kill()
            self._broker.stop()
            self._broker = None


def spare_files(store_directory: str, folder: str = SPARE_FOLDER) -> list[str]:
    """Paths of the expired files of a store that wait to be written over: segments, or those of another folder."""
    directory = os.path.join(store_directory, folder)
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return [os.path.join(directory, name) for name in names if name.isdigit()]


def cache_spares(store_directory: str) -> None:
    """Brings the pages of all spare files into the page cache, from where a machine drops what nobody used for a while."""
    for folder in (SPARE_FOLDER, SPARE_QUEUE_FOLDER, SPARE_INDEX_FOLDER):
        for path in spare_files(store_directory, folder):
            with suppress(FileNotFoundError, StoreFormatError):  # it is in use by now, or is being deleted
                touch_pages(path, os.path.getsize(path))


Pages = Literal["fresh", "filling", "recycled"]


def store_settings(files: LogFiles, *, flush: str, index: bool, pages: Pages) -> dict[str, Any]:
    """The [store] table of a measured broker.

    `pages`: "recycled" keeps what passes `retained_bytes` to be written over, of a store that was "filling" until then.
    """
    settings: dict[str, Any] = {"segment_bytes": files.segment_bytes, "flush_mode": flush, "index_enabled": index}
    if pages != "fresh":
        slots = files.index_entries // _ENTRIES_PER_SLOT
        settings |= {"index_entries": files.index_entries, "index_slots": slots}
    if pages == "recycled":
        settings |= {"retention_bytes": files.retained_bytes, "recycle_segments": files.pool_segments}
    return settings
