"""The shipped name server and broker as load processes, started and stopped by `own_cluster.OwnCluster`."""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import Any

from ..broker import service as broker_service
from ..broker.config import BrokerConfig
from ..broker.statistics import read_anonymous_bytes
from ..metrics.config import MetricsConfig
from ..model.clock import process_cpu_ns
from ..namesrv.config import NameServerConfig
from ..namesrv.service import NameServer
from ..store.config import StoreConfig
from .own_cluster import USAGE, ServiceJob
from .processes import WorkerChannel


def serve_namesrv(job: ServiceJob, channel: WorkerChannel) -> None:
    """Runs a name server until the parent closes the channel."""
    _log_to(job.log_path)
    with NameServer(NameServerConfig(**job.settings)) as server:
        _end_with_parent(channel, {"address": server.address})
        server.run()


def serve_broker(job: ServiceJob, channel: WorkerChannel) -> None:
    """Runs a broker until the parent closes the channel; it answers some time after it reported "ready"."""
    _log_to(job.log_path)
    _end_with_parent(channel, {})
    settings = job.settings | {"namesrv": tuple(job.settings["namesrv"])}
    metrics = MetricsConfig(**job.metrics)
    broker_service.run(BrokerConfig(**settings, store=StoreConfig(**job.store), metrics=metrics))


def _end_with_parent(channel: WorkerChannel, facts: dict[str, Any]) -> None:
    def watch() -> None:
        """Thread: when the parent closes our input, sends the process the signal that stops its service."""
        channel.ready(facts)
        while word := channel.next_word():
            if word == USAGE:
                channel.result({"cpu_seconds": process_cpu_ns() / 1e9, "memory_bytes": read_anonymous_bytes()})
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _log_to(path: str) -> None:
    logging.basicConfig(filename=path, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
