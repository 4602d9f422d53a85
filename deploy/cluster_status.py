"""The status of a local cluster: which processes run, and the state of each replica group.

In-sync set and master come from the controller (or the static master), positions and roles from each broker. If no
controller answers, the master is the broker that claims it in the highest epoch, and the in-sync set is unknown.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..client.connection.controller_calls import ControllerCalls, GroupState
from ..model.errors import BrokerBusy, ConnectionLost, RequestTimeout, ZenitError
from ..model.groups.group import GroupNode
from ..remoting.client import RemotingClient
from ..remoting.commands import GetBrokerStatistics, Reply, RequestFor
from .cluster_keys import administrator
from .cluster_plan import group_names, replica_names, static_master
from .cluster_record import BROKER, CONTROLLER, ClusterRecord, ProcessRecord, ServerRecord
from .processes import is_running

ASK_TIMEOUT_MS: Final = 1_000
CONTROLLER_TIMEOUT_MS: Final = 1_500
OFFSETS: Final = ("written", "flushed", "confirm")
UNKNOWN: Final = GroupState(None, None)
"""The state of a group if no controller, or static master, has answered."""

Statistics = Mapping[str, Any] | None
"""A broker's answer; None: it gave none."""


def status_document(record: ClusterRecord) -> dict[str, Any]:
    """The document of `zenit status --json` (docs/operate.md)."""
    processes, groups = [], []
    for process in record.processes:
        entry: dict[str, Any] = {"role": process.role, "name": process.name, "pid": process.pid}
        entry |= {"address": process.address, "up": is_running(process.pid, process.birth)}
        if process.metrics:
            entry["metrics"] = process.metrics
        if process.remoting:
            entry["remoting"] = process.remoting
        if process.store_dir is not None:
            entry["store_dir"] = process.store_dir
        processes.append(entry)
    with administrator(record) as remoting:
        static = record.shape.has_static_masters
        running = [c.address for c in record.of_role(CONTROLLER) if is_running(c.pid, c.birth)]
        leader, states = (None, _ask_masters(remoting, record)) if static else ask_controllers(remoting, running)
        for group in group_names(record.shape):
            found = (record.find(BROKER, name) for name in replica_names(group, record.shape))
            brokers = [broker for broker in found if broker is not None]
            answers = {broker.name: _statistics(remoting, broker) for broker in brokers}
            groups.append(group_document(group, brokers, answers, states.get(group, UNKNOWN), record.shape.min_in_sync))
    document: dict[str, Any] = {"cluster": record.cluster, "cluster_id": record.cluster_id, "namesrv": record.namesrv}
    document |= {"processes": processes, "groups": groups}
    return document | {"controller": leader} if record.shape.has_controllers else document


def group_document(
    group: str,
    brokers: Sequence[ServerRecord],
    answers: Mapping[str, Statistics],
    state: GroupState,
    min_in_sync: int,
) -> dict[str, Any]:
    """One group. `state`: from its controller, or its static master; UNKNOWN if there is neither, or none answers.

    `in_sync`: None if unknown. `blocked`: why nobody is elected and no set changes, and what ends that; None if nothing is
    blocked. `no_master`: what an operator must do for a group without a master; None if nothing.
    """
    node = state.known.node if state.known is not None else None
    replicas = [_replica_document(broker, answers[broker.name]) for broker in brokers]
    masters = [replica for replica in replicas if replica["role"] == "master"]
    leading = max(masters, key=lambda replica: replica["epoch"], default=None)
    master = leading["name"] if leading is not None else None
    in_sync = None if len(brokers) > 1 else [] if master is None else [master]
    epoch = max((replica["epoch"] for replica in replicas if replica["epoch"] is not None), default=None)
    if node is not None:
        master, in_sync, epoch = node.master, list(node.in_sync), node.epoch
        min_in_sync = node.settings.min_in_sync
    ends = {replica["name"]: replica["written_offset"] for replica in replicas if replica["written_offset"] is not None}
    longest = ends.get(master or "", max(ends.values(), default=None))
    for replica in replicas:
        written = replica["written_offset"]
        replica["lag_bytes"] = None if written is None or longest is None else max(0, longest - written)
    leader = answers.get(master or "")
    return {
        "broker_name": group,
        "group_id": (node.group_id or None) if node is not None else None,
        "epoch": epoch,
        "master": master,
        "in_sync": in_sync,
        "min_in_sync": min_in_sync,
        "blocked": None if state.lost is None else str(state.lost),
        "no_master": None if node is None or state.lost is not None else _master_wanted(node, replicas),
        "retention_holds": list(leader.get("retention_holds", ())) if leader is not None else [],
        "replicas": replicas,
    }


def _master_wanted(node: GroupNode, replicas: Sequence[Mapping[str, Any]]) -> str | None:
    """How to get a master for the group; None if there is one, or one is elected without an operator."""
    electable = sorted({*node.in_sync, *node.eligible})
    if any(replica["name"] in electable and replica["role"] != "down" for replica in replicas):
        return None
    if electable:
        return f"start one of {', '.join(electable)}: only they are known to have all messages"
    return force_wanted(node)


