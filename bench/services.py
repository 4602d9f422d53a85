"""The shipped name server and broker as load processes, started and stopped by `own_cluster.OwnCluster`."""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import Any, Final

from ..broker import service as broker_service
from ..broker.config import BrokerConfig
from ..broker.handlers.send_handler import SendHandler
from ..broker.statistics import read_anonymous_bytes
from ..metrics.config import MetricsConfig
from ..model.clock import process_cpu_ns
from ..namesrv.config import NameServerConfig
from ..namesrv.service import NameServer
from ..remoting.direct.direct_router import DirectRouter
from ..store.config import StoreConfig
from ..store.message_store import MessageStore
from .own_cluster import USAGE, ServiceJob
from .processes import WorkerChannel
from .trips.stamps import Stamps
from .trips.thread_times import thread_times

BROKER_CALLS: Final[tuple[tuple[type, str], ...]] = (
    (DirectRouter, "receive"),
    (SendHandler, "on_send"),
    (MessageStore, "append"),
    (DirectRouter, "send"),
    (MessageStore, "dispatch"),
    (DirectRouter, "receive_nowait"),
    (DirectRouter, "receive_payload"),
    (DirectRouter, "flush"),
)
"""What a broker's stamps tell, by the numbers of `trip_stages`."""


def serve_namesrv(job: ServiceJob, channel: WorkerChannel) -> None:
    """Runs a name server until the parent closes the channel."""
    _log_to(job.log_path)
    with NameServer(NameServerConfig(**job.settings)) as server:
        _end_with_parent(channel, {"address": server.address})
        server.run()


def serve_broker(job: ServiceJob, channel: WorkerChannel) -> None:
    """Runs a broker until the parent closes the channel; it answers some time after it reported "ready"."""
    _log_to(job.log_path)
    stamps = Stamps() if job.stamps_path else None
    if stamps is not None:
        stamps.watch_all(BROKER_CALLS)
    _end_with_parent(channel, {}, stamps, job.stamps_path)
    settings = job.settings | {"namesrv": tuple(job.settings["namesrv"])}
    metrics = MetricsConfig(**job.metrics)
    broker_service.run(BrokerConfig(**settings, store=StoreConfig(**job.store), metrics=metrics))


def _end_with_parent(
    channel: WorkerChannel, facts: dict[str, Any], stamps: Stamps | None = None, stamps_path: str = ""
) -> None:
    def watch() -> None:
        """Thread: when the parent closes our input, sends the process the signal that stops its service."""
        channel.ready(facts)
        while word := channel.next_word():
            if word == USAGE:
                if stamps is not None:
                    stamps.save(stamps_path)
                channel.result(
                    {
                        "threads": thread_times(os.getpid()),
                        "cpu_seconds": process_cpu_ns() / 1e9,
                        "memory_bytes": read_anonymous_bytes(),
                    }
                )
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _log_to(path: str) -> None:
    logging.basicConfig(filename=path, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
