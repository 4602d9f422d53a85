"""Requests of a tool to the controllers: finds the leading one, asks it, or says in one line why not.

A controller that does not lead names the one that does. If one cannot be reached the next is asked, until the deadline. But a
change whose answer is only late is not sent to another: it names the version it was built on, so a second try
would do no harm, but would be refused because of the version."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import (
    ConnectionLost,
    GroupNodeLost,
    InvalidParameter,
    MasterStillAlive,
    NotLeadingController,
    ReplicaGroupNotFound,
    ReplicaNotAlive,
    RequestTimeout,
    SightingsDamaged,
    StaleGroupVersion,
    UnknownReplica,
    ZenitError,
)
from ...model.groups.group import NO_VERSION, KnownGroup
from ...model.groups.group_codec import decode_node
from ...remoting.client import RemotingClient
from ...remoting.commands import (
    SEEN_DAMAGED,
    ChangeGroup,
    ControllerReply,
    ElectMaster,
    GetBrokerConfig,
    GetClusterInfo,
    GetController,
    GetGroup,
    GroupReply,
    RemoveReplica,
    Reply,
    RequestFor,
    RestoreGroup,
)
from .name_servers import NameServers
from .waiting import Blocking, run_blocking

TRY_MS: Final = 4000
PAUSE_MS: Final = 100
HEARD_MS: Final = 5000
"""Running replicas register with a restored group within this time."""

_R = TypeVar("_R", bound=Reply)


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group as the leading controller knows it. `lost`: replicas know more of it than ZooKeeper, or may, and nothing
    changes it until it is restored; `known` is None if ZooKeeper has no node of it."""

    known: KnownGroup | None
    lost: GroupNodeLost | SightingsDamaged | None


