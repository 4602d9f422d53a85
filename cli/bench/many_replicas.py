"""Measures the controller of a large cluster: `python -m zenitmq.cli.bench.many_replicas [--groups N] [--replicas N] ...`.

A ZooKeeper server and a controller run in processes of their own; this one takes the part of all replicas: it registers those
of every group, lets each master take its slaves into the in-sync set, and sends the heartbeats of all, as brokers do each half
second. Then the masters of some groups fall silent at the same moment. Prints JSON:

- `founding`: until every group has a master and all replicas in sync: time, CPU of controller and ZooKeeper;
- `alive`: the share of a core that both take for the heartbeats;
- `failover`: from the last heartbeat of the silent masters until a slave of each group hears of the next one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ...bench.environment import environment
from ...deploy.embedded_zookeeper import start_zookeeper, stop_zookeeper
from ...deploy.processes import birth_of, spawn, terminate
from ...model.clock import monotonic_ms, monotonic_ns, sleep_ms
from ...model.errors import SystemFault, ZenitError
from ...model.groups.group import NO_VERSION
from ...model.groups.group_codec import decode_node
from ...remoting.client import RemotingClient
from ...remoting.commands import AlterInSync, GroupReply, RegisterReplica, ReplicaHeartbeat, RequestFor

HOST: Final = "127.0.0.1"
TIMEOUT_MS: Final = 10_000
FOUND_MS: Final = 300_000
FAILOVER_MS: Final = 60_000
HEARTBEAT_MS: Final = 500
IN_FLIGHT: Final = 64
STOP_MS: Final = 10_000
TICKS: Final = os.sysconf("SC_CLK_TCK")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class SimulatedReplica:
    """What one replica knows of its group's node."""

    group: str
    name: str
    group_id: str = ""
    version: int = NO_VERSION
    epoch: int = 0
    master: str = ""
    in_sync: tuple[str, ...] = ()
    is_silent: bool = False

    @property
    def store_id(self) -> str:
        """Of its store."""
        return f"store-{self.name}"

    def registration(self) -> RegisterReplica:
        """Of a process over an empty store."""
        return RegisterReplica(
            self.group, self.name, f"{self.name}:10911", f"{self.name}:10912", self.store_id, 1, f"life-{self.name}",
            self.epoch, 0, True, 0, True, False, group_id=self.group_id, version=self.version,
        )  # fmt: skip

    def heartbeat(self) -> ReplicaHeartbeat:
        """All is well with it."""
        return ReplicaHeartbeat(self.group, self.name, self.store_id, 1, self.version, self.epoch, 0, 0)

    def adopt(self, reply: GroupReply) -> None:
        """The node in an answer, if it is another one."""
        if reply.node:
            node = decode_node(reply.node, self.group)
            self.group_id, self.version, self.epoch = node.group_id, reply.version, node.epoch
            self.master, self.in_sync = node.master or "", node.in_sync


class ReplicaFleet:
    """All replicas, as one client of the controller. One thread; answers come in another."""

    def __init__(self, address: str, groups: int, replicas: int) -> None:
        self._address = address
        self._client = RemotingClient("bench-replicas-io")
        self.groups = [
            [SimulatedReplica(f"broker-{group:04}", f"broker-{group:04}-{number}") for number in range(1, replicas + 1)]
            for group in range(groups)
        ]
        self._free = threading.Semaphore(IN_FLIGHT)
        self.refused: ZenitError | None = None

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    def all(self) -> Iterator[SimulatedReplica]:
        """All that send heartbeats."""
        return (replica for group in self.groups for replica in group if not replica.is_silent)

    def found(self) -> None:
        """Until each group has its master, and all of its replicas are in sync. Raises SystemFault."""
        until_ms = monotonic_ms() + FOUND_MS
        waiting = list(self.groups)
        while waiting:
            if monotonic_ms() > until_ms:
                raise SystemFault(f"bench many_replicas: {len(waiting)} groups are not founded: {self.refused}")
            begun_ms = monotonic_ms()
            for group in waiting:
                for replica in group:
                    self._send(replica, replica.heartbeat() if replica.group_id else replica.registration())
                leading = next((replica for replica in group if replica.name == replica.master), None)
                if leading is not None and len(leading.in_sync) < len(group):
                    members = tuple(sorted(replica.name for replica in group))
                    self._send(
                        leading,
                        AlterInSync(
                            leading.group, leading.version, leading.epoch, leading.name, leading.store_id, 1, members
                        ),
                    )
            self._settle()
            waiting = [group for group in waiting if not all(len(one.in_sync) == len(group) for one in group)]
            sleep_ms(max(0, begun_ms + HEARTBEAT_MS - monotonic_ms()))

    def beat(self) -> None:
        """One heartbeat of each replica, within half a second."""
        begun_ms = monotonic_ms()
        for replica in self.all():
            self._send(replica, replica.heartbeat())
        self._settle()
        sleep_ms(max(0, begun_ms + HEARTBEAT_MS - monotonic_ms()))

    def _send(self, replica: SimulatedReplica, request: RequestFor[GroupReply]) -> None:
        def on_reply(reply: GroupReply | None, _: bytes, error: ZenitError | None) -> None:
            if reply is not None:
                replica.adopt(reply)
            else:
                self.refused = error
            self._free.release()

        self._acquire()
        try:
            self._client.send_nowait(self._address, request, None, timeout_ms=TIMEOUT_MS, on_reply=on_reply)
        except ZenitError as error:
            on_reply(None, b"", error)

    def _settle(self) -> None:
        for _ in range(IN_FLIGHT):
            self._acquire()
        for _ in range(IN_FLIGHT):
            self._free.release()

    def _acquire(self) -> None:
        if not self._free.acquire(timeout=2 * TIMEOUT_MS / 1000):
            raise SystemFault("bench many_replicas: the controller does not answer")


