"""What metrics cost a broker: `python -m zenitmq.bench.scale.metrics_cost [--pairs N] [--seconds S] [--queues N]`.

CPU: pairs of runs of a fresh broker, one measured and scraped every five seconds, one not; which comes first alternates. Each
takes ready batches for some seconds. `ratio` is the median of the pairs' quotients of the broker's CPU a message.

Scrapes: a broker with topics of ten queues and a group that has yet to consume all of them; the time of GET /metrics from the
connection to the last byte, while nothing else happens and while batches come, and the CPU time that the broker says it took.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from ...model.clock import monotonic_ms, monotonic_ns, sleep_ms
from ...remoting.client import RemotingClient
from ...remoting.client_socket import ClientContext
from ...remoting.commands import CreateGroup, UpdateConsumerOffsets
from ..environment import environment
from ..own_cluster import LogFiles, OwnCluster, store_settings
from .queue_curve import QUEUES_OF_TOPIC, TIMEOUT_MS, CurveLoad, TopicBatches, make_topics, topic_name, usage_of

SCRAPE_MS: Final = 5_000
SCRAPES: Final = 30
SETTLE_MS: Final = 1_000
LAG_MS_MAX: Final = 120_000
CPU_LINE: Final = b"zenit_metrics_scrape_cpu_seconds{"
LAG_LINE: Final = b"zenit_consumer_lag_messages{"
GROUP: Final = "bench-late"
SIZE: Final = 128


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def scrape(port: int) -> tuple[float, bytes]:
    """(seconds, text) of one scrape."""
    begin_ns = monotonic_ns()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_MS / 1000)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read()
    finally:
        connection.close()
    return (monotonic_ns() - begin_ns) / 1e9, text


@contextmanager
def scraped(port: int) -> Iterator[None]:
    """Meanwhile the broker is scraped as Prometheus would."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(SCRAPE_MS / 1000):
            scrape(port)

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(TIMEOUT_MS / 1000)


@contextmanager
def broker(directory: str, *, port: int) -> Iterator[OwnCluster]:
    """A fresh one; `port`: of its metrics, 0 = none."""
    files = LogFiles()
    store = store_settings(files, flush="async", index=True, pages="filling")
    store |= {"retention_bytes": files.retained_bytes, "recycle_segments": 4}
    with OwnCluster(directory, files) as cluster:
        cluster.start_broker(store, metrics_bind=f"127.0.0.1:{port}" if port else "")
        yield cluster


@contextmanager
def load_on(cluster: OwnCluster, queues: int, batch: int) -> Iterator[CurveLoad]:
    """Ready batches for these queues."""
    context = ClientContext()
    dealer = context.dealer(cluster.address)
    try:
        yield CurveLoad(dealer, TopicBatches(size=SIZE, batch=batch), queues=queues, batch=batch)
    finally:
        dealer.close()
        context.close()


def cpu_us_a_message(seconds: float, batch: int, place: str | None, *, is_measured: bool) -> float:
    """One run."""
    port = free_port() if is_measured else 0
    with tempfile.TemporaryDirectory(dir=place) as directory, broker(directory, port=port) as cluster:
        make_topics(cluster.address, 1)
        with load_on(cluster, QUEUES_OF_TOPIC, batch) as load:
            load.run(SETTLE_MS / 1000, partial(usage_of, cluster))
            before = cluster.usage()["cpu_seconds"]
            if is_measured:
                with scraped(port):
                    sent = load.run(seconds, partial(usage_of, cluster))
            else:
                sent = load.run(seconds, partial(usage_of, cluster))
            after = cluster.usage()["cpu_seconds"]
    return float((after - before) / sent["messages"] * 1e6)


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """The pairs."""
    pairs = []
    for number in range(options.pairs):
        took = {}
        for is_measured in (number % 2 == 0, number % 2 == 1):
            took[is_measured] = cpu_us_a_message(options.seconds, options.batch, options.dir, is_measured=is_measured)
        pairs.append((took[True], took[False]))
        print(f"pair {number + 1}: {took[True]:.3f} us with, {took[False]:.3f} without", file=sys.stderr)
    return {
        "pairs": [{"on_us": round(on, 4), "off_us": round(off, 4)} for on, off in pairs],
        "ratio": round(statistics.median(on / off for on, off in pairs), 4),
        "batch": options.batch,
        "seconds": options.seconds,
    }


def time_scrapes(options: argparse.Namespace) -> dict[str, Any]:
    """Of a broker with many queues, each behind."""
    topics, port = options.queues // QUEUES_OF_TOPIC, free_port()
    with tempfile.TemporaryDirectory(dir=options.dir) as directory, broker(directory, port=port) as cluster:
        make_topics(cluster.address, topics)
        with load_on(cluster, options.queues, 16) as load, RemotingClient() as client:
            load.run(SETTLE_MS / 1000, partial(usage_of, cluster))
            client.call(cluster.address, CreateGroup(GROUP), timeout_ms=TIMEOUT_MS)
            for topic in map(topic_name, range(topics)):
                rows = tuple((topic, queue_id, 0) for queue_id in range(QUEUES_OF_TOPIC))
                client.call(cluster.address, UpdateConsumerOffsets(GROUP, rows), timeout_ms=TIMEOUT_MS)
            until_ms = monotonic_ms() + LAG_MS_MAX
            while scrape(port)[1].count(LAG_LINE) < topics and monotonic_ms() < until_ms:
                sleep_ms(SETTLE_MS)
            idle, text = _scrapes(port)
            loading = threading.Thread(target=load.run, args=(10.0, partial(usage_of, cluster)))
            loading.start()
            busy, _ = _scrapes(port)
            loading.join(TIMEOUT_MS / 1000)
    lines = text.count(b"\n") - text.count(b"\n# ")
    return {"queues": options.queues, "lines": lines, "bytes": len(text), "idle_ms": idle, "under_load_ms": busy}


def _scrapes(port: int) -> tuple[dict[str, float], bytes]:
    taken = []
    for _ in range(SCRAPES):
        taken.append(scrape(port))
        sleep_ms(SETTLE_MS // 10)
    times = [seconds * 1000 for seconds, _ in taken]
    cpu = [_cpu_ms(text) for _, text in taken]
    found = {"median": statistics.median(times), "max": max(times), "cpu_median": statistics.median(cpu)}
    return {name: round(value, 2) for name, value in found.items()}, taken[-1][1]


def _cpu_ms(text: bytes) -> float:
    line = next(line for line in text.splitlines() if line.startswith(CPU_LINE))
    return float(line.rpartition(b" ")[2]) * 1000


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m zenitmq.bench.scale.metrics_cost",
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--pairs", type=int, default=10, help="of runs with and without metrics")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run")
    parser.add_argument("--batch", type=int, default=256, help="messages in a request")
    parser.add_argument("--queues", type=int, default=10_000, help="while scrapes are timed; 0 = they are not")
    parser.add_argument("--dir", default=None, help="where the stores are; they are deleted")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if options.pairs:
        found["cpu"] = compare(options)
    if options.queues:
        found["scrapes"] = time_scrapes(options)
    print(json.dumps(found | {"environment": environment(options.dir or tempfile.gettempdir())}, indent=1))


if __name__ == "__main__":
    main()
