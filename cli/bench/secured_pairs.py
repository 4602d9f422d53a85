"""Measures what keys cost: `python -m zenitmq.cli.bench.secured_pairs [--rounds N] [--seconds S]`.

Two clusters of one broker run side by side, one of them secured. First very many clients connect at once. Then each is measured
by turns: batches of 256 messages of 1 KiB as fast as they are taken, and single sends one after the other. Prints JSON: of
each round the ratios secured / open, and their medians.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any, Final

from ...bench.environment import environment
from ...client.connection.client_keys import ENVIRONMENT_KEY
from ...deploy.cluster_keys import ADMINISTRATOR, administrator
from ...deploy.cluster_plan import key_path
from ...deploy.cluster_record import BROKER, ClusterRecord
from ...deploy.local_cluster import ProcessCluster
from ...model.clock import monotonic_ms, monotonic_ns
from ...model.errors import RequestTimeout
from ...remoting.client_socket import ClientContext
from ...remoting.commands import GetBrokerConfig
from ...remoting.header import encode_request

NAMES: Final = ("open", "secured")
RUN_S: Final = 120.0  # limit of one run, beside what it measures
STORE: Final = ("store.segment_bytes=134217728", "store.retention_bytes=1073741824")


def run_bench(record: ClusterRecord, arguments: Sequence[str], seconds: float) -> dict[str, Any]:
    """The JSON of one run of `zenit bench` against the cluster. Raises CalledProcessError, TimeoutExpired."""
    environ = {name: value for name, value in os.environ.items() if name != ENVIRONMENT_KEY}
    if record.keys:
        environ[ENVIRONMENT_KEY] = key_path(record, ADMINISTRATOR)
    command = [sys.executable, "-m", "zenitmq", "bench", *arguments, "--seconds", str(seconds), "--limit-seconds", "0"]
    command += ["--namesrv", record.namesrv, "--json"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=RUN_S + seconds, check=True)  # noqa: S603  # our own command
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def connect_all(record: ClusterRecord, clients: int) -> float:
    """Seconds until so many new connections to the broker each have their first answer, as after a failover.

    Raises RequestTimeout after a minute.
    """
    address = record.of_role(BROKER)[0].address
    with administrator(record) as remoting, ExitStack() as opened:
        context = ClientContext(remoting.keys)
        opened.callback(context.close)
        request = encode_request(GetBrokerConfig(), 1, timeout_ms=60_000)
        began_ns, deadline_ms = monotonic_ns(), monotonic_ms() + 60_000
        waiting = []
        for _ in range(clients):
            dealer = context.dealer(address)
            opened.callback(dealer.close)
            dealer.send(request, None)
            waiting.append(dealer)
        while waiting:
            if monotonic_ms() > deadline_ms:
                raise RequestTimeout(f"{len(waiting)} first answers of {address}", 60_000)
            waiting = [dealer for dealer in waiting if dealer.receive(1) is None]
        return (monotonic_ns() - began_ns) / 1e9


def measure(directory: str, rounds: int, seconds: float, clients: int) -> dict[str, Any]:
    """All rounds."""
    os.environ["HOME"] = directory  # the user's last cluster stays the last
    batches, sends = [], []
    with ExitStack() as started:
        records = []
        for name in NAMES:
            cluster = ProcessCluster(os.path.join(directory, name))
            records.append(cluster.up(settings=STORE, secure=name == NAMES[1]))
            started.callback(cluster.down)
        reconnected = {
            name: round(connect_all(record, clients), 3) for name, record in zip(NAMES, records, strict=True)
        }
        for number in range(rounds):
            found: dict[str, tuple[float, float]] = {}
            for record in records if number % 2 else reversed(records):
                rate = run_bench(record, ["produce", "--size", "1024", "--api", "send_batch"], seconds)
                times = run_bench(record, ["latency", "--size", "1024"], seconds)
                found[record.keys] = rate["messages_per_second"], times["latency_us"]["p50"]
            opened, secured = (found[record.keys] for record in records)
            batches.append(round(secured[0] / opened[0], 3))
            sends.append(round(secured[1] / opened[1], 3))
    return {
        "batches": {"ratios": batches, "median": median(batches)},
        "sends": {"ratios": sends, "median": median(sends)},
        "reconnected": {"clients": clients, "seconds": reconnected},
        "environment": environment(directory),
    }


def main() -> None:
    """Prints the ratios secured / open: of messages a second, and of the time of a send (p50)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run")
    parser.add_argument("--clients", type=int, default=1000, help="that connect at the same time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(measure(directory, options.rounds, options.seconds, options.clients), indent=2))


if __name__ == "__main__":
    main()
