"""A name server and a broker of one's own: the shipped services, each in a process, in a directory of the run.

The only way to choose flush mode and kind of files, and the way to leave no trace in a cluster that others use. Ports
are free ones; the worker tells which.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, field
from typing import Any, Final

from ..broker.config import BrokerConfig
from ..broker.service import Broker
from ..namesrv.config import NameServerConfig
from ..namesrv.service import NameServer
from ..store.config import StoreConfig
from .processes import Channel, Worker

SEGMENT_BYTES: Final = 128 << 20
RETAINED_BYTES: Final = 1 << 30  # of a warm run's log; what is older is recycled
POOL_SEGMENTS: Final = 32  # recycled segments that a warm run starts with: 4 GiB
READY_SECONDS: Final = 60.0
RESTART_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceJob:
    """Settings of a role's configuration; `store` those of the [store] table."""

    settings: dict[str, Any]
    store: dict[str, Any] = field(default_factory=dict)
    log_path: str = ""


def serve_namesrv(job: ServiceJob, channel: Channel) -> None:
    """A name server until the parent closes the channel."""
    _log_to(job.log_path)
    with NameServer(NameServerConfig(**job.settings)) as server:
        _run(server, channel, server.address)


def serve_broker(job: ServiceJob, channel: Channel) -> None:
    """A broker until the parent closes the channel."""
    _log_to(job.log_path)
    with Broker(BrokerConfig(**job.settings, store=StoreConfig(**job.store))) as server:
        _run(server, channel, server.address)


def _run(server: NameServer | Broker, channel: Channel, address: str) -> None:
    def watch() -> None:
        """Thread: the service goes on until the parent ends."""
        channel.ready({"address": address})
        while channel.next_word():
            pass
        server.stop()

    threading.Thread(target=watch, daemon=True).start()
    server.run()


def _log_to(path: str) -> None:
    logging.basicConfig(filename=path, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")


def start_namesrv(directory: str) -> tuple[Worker, str]:
    """The process and its address."""
    job = ServiceJob(settings={"port": 0}, log_path=os.path.join(directory, "namesrv.log"))
    return _started("namesrv", job, READY_SECONDS)


def start_broker(directory: str, *, namesrv: str, store: dict[str, Any], wait: bool = True) -> tuple[Worker, str]:
    """The process and its address; "" with `wait` False, for who wants to see it come up."""
    settings = {"port": 0, "namesrv": (namesrv,), "store_dir": os.path.join(directory, "store")}
    job = ServiceJob(settings=settings, store=store, log_path=os.path.join(directory, "broker.log"))
    return _started("broker", job, RESTART_SECONDS if wait else 0.0)


def _started(role: str, job: ServiceJob, seconds: float) -> tuple[Worker, str]:
    worker = Worker(role, job)
    try:
        address = str(worker.wait_ready(seconds)["address"]) if seconds else ""
    except BaseException:
        worker.kill()
        raise
    return worker, address


def store_settings(*, flush: str, warm: bool, index: bool) -> dict[str, Any]:
    """The [store] table of a measured broker. Warm: what passes RETAINED_BYTES is recycled, and the pool is large."""
    settings: dict[str, Any] = {"segment_bytes": SEGMENT_BYTES, "flush_mode": flush, "index_enabled": index}
    if warm:
        settings |= {"retention_bytes": RETAINED_BYTES, "recycle_segments": POOL_SEGMENTS, "delete_unconsumed": True}
    return settings
