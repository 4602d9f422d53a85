"""`python -m zenitmq.bench.worker ROLE`: the entry of a load process; its parent is `processes.Worker`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from ..model.errors import ZenitError
from . import consume, e2e, latency, own_cluster, prebuilt, produce, raw_client, raw_server, stages
from .processes import Channel

ROLES: Final[dict[str, tuple[type[Any], Callable[[Any, Channel], None]]]] = {
    "raw-server": (raw_server.RawServerJob, raw_server.serve),
    "raw-client": (raw_client.RawClientJob, raw_client.drive),
    "namesrv": (own_cluster.ServiceJob, own_cluster.serve_namesrv),
    "broker": (own_cluster.ServiceJob, own_cluster.serve_broker),
    "produce": (produce.ProduceJob, produce.produce),
    "prebuilt": (prebuilt.PrebuiltJob, prebuilt.send_prebuilt),
    "consume": (consume.ConsumeJob, consume.consume),
    "latency": (latency.LatencyJob, latency.send_one_by_one),
    "schedule": (e2e.ScheduleJob, e2e.send_on_schedule),
    "receive": (e2e.ReceiveJob, e2e.receive),
    "encode": (stages.EncodeJob, stages.measure_encoding),
}


def main(role: str) -> int:
    """Runs one job; a failure is told to the parent as one line."""
    channel = Channel()
    job_class, work = ROLES[role]
    try:
        work(job_class(**channel.job()), channel)
    except (ZenitError, OSError) as error:
        channel.error(f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
