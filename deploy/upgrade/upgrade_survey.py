"""What runs in a cluster, as an upgrade has to know it: asked from the servers themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from ...client.admin import Admin
from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import ConnectionLost, InvalidParameter, RequestTimeout, UnknownRequest, ZenitError
from .upgrade_plan import UNKNOWN, RunningGroup, RunningReplica, RunningServer

TOGETHER: Final = 16
LOOK_MS: Final = 500


def running_servers(admin: Admin) -> list[RunningServer]:
    """All servers, each with its version. Raises what the name servers raise if none answers."""

    def ask(server: tuple[str, str]) -> RunningServer:
        role, address = server
        try:
            return RunningServer(role, address, str(admin.examine_server(address).get("version", UNKNOWN)))
        except (ConnectionLost, RequestTimeout):
            return RunningServer(role, address, None)
        except UnknownRequest:
            return RunningServer(role, address)

    with ThreadPoolExecutor(TOGETHER) as threads:
        return list(threads.map(ask, admin.servers()))


def running_groups(admin: Admin, only: str | None = None, known: Iterable[str] = ()) -> list[RunningGroup]:
    """The brokers that are registered, by name; or those of one name. `known`: groups that controllers look after, of which
    all replicas may be down. Raises what the name servers raise if none answers."""
    by_name: dict[str, list[dict[str, Any]]] = {name: [] for name in known}
    for broker in admin.cluster()["brokers"]:
        by_name.setdefault(broker["broker_name"], []).append(broker)
    wanted = by_name if only is None else {only: by_name.get(only, [])}
    return [_group(admin, name, [one["address"] for one in brokers]) for name, brokers in sorted(wanted.items())]


def _group(admin: Admin, name: str, addresses: Iterable[str]) -> RunningGroup:
    replicas, in_sync, members, minimum, elects = [], None, None, 1, False
    epoch = -1
    for address in addresses:
        try:
            statistics = admin.scrub_statistics([address])[address]
        except (ConnectionLost, RequestTimeout):
            continue
        facts = statistics.get("replication")
        if facts is None:
            replicas.append(RunningReplica(address, name, "master"))
            continue
        role = "halted" if facts["halted"] else facts["role"]
        replicas.append(RunningReplica(address, facts["replica"], role, facts.get("drain")))
        if role == "master" and facts["epoch"] > epoch and facts["in_sync"] is not None:
            epoch, in_sync, minimum = facts["epoch"], tuple(facts["in_sync"]), facts["min_in_sync"]
            members = tuple(facts.get("members") or ()) or None
            elects = bool(facts["group_id"])  # of a node that controllers keep
    return RunningGroup(name, tuple(replicas), in_sync, members, minimum, elects)


def wait_in_sync(
    admin: Admin,
    group: str | None,
    *,
    seconds: float,
    timeout_s: float,
    known: Collection[str] = (),
    told: Callable[[str], None] = lambda _: None,
) -> list[RunningGroup]:
    """Waits until a group, or all of them, have been whole for so long without a break. `told`: why not, whenever that changes.
    `known`: as for `running_groups`; none if there are no controllers.

    Raises RequestTimeout, which says what is missing; InvalidParameter if no broker has that name, at once where controllers
    would know of it.
    """
    begun_ms = monotonic_ms()
    whole_ms: int | None = None
    said = ""
    while True:
        found, missing = _look(admin, group, known)
        now_ms = monotonic_ms()
        whole_ms = None if missing else whole_ms or now_ms
        if whole_ms is not None and now_ms - whole_ms >= seconds * 1000:
            return found
        is_over = now_ms - begun_ms >= timeout_s * 1000
        if group is not None and not found and (is_over or (known and group not in known)):
            raise InvalidParameter("group", group, "a replica group, by its broker name (see zenit cluster)")
        if is_over:
            raise RequestTimeout(missing or f"{seconds:g} s in sync", round(timeout_s * 1000))
        if missing != said:
            told(missing or "whole")
            said = missing
        sleep_ms(LOOK_MS)


def _look(admin: Admin, group: str | None, known: Collection[str]) -> tuple[list[RunningGroup], str]:
    """The groups, and what is missing."""
    try:
        found = [one for one in running_groups(admin, group, known) if one.replicas or one.name in known]
    except ZenitError as error:  # a name server restarts: it is asked again
        return [], str(error)
    missing = next(filter(None, (one.missing() for one in found)), "")
    return found, missing or ("" if found else f"no broker{f' of {group}' if group else ''} is registered")


def drained(admin: Admin, address: str) -> str | None:
    """How far a broker's drain is; None if it does not drain. Raises ConnectionLost once it has ended."""
    facts = admin.scrub_statistics([address])[address].get("replication") or {}
    step: str | None = facts.get("drain")
    return step


def replica_named(groups: Iterable[RunningGroup], name: str) -> tuple[RunningGroup, RunningReplica]:
    """The broker with that address, or that name in its group. Raises InvalidParameter."""
    found = [(group, one) for group in groups for one in group.replicas if name in (one.address, one.name)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"{one.name} ({one.address})" for group in groups for one in group.replicas)
    several = "one of several of that name, by its address" if found else "a broker that is up"
    raise InvalidParameter("broker", name, f"{several}: {listed or 'there is none'}")
