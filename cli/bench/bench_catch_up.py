"""`zenit bench catch-up`: how fast a wiped replica gets its log back from a master under load.

A replica group is started for the run and filled. One slave is killed and its disk emptied; it starts again while one
producer sends a message every few milliseconds. The time runs from the moment its process answers, with an empty log, until
its log has all that the master's had at that moment.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from ...bench.environment import environment, kernel_kind
from ...bench.options import BenchOptions, BenchProgress, Report
from ...bench.percentiles import Samples, latency_us
from ...bench.runner import run
from ...client.admin import Admin
from ...client.producer import Producer
from ...deploy.cluster_record import ServerRecord
from ...deploy.drills.drilled_cluster import DrilledCluster
from ...deploy.drills.process_servers import ProcessServers
from ...model.clock import monotonic_ms, monotonic_ns, sleep_ms
from ...model.errors import ConnectionLost, RequestTimeout
from ...model.message import Message
from ...remoting.client import RemotingClient
from ...remoting.commands import GetBrokerStatistics
from .bench_replicas import started_group

WORK: Final = "catch-up"
SEND_EVERY_MS: Final = 5
_LOOK_MS: Final = 50
_ASK_MS: Final = 2_000
_CAUGHT_UP_MS: Final = 600_000
_TOPIC: Final = "bench-catch-up"
_FILL_BODY_BYTES: Final = 4096
_FILL_BATCH: Final = 64
_FILL_SECONDS: Final = 5.0  # at a time


def run_catch_up(options: BenchOptions, replicas: int, report: Report) -> dict[str, Any]:
    """{work, log_bytes, seconds, bytes_per_second, sends, latency_us (of single sends meanwhile), ...}.

    Raises RequestTimeout if the slave does not catch up, RequirementMissing if ZooKeeper cannot run here.
    """
    with started_group(options, replicas) as (cluster, processes):
        here = replace(
            options,
            work="produce",
            prebuilt=True,
            size=_FILL_BODY_BYTES,
            batch=_FILL_BATCH,
            seconds=_FILL_SECONDS,
            limit_seconds=0,
            namesrv=cluster.namesrv,
        )
        filled = 0.0
        while filled < options.log_gib * (1 << 30):
            filled += float(str(run(here, report).document["messages"])) * here.size
        cluster.wait_healthy()
        with Admin(cluster.namesrv) as admin:
            admin.create_topic(_TOPIC, queues=1)
        caught = _caught_up(cluster, processes, report)
    return {
        "work": WORK,
        "replicas": replicas,
        "log_bytes": caught.size_bytes,
        "seconds": round(caught.seconds, 3),
        "bytes_per_second": round(caught.size_bytes / caught.seconds, 1),
        "sends": caught.samples.count,
        "latency_us": latency_us(caught.samples.values),
        "kernel": kernel_kind(),
        "environment": environment(options.directory or "."),
    }


@dataclass(frozen=True, slots=True)
class _CaughtUp:
    size_bytes: int
    seconds: float
    samples: Samples


def _caught_up(cluster: DrilledCluster, processes: ProcessServers, report: Report) -> _CaughtUp:
    slave, master = cluster.slaves()[0], cluster.master()
    processes.kill([slave])
    processes.wipe(slave)
    samples = Samples(1_000_000)
    with RemotingClient() as client, Producer("bench-catch-up", namesrv=cluster.namesrv, compression=None) as producer:
        processes.up()
        begin_ns = monotonic_ns()
        target, already = _written(client, master) or 0, _written(client, slave) or 0
        deadline_ms = monotonic_ms() + _CAUGHT_UP_MS
        look_ms = 0
        while True:
            sent_ns = monotonic_ns()
            producer.send(Message(_TOPIC, bytes(128)), timeout=_ASK_MS / 1000)
            samples.record(monotonic_ns() - sent_ns)
            if monotonic_ms() >= look_ms:
                look_ms = monotonic_ms() + _LOOK_MS
                has = _written(client, slave) or 0
                seconds = (monotonic_ns() - begin_ns) / 1e9
                report(BenchProgress(phase=WORK, elapsed_seconds=seconds, total_seconds=0.0, bytes=has))
                if has >= target:
                    return _CaughtUp(target - already, seconds, samples)
                if monotonic_ms() >= deadline_ms:
                    raise RequestTimeout(f"{slave.name} to catch up ({has} of {target} bytes)", _CAUGHT_UP_MS)
            sleep_ms(SEND_EVERY_MS)


def _written(client: RemotingClient, broker: ServerRecord) -> int | None:
    """The end of a replica's log, in bytes; None if it does not answer."""
    try:
        _, payload = client.call(broker.address, GetBrokerStatistics(), timeout_ms=_ASK_MS)
    except (ConnectionLost, RequestTimeout):
        return None
    return int(json.loads(payload)["replication"]["written"])
