"""Applies a fault to the processes of a cluster, and repairs it. Processes are found by pid and start time.

`begun` is a context manager: inside, the fault is complete; on exit it is mended, whatever happened. Mending starts what is
down by `zenit up`; the caller waits until all is in sync again.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ....model.clock import monotonic_ms, sleep_ms
from ....model.errors import InvalidParameter, RequestTimeout
from ...cluster_record import CONTROLLER, NAME_SERVER, ZOOKEEPER, ProcessRecord
from ...processes import is_running, terminate, wait_ended
from ..catalogue import CUTS_NETWORK, FAILS_DISK, LOSES_NODES, Deed, Fault, Whom
from ..drilled_cluster import DrilledCluster
from ..operator import Operator
from ..report import RotAccount
from ..watch import Watch
from . import partition, zookeeper_loss
from .bit_rot import rot
from .disk_faults import DiskFault, DiskFaults
from .power_cut import CutReport, PowerCut

ENDED_MS = 10_000
STOP_MS = 20_000
SLOW_STOPPED_MS, SLOW_RUNNING_MS = 40, 10
BITES_MS = 1_000
"""After this time without room for a chunk, a full disk has had its effect; its replica is still in sync."""
ELECTED_MS = 20_000


@dataclass(slots=True)
class Tools:
    """What some faults need; None or False if this run does not have it. `seed`: for the next power cut or bit rot.

    `watch`, `rot`: of the current run; errors that a fault finds are reported to the watch.
    """

    power_cut: PowerCut | None = None
    disk_faults: DiskFaults | None = None
    is_apart: bool = False  # brokers were started by partition.start_apart
    seed: int = 0
    watch: Watch = field(default_factory=Watch)
    rot: RotAccount = field(default_factory=RotAccount)
    last_cut: CutReport | None = None

    def environment(self) -> dict[str, str] | None:
        """The environment for processes that are started."""
        library = self.power_cut or self.disk_faults
        return None if library is None else library.environment()


def whom(cluster: DrilledCluster, fault: Fault, seed: int = 0) -> list[ProcessRecord]:
    """The present target processes of a fault. `seed`: chooses them if the fault does not.

    Raises InvalidParameter if the cluster has none.
    """
    found: dict[Whom, Callable[[], Sequence[ProcessRecord | None]]] = {
        Whom.MASTER: lambda: [cluster.master()],
        Whom.SLAVE: lambda: cluster.slaves()[:1],
        Whom.SLAVE_THEN_ELECTED: lambda: cluster.slaves()[:1],
        Whom.ELECTED: lambda: [cluster.master()],
        Whom.EACH_BROKER: lambda: [*cluster.slaves(), cluster.master()],
        Whom.EACH_CONTROLLER: lambda: _leader_last(cluster),
        Whom.EACH_NAME_SERVER: lambda: cluster.processes(NAME_SERVER),
        Whom.ALL_BROKERS: cluster.brokers,
        Whom.CONTROLLER: lambda: [cluster.leading_controller()],
        Whom.ALL_CONTROLLERS: lambda: cluster.processes(CONTROLLER),
        Whom.ZOOKEEPER: lambda: cluster.processes(ZOOKEEPER),
        Whom.MINORITY: lambda: _minority(cluster, seed),
    }
    processes = [process for process in found[fault.whom]() if process is not None]
    if not processes:
        raise InvalidParameter("cluster", cluster.directory, f"a cluster with a process to {fault}")
    return processes


@contextmanager
def begun(cluster: DrilledCluster, fault: Fault, processes: Sequence[ProcessRecord], tools: Tools) -> Iterator[None]:
    """Applies the fault and mends it on exit. Raises InvalidParameter if this run cannot do it.

    Removed data of ZooKeeper counts as lost (`tools.watch.lost_at`) until the caller sees all in sync again.
    """
    if fault.deed in CUTS_NETWORK:
        with _cut_off(cluster, fault, processes, tools):
            yield
    elif fault.deed in FAILS_DISK:
        with _disk_failing(cluster, fault, processes, tools):
            yield
    elif fault.deed in LOSES_NODES:
        with _nodes_lost(cluster, fault, tools):
            yield
    elif fault.deed is Deed.ROT:
        with _rotten(cluster, processes, tools):
            yield
    elif fault.deed in (Deed.PAUSE, Deed.SLOW):
        with _stopped(processes):
            yield
    else:
        _end(fault, processes, tools)
        try:
            yield
        finally:
            if tools.is_apart:
                _start_apart(cluster)
            cluster.up(tools.environment())


def hold(fault: Fault, processes: Sequence[ProcessRecord], on_tick: Callable[[], None]) -> None:
    """Waits for the duration of an applied fault. `on_tick`: called now and then."""
    deadline_ms = monotonic_ms() + fault.hold_ms
    while (left_ms := deadline_ms - monotonic_ms()) > 0:
        if fault.deed is Deed.SLOW:
            _send(processes, signal.SIGCONT)
            sleep_ms(min(SLOW_RUNNING_MS, left_ms))
            _send(processes, signal.SIGSTOP)
            sleep_ms(min(SLOW_STOPPED_MS, left_ms))
        else:
            sleep_ms(min(100, left_ms))
        on_tick()


def kill(process: ProcessRecord) -> None:
    """kill -9 of exactly that process; returns when it is gone. Raises RequestTimeout."""
    _send([process], signal.SIGKILL)
    if not wait_ended(process.pid, process.birth, timeout_ms=ENDED_MS):
        raise RequestTimeout(f"the end of {process.name}", ENDED_MS)


def wipe(process: ProcessRecord) -> None:
    """Empties the store of a broker that has ended."""
    if process.store_dir is None:
        raise InvalidParameter("process", process.name, "one that has a store")
    shutil.rmtree(process.store_dir)


def _end(fault: Fault, processes: Sequence[ProcessRecord], tools: Tools) -> None:
    if fault.deed is Deed.POWER_CUT and tools.power_cut is None:
        raise InvalidParameter("fault", fault, "a cluster that the drill itself started for power cuts")
    if fault.deed is Deed.STOP:
        for process in processes:
            terminate(process.pid, process.birth, timeout_ms=STOP_MS)
        return
    _send(processes, signal.SIGKILL)  # all of them first, so that they end at almost the same moment
    for process in processes:
        kill(process)
    if fault.deed is Deed.WIPE:
        for process in processes:
            wipe(process)
    if fault.deed is Deed.POWER_CUT and tools.power_cut is not None:
        tools.last_cut = tools.power_cut.cut(tools.seed, any_pages=tools.seed % 2 == 0)


@contextmanager
def _disk_failing(
    cluster: DrilledCluster, fault: Fault, processes: Sequence[ProcessRecord], tools: Tools
) -> Iterator[None]:
    if tools.disk_faults is None:
        raise InvalidParameter("fault", fault, "a cluster that the drill itself started for faults of disks")
    kind = DiskFault.HANGS if fault.deed is Deed.HANG else DiskFault.IS_FULL
    if fault.whom is Whom.ELECTED:
        (old,) = processes
        kill(old)
        processes = [cluster.next_master(old.name, ELECTED_MS)]
        cluster.up(tools.environment())
    try:
        with tools.disk_faults.begun(kind, processes):
            if fault.whom is Whom.SLAVE_THEN_ELECTED:
                sleep_ms(BITES_MS)
                kill(cluster.master())
            yield
    finally:
        cluster.up(tools.environment())


@contextmanager
def _nodes_lost(cluster: DrilledCluster, fault: Fault, tools: Tools) -> Iterator[None]:
    """Mends it as an operator would: each group is restored, and the replica with the best log becomes master."""

    def on_losing() -> None:
        tools.watch.lost_at = {
            str(group["broker_name"]): max(replica["epoch"] or 0 for replica in group["replicas"])
            for group in cluster.all_groups()
        }

    wiped = zookeeper_loss.lose(cluster, fault.deed, tools.environment(), on_losing)
    operator = Operator(cluster)
    try:
        yield
    finally:
        cluster.up(tools.environment())
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
        if wiped is not None and tools.is_apart:
            _restart_apart(cluster, wiped)


@contextmanager
def _rotten(cluster: DrilledCluster, processes: Sequence[ProcessRecord], tools: Tools) -> Iterator[None]:
    """Mends it by a scrub of every replica, which fetches bytes from others; reports the remaining damage."""
    limit = min(replica["confirm_offset"] or 0 for replica in cluster.group()["replicas"])
    mended_before = cluster.mended_ranges()
    turned = {broker.name: len(rot(broker.store_dir or "", limit=limit, seed=tools.seed)) for broker in processes}
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


def _leader_last(cluster: DrilledCluster) -> list[ProcessRecord]:
    leader = cluster.leading_controller()
    return sorted(cluster.processes(CONTROLLER), key=lambda one: one == leader)


def _minority(cluster: DrilledCluster, seed: int) -> list[ProcessRecord]:
    """Fewer than half of the replicas, but at least one."""
    members = cluster.members(cluster.group())
    return random.Random(seed).sample(members, max(1, (len(members) - 1) // 2))


@contextmanager
def _stopped(processes: Sequence[ProcessRecord]) -> Iterator[None]:
    _send(processes, signal.SIGSTOP)
    try:
        yield
    finally:
        _send(processes, signal.SIGCONT)


@contextmanager
def _cut_off(cluster: DrilledCluster, fault: Fault, processes: Sequence[ProcessRecord], tools: Tools) -> Iterator[None]:
    if not tools.is_apart:
        raise InvalidParameter("fault", fault, "a cluster that the drill itself started for partitions")
    try:
        for process in processes:
            partition.cut_off(cluster, process, fault.deed)
        yield
    finally:
        partition.mend()


def _start_apart(cluster: DrilledCluster) -> None:
    """Starts brokers that are down, each with its own group id again.

    `zenit up` starts all that is down at once, so if there are several, all but the first are then restarted.
    """
    down = [broker.name for broker in cluster.brokers() if not is_running(broker.pid, broker.birth)]
    for name in down:
        _restart_apart(cluster, name)


def _restart_apart(cluster: DrilledCluster, name: str) -> None:
    broker = cluster.process(name)
    terminate(broker.pid, broker.birth, timeout_ms=STOP_MS)
    with partition.started_as(cluster, name):
        cluster.up()


def _send(processes: Sequence[ProcessRecord], number: signal.Signals) -> None:
    for process in processes:
        if is_running(process.pid, process.birth):
            os.kill(process.pid, number)
