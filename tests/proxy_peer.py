"""RocketMQ's Java producer against a proxy and against RocketMQ's own broker, by turns, on one machine.

python tests/proxy_peer.py [--seconds 5] [--rounds 3] [--threads 10] [--json]     batches of 256 of 1 KiB, from one thread and
                                                                                  from so many, and single sends one by one
It needs javac, mvn and Maven's index. Both have one broker without a replica, files of 128 MiB for the log, and flush as they
do by themselves. proxy/java/PeerLoad.java sends. Beside both: RocketMQ's broker behind bare_relay.py, the least that any proxy
in Python costs.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from threading import Timer
from typing import Any, Final, Self

from port_kit import free_row
from proxy_clients import DRIVERS, jars_folder, java_driver
from rocketmq_tests import NAME, VERSION, fetch_tests, running_cluster

BATCH: Final = 256
SIZE: Final = 1024
SEGMENT_BYTES: Final = 128 << 20
TOPIC: Final = "peers"
PROXY, ROCKETMQ, RELAYED = "proxy", "RocketMQ", "RocketMQ behind a bare relay"
START_S: Final = 60.0
SILENT_S: Final = 60.0
_LOOK_S: Final = 0.1
_LATE_S: Final = 30
_OPEN: Final = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/jdk.internal.ref", "java.base/java.lang")
_HEAP: Final = {"namesrv": "256m", "broker": "2g"}

Round = Mapping[str, float]
"""messages_per_second, p50_us, p99_us, failed"""


class Load:
    """A process that sends to one of both, and keeps what Java has compiled over all rounds. Context manager."""

    def __init__(self, namesrv: str, log: Path) -> None:
        client = java_driver(NAME, VERSION, DRIVERS / "java" / "PeerLoad.java")
        options = ["-Xmx512m", "-XX:+UseSerialGC", f"-Duser.home={log.parent}"]
        place = client.index("-cp")
        self._log = log.open("w")
        self._process = subprocess.Popen(
            ["java", *options, *client[place:], namesrv, TOPIC, str(SIZE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def round(self, *, batch: int, threads: int, seconds: float) -> Round:
        """Waits until it is over. Raises RuntimeError with what it wrote if it ends, or is silent for too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{batch} {threads} {round(seconds * 1000)}\n")
        self._process.stdin.flush()
        overdue = Timer(seconds + SILENT_S, self._process.kill)  # a load that lives and says nothing
        overdue.start()
        try:
            while line := self._process.stdout.readline():
                if line.startswith("{"):
                    found: Round = json.loads(line)
                    return found
        finally:
            overdue.cancel()
        raise RuntimeError(Path(self._log.name).read_text()[-2000:])


def _java_service(kind: str, conf: Mapping[str, object], directory: Path) -> subprocess.Popen[bytes]:
    """RocketMQ's name server or broker, with what its start script opens to it."""
    path = directory / f"{kind}.conf"
    path.write_text("".join(f"{name}={value}\n" for name, value in conf.items()))
    main = {"namesrv": "namesrv.NamesrvStartup", "broker": "broker.BrokerStartup"}[kind]
    options = [f"--add-{how}={package}=ALL-UNNAMED" for package in _OPEN for how in ("opens", "exports")]
    heap = [f"-Xms{_HEAP[kind]}", f"-Xmx{_HEAP[kind]}", "-XX:+UseG1GC"]
    home = [f"-Duser.home={directory}", f"-Drocketmq.home.dir={directory}"]
    found = (jars_folder(NAME, VERSION) / "lib").glob("*.jar")
    jars = ["-cp", ":".join(str(jar) for jar in found if NAME not in jar.name)]  # whose settings log each step
    command = ["java", *heap, *home, *options, *jars, f"org.apache.rocketmq.{main}", "-c", str(path)]
    with (directory / f"{kind}.out").open("w") as log:
        return subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)


