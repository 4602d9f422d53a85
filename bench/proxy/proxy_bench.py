"""`zenit bench proxy`: what a proxy makes of a core, by clients of both protocols.

Load, proxy and broker share the machine: beside messages a second each part has messages a second of the proxy's own CPU
time, which is what a core of its own would do.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from ...model.clock import sleep_ms
from ...proxy.installation import check_installed
from ..environment import environment, kernel_kind
from ..measure import Load, Measured, measure
from ..options import PROXY_PARTS, BenchOptions, BenchProgress, Report
from ..own_cluster import USAGE, LogFiles
from ..percentiles import latency_us
from ..processes import BenchWorker
from ..target import Target, opened_target
from ..works.produce import ProduceJob
from .classic_load import ClassicSendJob
from .grpc_load import GrpcIdleJob, GrpcReceiveJob, GrpcSendJob
from .hostile_load import HostileJob
from .servers import BareJob, ProxyJob

GROUP: Final = "bench-proxy"
BATCH: Final = 256
CONNECTIONS: Final = 8
IN_FLIGHT: Final = 128
FILL_S: Final = 1.0
"""So long a native producer writes the backlog that is received: more than is received in the longest run."""
RUBBISH_PER_SECOND: Final = 100
ROUNDS: Final = 3
_LIMIT_S: Final = 3.0
"""At most: of the server that only answers."""
_READY_S: Final = 120.0
SETTLED_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class _Bench:
    options: BenchOptions
    target: Target
    directory: str
    report: Report
    proxy: BenchWorker
    addresses: Mapping[str, str]

    def path(self, name: str) -> str:
        """Of a load's latencies."""
        return os.path.join(self.directory, f"{name}.npy")

    @property
    def in_flight(self) -> int:
        """Calls, over all connections."""
        return self.options.in_flight or IN_FLIGHT

    def run(self, phase: str, *loads: Load, seconds: float, server: BenchWorker | None = None) -> dict[str, Any]:
        """{messages_per_second, per_core_second, proxy_cpu, ...} of loads of the proxy, or of another server."""
        measured, used = self.measure(phase, loads, seconds=seconds, server=server)
        return {
            "messages_per_second": round(measured.messages_per_second, 1),
            "per_core_second": round(measured.messages / used, 1) if used else None,
            "cpu_share": round(used / measured.seconds, 3),
            "latency_us": latency_us(measured.latencies),
        }

    def measure(
        self, phase: str, loads: Sequence[Load], *, seconds: float, server: BenchWorker | None = None
    ) -> tuple[Measured, float]:
        """What it came to, and the CPU seconds of the server."""
        server = server or self.proxy
        before = 0.0

        def on_started() -> None:
            nonlocal before
            before = server.ask(USAGE, _READY_S)["cpu_seconds"]

        measured = measure(loads, phase=phase, seconds=seconds, report=self.report, on_started=on_started)
        return measured, server.ask(USAGE, _READY_S)["cpu_seconds"] - before


def run_proxy(options: BenchOptions, report: Report) -> dict[str, Any]:
    """{work, size, in_flight, PART: {messages_per_second, per_core_second, cpu_share, latency_us, ...}, ..., environment}.
    Raises RequirementMissing."""
    check_installed()
    if options.directory is not None:
        os.makedirs(options.directory, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="zenit-bench-", dir=options.directory) as directory,
        opened_target(options, directory, LogFiles(), report) as target,
        _proxy(options, target, directory, report) as (proxy, addresses),
    ):
        bench = _Bench(options, target, directory, report, proxy, addresses)
        parts = PROXY_PARTS if options.part == "all" else (options.part,)
        document: dict[str, Any] = {"work": options.work, "size": options.size, "in_flight": bench.in_flight}
        document |= {part.replace("-", "_"): _PARTS[part](bench) for part in parts}
        return document | {
            "kernel": kernel_kind(),
            "cluster": dict(target.facts),
            "environment": environment(directory),
        }