def force_wanted(node: GroupNode) -> str | None:
    """The command for a group in which no replica is known to have all messages; None if one is."""
    if node.epoch == 0 or node.in_sync or node.eligible:
        return None
    return f"nobody is known to have all messages: zenit controller elect {node.broker_name} --force"


def _replica_document(broker: ServerRecord, statistics: Statistics) -> dict[str, Any]:
    """One replica; all values null if it does not answer. A broker without replicas reports its store's positions.

    A replica that has halted takes no part in the present term: its role is "halted", and `halted` says why, and what to
    do. `delayed_damaged`: delayed messages blocked by damage; `delayed_lost`: those of them that no replica has whole.
    """
    replica: dict[str, Any] = {"name": broker.name, "address": broker.address, "role": "down", "epoch": None}
    facts: Mapping[str, Any] = {}
    if statistics is not None:
        positions = statistics["positions"]
        alone = {name: positions[f"{name}_offset"] for name in OFFSETS}
        epoch = statistics["epoch"]
        facts = statistics.get("replication") or alone | {"role": "master", "epoch": epoch, "newest_epoch": epoch}
        replica |= {"role": "halted" if facts.get("halted") else facts["role"], "epoch": facts["epoch"]}
    replica |= {"newest_epoch": facts.get("newest_epoch")}
    replica |= {f"{name}_offset": facts.get(name) for name in OFFSETS}
    replica |= {"hole_at": facts.get("hole_at"), "halted": facts.get("halted"), "drain": facts.get("drain")}
    delays = (statistics or {}).get("delays") or {}
    replica |= {"delayed_damaged": delays.get("damaged", 0), "delayed_lost": delays.get("lost", 0)}
    store = (statistics or {}).get("store") or {}
    replica |= {name: store.get(name) for name in ("refuses_writes", "deletes_early")}
    return replica | {"scrub": None if statistics is None else scrub_document(statistics)}


def scrub_document(statistics: Mapping[str, Any]) -> dict[str, Any]:
    """When a broker's log was last read, what that found, and what is damaged now; `ended_ms` null: never.

    `error`: why it was not read to its end. `under_way`: the current round, null if there is none. `quarantined`: the first
    ranges.
    """
    scrub = statistics.get("scrub") or {}
    last, current = scrub.get("last") or {}, scrub.get("current")
    repairs, store = statistics.get("repairs") or {}, statistics.get("store") or {}
    return {
        "ended_ms": last.get("ended_ms"),
        "error": last.get("error") or None,
        "damaged_ranges": last.get("damaged_ranges"),
        "damaged_entry": last.get("damaged_entry") or None,
        "mended_ranges": repairs.get("mended_ranges", 0),
        "quarantined_ranges": store.get("quarantined_ranges", 0),
        "quarantined": store.get("first_quarantined", []),
        "under_way": None if current is None else _round_document(current, bool(scrub.get("is_waiting_for_calm"))),
    }


def _round_document(current: Mapping[str, Any], is_waiting_for_calm: bool) -> dict[str, Any]:
    return {
        "begun_ms": current["begun_ms"],
        "done_bytes": current["position"] - current["begin"],
        "size_bytes": current["end"] - current["begin"],
        "is_waiting_for_calm": is_waiting_for_calm,
    }


def ask_controllers(remoting: RemotingClient, controllers: Sequence[str]) -> tuple[str | None, dict[str, GroupState]]:
    """The address of the leading controller, and its state of the groups; (None, what was told) if none leads.

    `controllers`: the addresses of those that run.
    """
    if not controllers:
        return None, {}
    calls = ControllerCalls(remoting, tuple(controllers))
    states: dict[str, GroupState] = {}
    try:
        metadata = calls.metadata(timeout_ms=CONTROLLER_TIMEOUT_MS)
        for name in metadata.broker_names:
            states[name] = calls.state(name, timeout_ms=CONTROLLER_TIMEOUT_MS)
    except ZenitError:
        return None, states
    return metadata.leader, states


def _ask_masters(remoting: RemotingClient, record: ClusterRecord) -> dict[str, GroupState]:
    """The state of the groups from their static masters."""
    states: dict[str, GroupState] = {}
    for group in group_names(record.shape):
        master = static_master(record, group)
        if master is not None and is_running(master.pid, master.birth):
            calls = ControllerCalls(remoting, (master.address,))
            with contextlib.suppress(ZenitError):
                states[group] = calls.state(group, timeout_ms=CONTROLLER_TIMEOUT_MS)
    return states


def _statistics(remoting: RemotingClient, broker: ProcessRecord) -> Statistics:
    if not is_running(broker.pid, broker.birth):
        return None
    return ask_json(remoting, broker.address, GetBrokerStatistics())


def ask_json(remoting: RemotingClient, address: str, request: RequestFor[Reply]) -> dict[str, Any] | None:
    """The JSON document of a reply; None if nobody answers yet, or the server is busy."""
    try:
        _, payload = remoting.call(address, request, timeout_ms=ASK_TIMEOUT_MS)
    except (ConnectionLost, RequestTimeout, BrokerBusy):
        return None
    document: dict[str, Any] = json.loads(payload)
    return document
