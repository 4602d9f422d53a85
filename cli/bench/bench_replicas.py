"""`zenit bench --replicas N`: the same work on one broker and on a replica group, one after the other in one run.

Both are started for the run and removed afterwards: the single broker by the benchmark itself, the group as by `zenit up`,
with a controller and ZooKeeper. Every broker keeps its log in segments of the same size.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ...bench.options import REPLICATED_WORKS, BenchOptions, BenchResult, GivenCluster, Report
from ...bench.own_cluster import LogFiles, Pages, cache_spares, spare_files, store_settings
from ...bench.runner import run
from ...deploy.cluster_record import BROKER
from ...deploy.drills.drilled_cluster import DrilledCluster
from ...deploy.drills.process_servers import ProcessServers
from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import InvalidParameter, RequestTimeout

GROUP_FILES: Final = LogFiles(pool_segments=16)  # each replica has its own: three of them must fit into the page cache
_FILLS: Final = 4  # a slow machine reuses expired files while it fills, and must be filled again
_RECYCLED_MS: Final = 30_000
_LOOK_MS: Final = 200
_SINGLE: Final = (
    "messages_per_second",
    "bytes_per_second",
    "latency_us",
    "broker_cpu_seconds_per_million",
    "share_of_limit",
    "limit",
)


def run_on_replicas(options: BenchOptions, replicas: int, report: Report) -> BenchResult:
    """The result of the group, with `replicas`, the `single` broker's figures and `share_of_single` beside it.

    Raises InvalidParameter for a work that does not write, RequirementMissing if ZooKeeper cannot run here.
    """
    if options.work not in REPLICATED_WORKS or options.namesrv is not None:
        raise InvalidParameter(
            "--replicas", replicas, f"1, or more with one of {', '.join(REPLICATED_WORKS)} and no --namesrv"
        )
    single = run(replace(options, own_cluster=True), report)
    with started_group(options, replicas) as (cluster, processes):
        here = replace(options, own_cluster=False, namesrv=cluster.namesrv, warm=False)
        warm_up = partial(_warm_up, processes) if options.warm else None
        found = run(here, report, given=GivenCluster(replicas=replicas, warm_up=warm_up))
    alone, together = (float(str(result.document["messages_per_second"])) for result in (single, found))
    document: dict[str, Any] = {
        **found.document,
        "replicas": replicas,
        "pages": single.document["pages"],
        "single": {name: single.document[name] for name in _SINGLE},
        "share_of_single": round(together / alone, 4) if alone else None,
    }
    return BenchResult(document=document, svg=found.svg)


@contextmanager
def started_group(options: BenchOptions, replicas: int) -> Iterator[tuple[DrilledCluster, ProcessServers]]:
    """A healthy group and its processes, which is removed afterwards."""
    pages: Pages = "recycled" if options.warm else "fresh"
    settings = store_settings(
        GROUP_FILES, flush=options.flush, index=options.index, engine=options.consume_queue, pages=pages
    )
    if options.directory is not None:
        os.makedirs(options.directory, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="zenit-bench-", dir=options.directory) as directory:
        processes = ProcessServers(
            directory, replicas=replicas, settings=[f"store.{name}={_text(value)}" for name, value in settings.items()]
        )
        try:
            processes.up()
            cluster = DrilledCluster(processes, replicas=replicas)
            cluster.wait_healthy()
            yield cluster, processes
        finally:
            processes.down()


def _warm_up(processes: ProcessServers, write_log: Callable[..., None]) -> None:
    """Fills until every replica has expired segments to reuse, and queues and index reuse such files.

    Raises RequestTimeout.
    """
    for _ in range(_FILLS):
        write_log(GROUP_FILES, GROUP_FILES.fill_bytes + GROUP_FILES.settle_bytes)
        deadline_ms = monotonic_ms() + _RECYCLED_MS
        while monotonic_ms() < deadline_ms:
            stores = [broker.store_dir or "" for broker in processes.listed(BROKER)]
            if all(map(spare_files, stores)):  # one is left at the lowest rate, several at a higher one
                for store in stores:
                    cache_spares(store)
                return
            sleep_ms(_LOOK_MS)
    raise RequestTimeout(f"segments of every replica to expire after {_FILLS} fillings", _RECYCLED_MS)


def _text(value: object) -> str:
    """The form for `--set`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