class ProcessUse:
    """What some processes have used so far. Linux."""

    def __init__(self, **pids: int) -> None:
        self._pids = pids

    def cpu_seconds(self) -> dict[str, float]:
        """Of each."""
        return {name: self._cpu(pid) for name, pid in self._pids.items()}

    def since(self, before: dict[str, float], seconds: float = 1.0) -> dict[str, float]:
        """The CPU since then, a second of `seconds`."""
        return {name: round((used - before[name]) / seconds, 3) for name, used in self.cpu_seconds().items()}

    def memory_bytes(self) -> dict[str, int]:
        """Of each, in memory now."""
        found = {}
        for name, pid in self._pids.items():
            with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                found[name] = int(file.read().split()[1]) * PAGE
        return found

    @staticmethod
    def _cpu(pid: int) -> float:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def measure(fleet: ReplicaFleet, use: ProcessUse, *, seconds: int, dead: int) -> dict[str, Any]:
    """The three figures of the module."""
    before, begun_ns = use.cpu_seconds(), monotonic_ns()
    fleet.found()
    founding = {"seconds": round((monotonic_ns() - begun_ns) / 1e9, 2), "cpu_seconds": use.since(before)}
    before, begun_ns, beats = use.cpu_seconds(), monotonic_ns(), 0
    while monotonic_ns() - begun_ns < seconds * 1_000_000_000:
        fleet.beat()
        beats += sum(1 for _ in fleet.all())
    took = (monotonic_ns() - begun_ns) / 1e9
    alive = {"heartbeats_per_second": round(beats / took), "cpu_share": use.since(before, took)}
    alive |= {"memory_bytes": use.memory_bytes()}
    return {"founding": founding, "alive": alive, "failover": _failover(fleet, use, dead)}


def _failover(fleet: ReplicaFleet, use: ProcessUse, dead: int) -> dict[str, Any]:
    hit = fleet.groups[:dead]
    masters = [group[0].master for group in hit]
    for group, master in zip(hit, masters, strict=True):
        for replica in group:
            replica.is_silent = replica.name == master
    before, begun_ns = use.cpu_seconds(), monotonic_ns()
    heard: dict[int, float] = {}
    while len(heard) < len(hit):
        if monotonic_ns() - begun_ns > FAILOVER_MS * 1_000_000:
            raise SystemFault(f"bench many_replicas: {len(hit) - len(heard)} groups have no master: {fleet.refused}")
        fleet.beat()
        for number, (group, master) in enumerate(zip(hit, masters, strict=True)):
            if number not in heard and any(replica.master not in ("", master) for replica in group):
                heard[number] = (monotonic_ns() - begun_ns) / 1e9
    times = sorted(heard.values())
    return {
        "groups": len(hit),
        "first_seconds": round(times[0], 2),
        "last_seconds": round(times[-1], 2),
        "cpu_seconds": use.since(before),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m zenitmq.cli.bench.many_replicas",
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--groups", type=int, default=500, metavar="N", help="replica groups")
    parser.add_argument("--replicas", type=int, default=3, metavar="N", help="of each group")
    parser.add_argument("--seconds", type=int, default=20, metavar="N", help="how long heartbeats are measured")
    parser.add_argument("--dead", type=int, default=50, metavar="N", help="masters that fall silent together")
    parser.add_argument("--port", type=int, default=29878, metavar="N", help="free port for the controller")
    parser.add_argument("--zookeeper-port", type=int, default=22181, metavar="N", help="free port for ZooKeeper")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        zookeeper = start_zookeeper(directory, options.zookeeper_port)
        settings = [f"host={HOST}", f"port={options.port}", f"zookeeper={zookeeper.address}"]
        settings.append(f"new_group.replicas={options.replicas}")
        command = [
            sys.executable,
            "-m",
            "zenitmq",
            "controller",
            *(word for each in settings for word in ("--set", each)),
        ]
        pid = spawn(command, log_path=os.path.join(directory, "controller.log"), environ=os.environ)
        birth = birth_of(pid) or ""
        fleet = ReplicaFleet(f"{HOST}:{options.port}", options.groups, options.replicas)
        try:
            figures = measure(
                fleet, ProcessUse(controller=pid, zookeeper=zookeeper.pid), seconds=options.seconds, dead=options.dead
            )
        finally:
            fleet.close()
            terminate(pid, birth, timeout_ms=STOP_MS)
            stop_zookeeper(zookeeper)
        document = {"environment": environment(directory), "groups": options.groups, "replicas": options.replicas}
    print(json.dumps(document | figures, indent=1))


if __name__ == "__main__":
    main()