def _wait_open(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(_LOOK_S)
    raise RuntimeError(f"it did not start: {log.read_text()[-2000:]}")


@contextmanager
def relayed(namesrv: str) -> Iterator[str]:
    """The address of a name server like this one, but its broker is at another port: both lead to the ones there are."""
    front, names = free_row(2)
    broker = int(namesrv.rpartition(":")[2]) + 1
    texts = [f"127.0.0.1:{port}" for port in (broker, front)]
    assert len(texts[0]) == len(texts[1])
    with ExitStack() as started, tempfile.TemporaryDirectory() as folder:
        for port, *rest in ((front, broker), (names, int(namesrv.rpartition(":")[2]), *texts)):
            log = Path(folder) / f"{port}.out"
            command = [sys.executable, str(Path(__file__).parent / "bare_relay.py"), *map(str, (port, *rest))]
            process = started.enter_context(subprocess.Popen(command, stderr=log.open("w")))
            started.callback(process.kill)
            _wait_open(port, process, log)
        yield f"127.0.0.1:{names}"


@contextmanager
def running_rocketmq() -> Iterator[str]:
    """RocketMQ's name server and a broker; the name server's address."""
    _, namesrv, port, replicas = free_row(4)  # the broker takes the first too: it lies two below its own
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        started: list[subprocess.Popen[bytes]] = []
        conf = {
            "brokerClusterName": "rocketmq",
            "brokerName": "broker-a",
            "namesrvAddr": f"127.0.0.1:{namesrv}",
            "brokerIP1": "127.0.0.1",
            "listenPort": port,
            "haListenPort": replicas,
            "storePathRootDir": directory / "store",
            "storePathCommitLog": directory / "store" / "commitlog",
            "mappedFileSizeCommitLog": SEGMENT_BYTES,
        }
        try:
            for kind, settings, number in (("namesrv", {"listenPort": namesrv}, namesrv), ("broker", conf, port)):
                started.append(_java_service(kind, settings, directory))
                _wait_open(number, started[-1], directory / f"{kind}.out")
            yield f"127.0.0.1:{namesrv}"
        finally:
            for process in reversed(started):
                process.terminate()
                try:
                    process.wait(_LATE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def kinds(threads: int) -> dict[str, tuple[int, int]]:
    """{what is sent: (messages of a batch, threads)}."""
    batches = {f"batches of {BATCH}, threads: {count}": (BATCH, count) for count in sorted({1, threads})}
    return {**batches, "single sends": (1, 1)}


def run_turns(loads: Mapping[str, Load], *, threads: int, seconds: float, rounds: int) -> dict[str, Any]:
    """{kind: {peer: rounds}}. Before the first round of a kind each has one that does not count; who begins changes."""
    found: dict[str, Any] = {}
    for kind, (batch, count) in kinds(threads).items():
        found[kind] = {peer: [] for peer in loads}
        for number in range(-1, rounds):
            for peer in sorted(loads, reverse=number % 2 == 1):
                one = loads[peer].round(batch=batch, threads=count, seconds=seconds)
                if number >= 0:
                    found[kind][peer].append(one)
    return found


def compare(rounds: Mapping[str, Sequence[Round]]) -> dict[str, float]:
    """The proxy's median as a share of RocketMQ's: of messages a second, and of p50; and that of the relay's p50."""
    shares = {}
    for key, peer, name in (
        ("messages_per_second", PROXY, "messages_per_second"),
        ("p50_us", PROXY, "p50_us"),
        ("relayed_p50_us", RELAYED, "p50_us"),
    ):
        ours, theirs = (median(one[name] for one in rounds[each]) for each in (peer, ROCKETMQ))
        shares[key] = round(ours / theirs, 3) if theirs else 0.0
    return shares


def table(found: Mapping[str, Mapping[str, Sequence[Round]]]) -> str:
    """A row for each kind, with each round."""
    heads = ("", "proxy", "RocketMQ", "rate", "proxy's p50", "RocketMQ's p50", "p50", "p50 behind a bare relay")
    rows = [f"| {' | '.join(heads)} |".replace("|  |", "| |"), "|---" * len(heads) + "|"]
    for kind, rounds in found.items():
        shares = compare(rounds)
        both = (PROXY, ROCKETMQ)
        rates = [", ".join(f"{one['messages_per_second'] / 1000:.1f}" for one in rounds[peer]) for peer in both]
        delays = [", ".join(f"{one['p50_us']:.0f}" for one in rounds[peer]) for peer in (*both, RELAYED)]
        cells = [f"{rate} k/s" for rate in rates] + [f"{shares['messages_per_second']:.0%}"]
        cells += [f"{delay} us" for delay in delays[:2]]
        cells += [f"{shares['p50_us']:.2f} x", f"{delays[2]} us: {shares['relayed_p50_us']:.2f} x"]
        rows.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    fetch_tests()
    log_files = [f"store.segment_bytes={SEGMENT_BYTES}"]
    with (
        tempfile.TemporaryDirectory() as folder,
        running_cluster(groups=1, settings=log_files) as proxy,
        running_rocketmq() as rocketmq,
        relayed(rocketmq) as relay,
        Load(proxy, Path(folder) / "proxy.err") as ours,
        Load(rocketmq, Path(folder) / "rocketmq.err") as theirs,
        Load(relay, Path(folder) / "relay.err") as behind,
    ):
        loads = {PROXY: ours, ROCKETMQ: theirs, RELAYED: behind}
        found = run_turns(loads, threads=options.threads, seconds=options.seconds, rounds=options.rounds)
        errors = "".join((Path(folder) / f"{name}.err").read_text()[-1000:] for name in ("proxy", "rocketmq", "relay"))
    shares = {kind: compare(rounds) for kind, rounds in found.items()}
    print(json.dumps({"rounds": found, "shares": shares}) if options.json else table(found))
    if failed := sum(one["failed"] for rounds in found.values() for peer in rounds.values() for one in peer):
        raise SystemExit(f"{failed} sends failed:\n{errors}")


if __name__ == "__main__":
    main()
