"""Applies a fault to servers of a cluster, and repairs it.

`begun` is a context manager: inside, the fault is complete; on exit it is mended, whatever happened. Mending starts what has
ended; the caller waits until all is in sync again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ....model.clock import monotonic_ms, sleep_ms
from ....model.errors import InvalidParameter
from ...cluster_record import CONTROLLER, NAME_SERVER, ZOOKEEPER, ServerRecord
from ..catalogue import CUTS_NETWORK, OF_FILES, Deed, Fault, Whom
from ..drilled_cluster import DrilledCluster
from ..servers import Servers
from .file_faults import Tools, file_fault


def whom(cluster: DrilledCluster, fault: Fault, seed: int = 0) -> list[ServerRecord]:
    """The present target servers of a fault. `seed`: chooses them if the fault does not.

    Raises InvalidParameter if the cluster has none.
    """
    found: dict[Whom, Callable[[], Sequence[ServerRecord | None]]] = {
        Whom.MASTER: lambda: [cluster.master()],
        Whom.SLAVE: lambda: cluster.slaves()[:1],
        Whom.SLAVE_THEN_ELECTED: lambda: cluster.slaves()[:1],
        Whom.ELECTED: lambda: [cluster.master()],
        Whom.EACH_BROKER: lambda: [*cluster.slaves(), cluster.master()],
        Whom.EACH_CONTROLLER: lambda: _leader_last(cluster),
        Whom.EACH_NAME_SERVER: lambda: cluster.of_role(NAME_SERVER),
        Whom.ALL_BROKERS: cluster.brokers,
        Whom.CONTROLLER: lambda: [cluster.leading_controller()],
        Whom.ALL_CONTROLLERS: lambda: cluster.of_role(CONTROLLER),
        Whom.ZOOKEEPER: lambda: cluster.of_role(ZOOKEEPER),
        Whom.MINORITY: lambda: _minority(cluster, seed),
    }
    servers = [server for server in found[fault.whom]() if server is not None]
    if not servers:
        raise InvalidParameter("cluster", cluster.servers.where, f"a cluster with a server to {fault}")
    return servers


@contextmanager
def begun(cluster: DrilledCluster, fault: Fault, targets: Sequence[ServerRecord], tools: Tools) -> Iterator[None]:
    """Applies the fault and mends it on exit. Raises InvalidParameter if this run cannot do it.

    Removed data of ZooKeeper counts as lost (`tools.watch.lost_at`) until the caller sees all in sync again.
    """
    servers = cluster.servers
    if fault.deed in OF_FILES:
        with file_fault(cluster, fault, targets, tools):
            yield
        return
    try:
        _apply(servers, fault, targets)
        yield
    finally:
        if fault.deed in CUTS_NETWORK:
            servers.join_again()
        elif fault.deed in (Deed.PAUSE, Deed.SLOW):
            servers.go_on(targets)
        else:
            servers.start_again()


def _apply(servers: Servers, fault: Fault, targets: Sequence[ServerRecord]) -> None:
    if fault.deed in CUTS_NETWORK:
        for target in targets:
            servers.cut_off(target, fault.deed)
    elif fault.deed in (Deed.PAUSE, Deed.SLOW):
        servers.pause(targets)
    elif fault.deed is Deed.STOP:
        for target in targets:
            servers.stop(target)
    else:
        servers.kill(targets)
        for target in targets if fault.deed is Deed.WIPE else ():
            servers.wipe(target)


def hold(servers: Servers, fault: Fault, targets: Sequence[ServerRecord], on_tick: Callable[[], None]) -> None:
    """Waits for the duration of an applied fault. `on_tick`: called now and then."""
    deadline_ms = monotonic_ms() + fault.hold_ms
    stopped_ms, running_ms = servers.slow_turns_ms
    while (left_ms := deadline_ms - monotonic_ms()) > 0:
        if fault.deed is Deed.SLOW:
            servers.go_on(targets)
            sleep_ms(min(running_ms, left_ms))
            servers.pause(targets)
            sleep_ms(min(stopped_ms, left_ms))
        else:
            sleep_ms(min(100, left_ms))
        on_tick()


def _leader_last(cluster: DrilledCluster) -> list[ServerRecord]:
    leader = cluster.leading_controller()
    return sorted(cluster.of_role(CONTROLLER), key=lambda one: one == leader)


def _minority(cluster: DrilledCluster, seed: int) -> list[ServerRecord]:
    """Fewer than half of the replicas, but at least one."""
    members = cluster.members(cluster.group())
    return random.Random(seed).sample(members, max(1, (len(members) - 1) // 2))