class ControllerCalls:
    """The controllers at some addresses. Any thread; every call blocks until its deadline at most."""

    def __init__(self, remoting: RemotingClient, addresses: tuple[str, ...]) -> None:
        self.remoting = remoting
        self.addresses = addresses

    def metadata(self, *, timeout_ms: int) -> ControllerReply:
        """The leader and the groups, as the leader says. Raises NotLeadingController, ConnectionLost,
        RequestTimeout."""
        deadline_ms = monotonic_ms() + timeout_ms
        is_told = False
        while True:
            try:
                found = self._first_answer(GetController(), self.addresses, deadline_ms)
            except RequestTimeout:
                if is_told:
                    raise NotLeadingController("") from None
                raise
            if found.leader:
                return self._first_answer(GetController(), (found.leader, *self.addresses), deadline_ms)
            if monotonic_ms() + PAUSE_MS >= deadline_ms:
                raise NotLeadingController("")
            is_told = True
            sleep_ms(PAUSE_MS)

    def group(self, broker_name: str, *, timeout_ms: int) -> KnownGroup:
        """The group as it is now. Raises ReplicaGroupNotFound, NotLeadingController, ConnectionLost, RequestTimeout."""
        return self.change(GetGroup(broker_name), broker_name, timeout_ms=timeout_ms)

    def state(self, broker_name: str, *, timeout_ms: int) -> GroupState:
        """The group, and whether replicas know more of it than ZooKeeper; raises what `group` raises."""
        try:
            reply = self._of_leader(GetGroup(broker_name), timeout_ms)
        except (GroupNodeLost, SightingsDamaged) as lost:
            return GroupState(None, lost)
        known = KnownGroup(decode_node(reply.node, broker_name), reply.version)
        if reply.seen_epoch == SEEN_DAMAGED:
            return GroupState(
                known, SightingsDamaged(broker_name, "sightings", "see the log of the controller that leads")
            )
        lost_at = GroupNodeLost(broker_name, known.node.epoch, reply.seen_epoch) if reply.seen_epoch else None
        return GroupState(known, lost_at)

    def elect(self, broker_name: str, candidate: str, *, force: bool, timeout_ms: int) -> KnownGroup:
        """Makes `candidate` ("" = the best) master; returns the group after that. Raises what the controller answers.

        Requested again if the group has changed meanwhile, as it does while replicas register.
        In a group that was just restored a forced election is requested again once the dead time is over, and while the replica
        has not registered again.
        """
        deadline_ms = monotonic_ms() + timeout_ms
        heard_by_ms = monotonic_ms() + min(timeout_ms, HEARD_MS)
        while True:
            left_ms = max(1, deadline_ms - monotonic_ms())
            try:
                return self._change_present(
                    broker_name, lambda version: ElectMaster(broker_name, version, candidate, force), left_ms
                )
            except MasterStillAlive as error:
                if error.master or monotonic_ms() + error.wait_ms >= deadline_ms:
                    raise
                sleep_ms(error.wait_ms)
            except StaleGroupVersion:
                if monotonic_ms() + PAUSE_MS >= deadline_ms:
                    raise
                sleep_ms(PAUSE_MS)
            except (ReplicaNotAlive, UnknownReplica):
                if not force or monotonic_ms() + PAUSE_MS >= heard_by_ms:
                    raise
                sleep_ms(PAUSE_MS)

    def change_settings(
        self, broker_name: str, settings: tuple[tuple[str, str], ...], *, timeout_ms: int
    ) -> KnownGroup:
        """Changes the named settings, as `ChangeGroup` takes them; returns the group after that.

        Requested again if a set of the group has changed meanwhile: the change does not depend on that.
        """
        deadline_ms = monotonic_ms() + timeout_ms
        while True:
            left_ms = max(1, deadline_ms - monotonic_ms())
            try:
                return self._change_present(
                    broker_name, lambda version: ChangeGroup(broker_name, version, settings), left_ms
                )
            except StaleGroupVersion:
                if monotonic_ms() + PAUSE_MS >= deadline_ms:
                    raise
                sleep_ms(PAUSE_MS)

    def remove_replica(self, broker_name: str, name: str, *, timeout_ms: int) -> KnownGroup:
        """Removes a replica from the group; returns the group after that."""
        return self._change_present(broker_name, lambda version: RemoveReplica(broker_name, version, name), timeout_ms)

    def restore(
        self, broker_name: str, epoch: int, *, group_id: str = "", force: bool = False, timeout_ms: int
    ) -> KnownGroup:
        """Begins a group again above `epoch` after ZooKeeper lost its data; returns it. `group_id`: its id, ""
        if its replicas agree. `force`: though nothing is known to be lost."""
        return self._change_present(
            broker_name, lambda version: RestoreGroup(broker_name, version, epoch, group_id, force), timeout_ms
        )

    def _change_present(
        self, broker_name: str, request_at: Callable[[int], RequestFor[GroupReply]], timeout_ms: int
    ) -> KnownGroup:
        """A change built on the group's present version; NO_VERSION if there is no such group."""
        deadline_ms = monotonic_ms() + timeout_ms
        try:
            version = self.group(broker_name, timeout_ms=timeout_ms).version
        except (ReplicaGroupNotFound, GroupNodeLost, SightingsDamaged):
            version = NO_VERSION
        return self.change(request_at(version), broker_name, timeout_ms=max(1, deadline_ms - monotonic_ms()))

    def change(self, request: RequestFor[GroupReply], broker_name: str, *, timeout_ms: int) -> KnownGroup:
        """Any request whose answer is the group."""
        reply = self._of_leader(request, timeout_ms)
        return KnownGroup(decode_node(reply.node, broker_name), reply.version)

    def _of_leader(self, request: RequestFor[GroupReply], timeout_ms: int) -> GroupReply:
        """The answer of the leader. If the last try had too little time left, the error of the one before is raised."""
        deadline_ms = monotonic_ms() + timeout_ms
        addresses = self.addresses
        told: NotLeadingController | None = None
        while True:
            try:
                return self._first_answer(request, addresses, deadline_ms)
            except RequestTimeout:
                if told is None or not isinstance(request, GetGroup):
                    raise
                raise told from None
            except NotLeadingController as error:
                told = error
                if monotonic_ms() + PAUSE_MS >= deadline_ms:
                    raise
                if not error.leader or error.leader == addresses[0]:
                    sleep_ms(PAUSE_MS)
                addresses = tuple(dict.fromkeys((error.leader, *self.addresses))) if error.leader else self.addresses

    def _first_answer(self, request: RequestFor[_R], addresses: tuple[str, ...], deadline_ms: int) -> _R:
        """The answer of the first that can be reached. If one is silent, a query is sent to the next; a change is not."""
        asks = isinstance(request, GetController | GetGroup)
        failure: ZenitError | None = None
        for address in addresses:
            left_ms = deadline_ms - monotonic_ms()
            if left_ms <= 0:
                break
            try:
                reply, _ = self.remoting.call(address, request, timeout_ms=min(left_ms, TRY_MS) if asks else left_ms)
            except ConnectionLost as error:
                failure = failure or error
            except RequestTimeout as error:
                if not asks:
                    raise
                failure = error
            else:
                return reply
        raise failure or RequestTimeout(f"{type(request).__name__} to {addresses[0]}", TRY_MS)


def controllers_of(remoting: RemotingClient, name_servers: tuple[str, ...], *, timeout_ms: int) -> tuple[str, ...]:
    """The controllers that the cluster's brokers use. Raises InvalidParameter if no broker that answers has any."""
    asked = NameServers(name_servers).ask(GetClusterInfo(), Blocking(remoting), timeout_ms=timeout_ms)
    _, payload, _ = run_blocking(asked)
    for broker in json.loads(payload)["brokers"]:
        try:
            _, payload = remoting.call(broker["address"], GetBrokerConfig(), timeout_ms=timeout_ms)
        except (ConnectionLost, RequestTimeout):
            continue
        if controllers := json.loads(payload).get("controllers"):
            return tuple(controllers)
    raise InvalidParameter(
        "controllers", "", "--controllers HOST:PORT, since no registered broker that answers has controllers"
    )
