"""The faults of files: disks, power, rotten bits, and ZooKeeper's data. For processes of this machine, whose files are here.

Tools are what a run needs for them, and its account of what they did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from ....model.clock import sleep_ms
from ....model.errors import InvalidParameter
from ...cluster_record import ServerRecord
from ..catalogue import FAILS_DISK, LOSES_NODES, Deed, Fault, Whom
from ..drilled_cluster import DrilledCluster
from ..operator import Operator
from ..process_servers import ProcessServers
from ..report import RotAccount
from ..watch import Watch
from . import zookeeper_loss
from .bit_rot import rot
from .disk_faults import DiskFault, DiskFaults
from .power_cut import CutReport, PowerCut

BITES_MS: Final = 1_000
"""After this time without room for a chunk, a full disk has had its effect; its replica is still in sync."""
ELECTED_MS: Final = 20_000


@dataclass(slots=True)
class Tools:
    """What some faults need; None if this run does not have it. `processes`: the servers, if their files are here. `seed`:
    for the next power cut or bit rot.

    `watch`, `rot`: of the current run; errors that a fault finds are reported to the watch.
    """

    processes: ProcessServers | None = None
    power_cut: PowerCut | None = None
    disk_faults: DiskFaults | None = None
    seed: int = 0
    watch: Watch = field(default_factory=Watch)
    rot: RotAccount = field(default_factory=RotAccount)
    last_cut: CutReport | None = None


@contextmanager
def file_fault(cluster: DrilledCluster, fault: Fault, servers: Sequence[ServerRecord], tools: Tools) -> Iterator[None]:
    """Applies the fault and mends it on exit. Raises InvalidParameter if this run cannot do it."""
    processes = tools.processes
    if processes is None:
        raise InvalidParameter("fault", fault, "a cluster whose files are on this machine")
    if fault.deed in FAILS_DISK:
        with _disk_failing(cluster, processes, fault, servers, tools):
            yield
    elif fault.deed in LOSES_NODES:
        with _nodes_lost(cluster, processes, fault, tools):
            yield
    elif fault.deed is Deed.ROT:
        with _rotten(cluster, processes, servers, tools):
            yield
    else:
        _cut_power(processes, fault, servers, tools)
        try:
            yield
        finally:
            processes.start_again()


def _cut_power(processes: ProcessServers, fault: Fault, servers: Sequence[ServerRecord], tools: Tools) -> None:
    if tools.power_cut is None:
        raise InvalidParameter("fault", fault, "a cluster that the drill itself started for power cuts")
    processes.kill(servers)
    tools.last_cut = tools.power_cut.cut(tools.seed, any_pages=tools.seed % 2 == 0)


@contextmanager
def _disk_failing(
    cluster: DrilledCluster, processes: ProcessServers, fault: Fault, servers: Sequence[ServerRecord], tools: Tools
) -> Iterator[None]:
    if tools.disk_faults is None:
        raise InvalidParameter("fault", fault, "a cluster that the drill itself started for faults of disks")
    kind = DiskFault.HANGS if fault.deed is Deed.HANG else DiskFault.IS_FULL
    if fault.whom is Whom.ELECTED:
        (old,) = servers
        processes.kill([old])
        servers = [cluster.next_master(old.name, ELECTED_MS)]
        processes.up()
    try:
        with tools.disk_faults.begun(kind, [processes.process(server.name) for server in servers]):
            if fault.whom is Whom.SLAVE_THEN_ELECTED:
                sleep_ms(BITES_MS)
                processes.kill([cluster.master()])
            yield
    finally:
        processes.up()


@contextmanager
def _nodes_lost(cluster: DrilledCluster, processes: ProcessServers, fault: Fault, tools: Tools) -> Iterator[None]:
    """Mends it as an operator would: each group is restored, and the replica with the best log becomes master."""

    def on_losing() -> None:
        tools.watch.lost_at = {
            str(group["broker_name"]): max(replica["epoch"] or 0 for replica in group["replicas"])
            for group in cluster.all_groups()
        }

    wiped = zookeeper_loss.lose(cluster, processes, fault.deed, on_losing)
    operator = Operator(cluster)
    try:
        yield
    finally:
        processes.up()
        names = [str(group["broker_name"]) for group in cluster.all_groups()]
        for name in names:
            operator.wait_blocked(name)
        if fault.deed is not Deed.SET_BACK:
            for group in cluster.all_groups():
                if group["group_id"] is not None:
                    tools.watch.tell(f"{group['broker_name']}: founded anew, as {group['group_id']}")
        tools.watch.lost_at = {}
        for name in names:
            operator.restore(name)
        if wiped is not None and processes.is_apart:
            processes.restart_apart(wiped)


@contextmanager
def _rotten(
    cluster: DrilledCluster, processes: ProcessServers, servers: Sequence[ServerRecord], tools: Tools
) -> Iterator[None]:
    """Mends it by a scrub of every replica, which fetches bytes from others; reports the remaining damage."""
    limit = min(replica["confirm_offset"] or 0 for replica in cluster.group()["replicas"])
    mended_before = cluster.mended_ranges()
    stores = {server.name: processes.process(server.name).store_dir or "" for server in servers}
    turned = {name: len(rot(store, limit=limit, seed=tools.seed)) for name, store in stores.items()}
    tools.rot += RotAccount(bits_turned=sum(turned.values()))
    try:
        yield
    finally:
        for broker in cluster.brokers():
            found = Operator(cluster).scrub(broker.address)
            mended = found["mended_ranges"] - mended_before.get(broker.name, 0)
            tools.rot += RotAccount(ranges_found=found["damaged_ranges"] or 0, ranges_mended=mended)
            if found["quarantined_ranges"]:
                tools.watch.tell(f"{broker.name}: {found['quarantined_ranges']} damaged ranges were not mended")
            if turned.get(broker.name) and not mended:
                tools.watch.tell(f"{broker.name}: its bits have rotted, and nobody has found it")
