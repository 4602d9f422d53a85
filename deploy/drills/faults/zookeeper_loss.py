"""Deletes the data of a cluster's own ZooKeeper, or restores it to a state before a change of master.

    emptied      killed; its data directory removed; started
    set back     killed; its data directory copied; started; each group gets another master; killed; the copy restored;
                 started
    wiped first  a slave is killed and its store removed, ZooKeeper emptied; the controllers and the other replicas are
                 stopped until that slave runs again, the replicas until it had time to register

Everything is started by `zenit up`, also a controller that has ended meanwhile.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Sequence
from typing import Final

from ....client.connection.controller_calls import ControllerCalls
from ....model.clock import monotonic_ms, sleep_ms
from ....model.errors import ReplicaGroupNotFound, RequestTimeout, StoreFormatError, ZenitError
from ....remoting.client import RemotingClient
from ....remoting.commands import GetBrokerStatistics
from ...cluster_record import BROKER, CONTROLLER, ZOOKEEPER, ProcessRecord
from ...cluster_status import ask_json
from ...embedded_zookeeper import DATA_FOLDER
from ...processes import is_running
from ..catalogue import Deed
from ..drilled_cluster import DrilledCluster
from ..operator import Operator
from ..process_servers import ProcessServers

STARTED_MS: Final = 60_000
REGISTERS_MS: Final = 300
"""A replica without a group tries to register each 0.2 s; a new leading controller listens for a second."""
POLL_MS: Final = 20
ASK_MS: Final = 500
KEPT_SUFFIX: Final = ".kept"


def lose(cluster: DrilledCluster, processes: ProcessServers, deed: Deed, on_losing: Callable[[], None]) -> str | None:
    """`on_losing`: called before ZooKeeper loses anything. `processes`: the cluster's servers.

    Returns when everything runs again; returns the name of the wiped replica, None if there is none.
    """
    if deed is Deed.SET_BACK:
        _set_back(cluster, processes, on_losing)
    elif deed is Deed.EMPTY:
        on_losing()
        shutil.rmtree(_killed(processes))
        processes.up()
    else:
        on_losing()
        return _empty_with_wiped_first(cluster, processes)
    return None


def _set_back(cluster: DrilledCluster, processes: ProcessServers, on_losing: Callable[[], None]) -> None:
    data = _killed(processes)
    kept = data + KEPT_SUFFIX
    shutil.copytree(data, kept)
    try:
        processes.up()
        cluster.wait_healthy()
        for group in cluster.all_groups():
            Operator(cluster).elect_another(str(group["broker_name"]))
        cluster.wait_healthy()
        on_losing()
        shutil.rmtree(_killed(processes))
        os.rename(kept, data)
    finally:
        shutil.rmtree(kept, ignore_errors=True)
    processes.up()


def _empty_with_wiped_first(cluster: DrilledCluster, processes: ProcessServers) -> str:
    wiped = processes.process(cluster.slaves()[0].name)
    others = [broker for broker in processes.listed(BROKER) if broker.name != wiped.name]
    controllers = processes.listed(CONTROLLER)
    processes.pause(controllers)
    try:
        data = _killed(processes)
        processes.kill([wiped])
        shutil.rmtree(data)
        processes.wipe(wiped)
        processes.up(lambda: _let_register_first(processes, wiped, controllers, others))
    finally:
        _send([*controllers, *others], signal.SIGCONT)
    return wiped.name


def _let_register_first(
    processes: ProcessServers,
    wiped: ProcessRecord,
    controllers: Sequence[ProcessRecord],
    others: Sequence[ProcessRecord],
) -> None:
    with processes.client() as remoting:
        _wait("the wiped replica runs again", lambda: _runs_again(processes, remoting, wiped))
        _send(others, signal.SIGSTOP)
        try:
            _send(controllers, signal.SIGCONT)
            calls = ControllerCalls(remoting, tuple(controller.address for controller in controllers))
            _wait("a controller leads that knows no group", lambda: _knows_nothing(calls, wiped.group or ""))
            sleep_ms(REGISTERS_MS)
        finally:
            _send(others, signal.SIGCONT)


def _runs_again(processes: ProcessServers, remoting: RemotingClient, wiped: ProcessRecord) -> bool:
    try:
        now = processes.process(wiped.name)
    except StoreFormatError:  # read while `zenit up` rewrites it
        return False
    return now.pid != wiped.pid and ask_json(remoting, now.address, GetBrokerStatistics()) is not None


def _knows_nothing(calls: ControllerCalls, group: str) -> bool:
    try:
        return calls.state(group, timeout_ms=ASK_MS).known is None
    except ReplicaGroupNotFound:
        return True
    except ZenitError:  # it does not lead yet, or no longer
        return False


def _killed(processes: ProcessServers) -> str:
    """Kills ZooKeeper; returns its data directory."""
    (zookeeper,) = processes.listed(ZOOKEEPER)
    processes.kill([zookeeper])
    return os.path.join(zookeeper.store_dir or "", DATA_FOLDER)


def _send(processes: Sequence[ProcessRecord], number: signal.Signals) -> None:
    for process in processes:
        if is_running(process.pid, process.birth):
            os.kill(process.pid, number)


def _wait(what: str, condition: Callable[[], bool]) -> None:
    deadline_ms = monotonic_ms() + STARTED_MS
    while not condition():
        if monotonic_ms() >= deadline_ms:
            raise RequestTimeout(what, STARTED_MS)
        sleep_ms(POLL_MS)