@contextmanager
def _proxy(
    options: BenchOptions, target: Target, directory: str, report: Report
) -> Iterator[tuple[BenchWorker, Mapping[str, str]]]:
    report(BenchProgress(phase="start proxy", elapsed_seconds=0.0, total_seconds=0.0))
    job = ProxyJob(
        namesrv=target.namesrv,
        connections=2 * max(options.clients, CONNECTIONS),
        log_path=os.path.join(directory, "proxy.log"),
    )
    with BenchWorker("proxy", job) as worker:
        addresses = worker.wait_ready(_READY_S)
        worker.go()
        yield worker, addresses


def _bare(bench: _Bench) -> dict[str, Any]:
    """What a proxy's gRPC server makes of the same calls, and of the same idle clients, where nothing is done for them."""
    with BenchWorker("bare-grpc", BareJob(connections=2 * max(bench.options.clients, CONNECTIONS))) as server:
        address = server.wait_ready(_READY_S)["grpc"]
        server.go()
        seconds = min(bench.options.seconds, _LIMIT_S)
        sends = bench.run("bare gRPC", _send_load(bench, address, seconds), seconds=seconds, server=server)
        return sends | {"idle": _clients(bench, "bare idle clients", server, address)}


def _send(bench: _Bench) -> dict[str, Any]:
    seconds = bench.options.seconds
    return bench.run("gRPC sends", _send_load(bench, bench.addresses["grpc"], seconds), seconds=seconds)


def _send_load(bench: _Bench, address: str, seconds: float) -> Load:
    path = bench.path("grpc-send")
    job = GrpcSendJob(
        address=address,
        topic=bench.target.topic,
        size=bench.options.size,
        connections=CONNECTIONS,
        in_flight=bench.in_flight,
        seconds=seconds,
        samples_path=path,
    )
    return Load(role="grpc-send", job=job, samples_path=path)


def _receive(bench: _Bench) -> dict[str, Any]:
    return _receives(bench, "gRPC receives", is_acked_at_once=False)


def _receive_batch(bench: _Bench) -> dict[str, Any]:
    return _receives(bench, "gRPC receives, acknowledged at once", is_acked_at_once=True)


def _receives(bench: _Bench, phase: str, *, is_acked_at_once: bool) -> dict[str, Any]:
    """A backlog, which native producers have written before."""
    path, seconds = bench.path("grpc-receive"), bench.options.seconds
    bench.measure("fill", [_native(bench, FILL_S)], seconds=FILL_S)
    job = GrpcReceiveJob(
        address=bench.addresses["grpc"],
        topic=bench.target.topic,
        group=GROUP,
        connections=CONNECTIONS,
        is_acked_at_once=is_acked_at_once,
        seconds=seconds,
        samples_path=path,
    )
    return bench.run(phase, Load(role="grpc-receive", job=job, samples_path=path), seconds=seconds)


def _native(bench: _Bench, seconds: float) -> Load:
    """A producer of ours."""
    path = bench.path("native")
    options = bench.options
    job = ProduceJob(
        namesrv=bench.target.namesrv,
        topic=bench.target.topic,
        api="post",
        size=options.size,
        batch=BATCH,
        in_flight=0,
        seconds=seconds,
        samples_path=path,
    )
    return Load(role="produce", job=job, samples_path=path)


def _classic(bench: _Bench) -> dict[str, Any]:
    return _classic_sends(bench, "classic sends", batch=1, connections=CONNECTIONS, in_flight=bench.in_flight)


def _classic_batch(bench: _Bench) -> dict[str, Any]:
    return _classic_sends(bench, "classic batches", batch=BATCH, connections=1, in_flight=1)


def _classic_single(bench: _Bench) -> dict[str, Any]:
    return _classic_sends(bench, "classic sends one by one", batch=1, connections=1, in_flight=1)


def _classic_sends(bench: _Bench, phase: str, *, batch: int, connections: int, in_flight: int) -> dict[str, Any]:
    path, seconds = bench.path("classic"), bench.options.seconds
    job = ClassicSendJob(
        address=bench.addresses["remoting"],
        topic=bench.target.topic,
        broker_name=next(iter(bench.target.addresses())),
        size=bench.options.size,
        batch=batch,
        connections=connections,
        in_flight=in_flight,
        queues=bench.options.queues,
        seconds=seconds,
        samples_path=path,
    )
    return bench.run(phase, Load(role="classic-send", job=job, samples_path=path), seconds=seconds)


