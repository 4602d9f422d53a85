"""Measures what keys cost: `python -m zenitmq.cli.bench.secured_pairs [--rounds N] [--seconds S]`.

Two clusters of one broker run side by side, one of them secured. First very many clients connect at once. Then each is measured
by turns: batches of 256 messages of 1 KiB, some of them in flight, as `Producer.post` sends them; the same, each sent after the
answer to the one before; and single sends, one after the other. Prints JSON: of each round the ratios secured / open, and their
medians; and what bare sockets take for a frame as large as such a batch and its answer, without keys and with.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
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
from ...remoting.raw_socket import RawDealer, RawRouter
from ...remoting.security.curve_socket import new_key_pair
from ...remoting.security.key_file import KeyPair

NAMES: Final = ("open", "secured")
RUN_S: Final = 120.0  # limit of one run, beside what it measures
APIS: Final = ("post", "send_batch")
BATCH_BYTES: Final = 256 * 1024
ROUND_TRIPS: Final = 2_000
STOP_S: Final = 10.0
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


def bare_round_trip_us(pairs: tuple[KeyPair, KeyPair] | None) -> float:
    """The median time in us of BATCH_BYTES to a socket in another process and a few bytes back; `pairs`: server's, client's."""
    server, client = pairs or (None, None)
    parent, child = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_answer_bare, args=(child, server), daemon=True)
    process.start()
    if not parent.poll(STOP_S):
        raise RequestTimeout("the bare sockets' other process", round(STOP_S * 1000))
    dealer = RawDealer(parent.recv(), client, server.public if server is not None else "")
    times, payload = [], bytes(BATCH_BYTES)
    try:
        for _ in range(ROUND_TRIPS):
            began_ns = monotonic_ns()
            dealer.send(b"header", payload)
            if dealer.receive(10_000) is None:
                raise RequestTimeout("a bare round trip", 10_000)
            times.append((monotonic_ns() - began_ns) / 1e3)
    finally:
        dealer.close()
        process.terminate()
        process.join(STOP_S)
    return round(median(times), 1)


def _answer_bare(pipe: Connection, keys: KeyPair | None) -> None:
    """The other process."""
    arena = memoryview(bytearray(2 * BATCH_BYTES))
    with RawRouter("127.0.0.1:0", BATCH_BYTES, keys) as router:
        pipe.send(router.address)
        while True:
            for identity in router.drain(arena, wait_ms=1_000, requests_max=1, bytes_max=BATCH_BYTES)[0]:
                router.reply(identity, [b"answer"])


def bare_round_trips() -> dict[str, float]:
    """Both, in us."""
    return {
        "open_us": bare_round_trip_us(None),
        "secured_us": bare_round_trip_us((new_key_pair(), new_key_pair())),
    }


def measure(directory: str, rounds: int, seconds: float, clients: int) -> dict[str, Any]:
    """All rounds."""
    os.environ["HOME"] = directory  # the user's last cluster stays the last
    batches: list[float] = []
    single_batches: list[float] = []
    sends: list[float] = []
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
            found: dict[str, tuple[float, ...]] = {}
            for record in records if number % 2 else reversed(records):
                rates = [
                    run_bench(record, ["produce", "--size", "1024", "--api", api], seconds)["messages_per_second"]
                    for api in APIS
                ]
                times = run_bench(record, ["latency", "--size", "1024"], seconds)
                found[record.keys] = (*rates, times["latency_us"]["p50"])
            opened, secured = (found[record.keys] for record in records)
            for ratios, ours, others in zip((batches, single_batches, sends), secured, opened, strict=True):
                ratios.append(round(ours / others, 3))
    return {
        "batches": {"ratios": batches, "median": median(batches)},
        "batches one after the other": {"ratios": single_batches, "median": median(single_batches)},
        "sends": {"ratios": sends, "median": median(sends)},
        "bare round trip": bare_round_trips(),
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