def _idle(bench: _Bench) -> dict[str, Any]:
    """Clients that are only there: what the proxy takes, and what the brokers do."""
    brokers = bench.target.use().cpu_seconds
    found = _clients(bench, "idle clients", bench.proxy, bench.addresses["grpc"])
    return found | {"brokers_cpu_seconds": round(bench.target.use().cpu_seconds - brokers, 2)}


def _clients(bench: _Bench, phase: str, server: BenchWorker, address: str) -> dict[str, Any]:
    """{clients, heartbeats, memory_bytes, memory_bytes_before, cpu_share} of a server with very many clients."""
    path = bench.path("idle")
    bench.report(BenchProgress(phase=phase, elapsed_seconds=0.0, total_seconds=0.0))
    before = server.ask(USAGE, _READY_S)["memory_bytes"]
    job = GrpcIdleJob(
        address=address,
        topic=bench.target.topic,
        connections=bench.options.clients,
        seconds=max(bench.options.seconds, 1.0),
        samples_path=path,
    )
    with BenchWorker("grpc-idle", job) as clients:
        clients.wait_ready(_READY_S)
        sleep_ms(SETTLED_MS)  # until all of them are told to the brokers
        used = server.ask(USAGE, _READY_S)["cpu_seconds"]
        found = clients.ask("go", job.seconds + _READY_S)
        after = server.ask(USAGE, _READY_S)
    os.unlink(path)
    return {
        "clients": job.connections,
        "heartbeats": found["messages"],
        "memory_bytes": after["memory_bytes"],
        "memory_bytes_before": before,
        "cpu_share": round((after["cpu_seconds"] - used) / found["seconds"], 4),
    }


def _hostile(bench: _Bench) -> dict[str, Any]:
    """A native producer's rate, alone and beside silent connections and rubbish, by turns."""
    path = bench.path("hostile")
    job = HostileJob(
        addresses=(bench.addresses["grpc"], bench.addresses["remoting"]),
        connections=bench.options.clients,
        per_second=RUBBISH_PER_SECOND,
        seconds=bench.options.seconds,
        samples_path=path,
    )
    load = Load(role="hostile", job=job, samples_path=path, counts=False)
    alone, beside, refused, shares = [], [], [], []
    for _ in range(ROUNDS):
        measured, _used = bench.measure("native alone", [_native(bench, job.seconds)], seconds=job.seconds)
        alone.append(round(measured.messages_per_second))
        measured, used = bench.measure(
            "native beside hostile", [_native(bench, job.seconds), load], seconds=job.seconds
        )
        beside.append(round(measured.parts[0].messages / measured.parts[0].seconds))
        refused.append(measured.parts[1].facts["refused"])
        shares.append(round(used / measured.seconds, 3))
    return {
        "connections": job.connections,
        "rubbish_per_second": job.per_second,
        "native_alone": alone,
        "native_beside": beside,
        "left": [round(ours / before, 3) for ours, before in zip(beside, alone, strict=True)],
        "closed": refused,
        "cpu_share": shares,
        "after": {name: _still(bench, name) for name in ("send", "classic")},
    }


def _still(bench: _Bench, part: str) -> float:
    """Messages a second that a front takes after all that."""
    options = replace(bench.options, seconds=min(bench.options.seconds, 1.0))
    rate: float = _PARTS[part](replace(bench, options=options))["messages_per_second"]
    return rate


_PARTS: Final[Mapping[str, Callable[[_Bench], dict[str, Any]]]] = {
    "bare": _bare,
    "send": _send,
    "receive": _receive,
    "receive-batch": _receive_batch,
    "classic": _classic,
    "classic-batch": _classic_batch,
    "classic-single": _classic_single,
    "idle": _idle,
    "hostile": _hostile,
}
