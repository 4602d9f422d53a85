"""The connected clients: producers and consumers by group, kept alive by heartbeats. Pure; owned by the loop thread.

Each change returns the groups whose membership or subscriptions changed; the shell notifies their members.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from ...model.errors import AllocationConflict, BrokerBusy, DuplicateClient, GroupConsumedOtherwise
from ...model.plain_dataclass import dataclass
from ...model.subscription import MessageModel
from ..filter.subscription_check import GroupSubscriptions, SubscriptionDisagreement, Subscriptions

Consumers = tuple[tuple[str, str, Subscriptions], ...]  # (group, message model, subscriptions)

MISSED_MAX = 3  # missing heartbeats after which a client is removed
RETRY_MS = 5_000

_POPPING = MessageModel.POPPING.value


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """What a client says about itself; "" and 0 for what it does not say."""

    language: str = ""
    version: str = ""
    host: str = ""
    pid: int = 0
    started_at_ms: int = 0
    allocation: str = ""

    def is_another_than(self, known: ClientInfo) -> bool:
        """True if this is another process than `known`, as far as both say."""
        said = self.started_at_ms and known.started_at_ms
        return bool(said) and (self.pid, self.started_at_ms) != (known.pid, known.started_at_ms)


UNTOLD = ClientInfo()


@dataclass(frozen=True, slots=True)
class ClientOwner:
    """Whose client it is: the user, and the key and IP address from which its last heartbeat came; all "" without keys."""

    user: str = ""
    key: str = ""
    address: str = ""


NOBODY = ClientOwner()


@dataclass(frozen=True, slots=True)
class Client:
    """What a client's last heartbeat said, and when (monotonic). `identity`: its connection, for one-way requests."""

    client_id: str
    identity: bytes
    seen_ms: int
    producers: tuple[str, ...]
    consumers: Consumers
    info: ClientInfo = UNTOLD
    owner: ClientOwner = NOBODY


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One consumer of a group."""

    client_id: str
    identity: bytes
    model: str
    subscriptions: Subscriptions


class ClientRegistry:
    """Clients by id, members by group."""

    __slots__ = ("_clients", "_clients_max", "_groups", "_wants", "heartbeat_ms")

    def __init__(self, *, heartbeat_ms: int, clients_max: int) -> None:
        """`heartbeat_ms`: the interval of heartbeats; a client that misses three is removed."""
        self.heartbeat_ms = heartbeat_ms
        self._clients_max = clients_max
        self._clients: dict[str, Client] = {}
        self._groups: dict[str, dict[str, ConsumerMember]] = {}
        self._wants: dict[str, GroupSubscriptions] = {}  # of the same groups

    def on_heartbeat(
        self,
        now_ms: int,
        *,
        client_id: str,
        identity: bytes,
        producers: tuple[str, ...],
        consumers: Consumers,
        info: ClientInfo = UNTOLD,
        owner: ClientOwner = NOBODY,
    ) -> list[str]:
        """A client's heartbeat; returns the groups that changed, sorted.

        Raises BrokerBusy over the limit of clients; DuplicateClient if another process has the same id, because both would take
        the same share, or another user, who would get what is pushed to the first (the first one stays until it has missed
        three heartbeats); AllocationConflict if a member has another allocation, because some queues would have several owners,
        others none.
        """
        before = self._clients.get(client_id)
        if before is not None and (info.is_another_than(before.info) or owner.user != before.owner.user):
            raise DuplicateClient(client_id, before.info.host, before.info.pid)
        if before is None and len(self._clients) >= self._clients_max:
            raise BrokerBusy(RETRY_MS, f"more than {self._clients_max} clients")
        for group, model, _ in consumers:
            self._check_kind(group, model, client_id)
            is_in = client_id in self._groups.get(group, {})
            if before is None or not is_in or before.info.allocation != info.allocation:
                self._check_allocation(group, model, client_id, info.allocation)
        self._clients[client_id] = Client(client_id, identity, now_ms, producers, consumers, info, owner)
        changed: set[str] = set()
        left = {group for group, _, _ in before.consumers} if before is not None else set()
        for group, model, subscriptions in consumers:
            left.discard(group)
            members = self._groups.setdefault(group, {})
            known = members.get(client_id)
            members[client_id] = ConsumerMember(client_id, identity, model, subscriptions)
            if known is None or (known.model, known.subscriptions) != (model, subscriptions):
                changed.add(group)
                wants = self._wants.setdefault(group, GroupSubscriptions())
                if known is not None:
                    wants.take_out(client_id, _shared(known))
                wants.put(client_id, _shared(members[client_id]))
        for group in left:
            self._leave(group, client_id)
        return sorted(changed | left)

    def kept(self, client_id: str, identity: bytes, owner: ClientOwner) -> Client | None:
        """The client of that id, if its last heartbeat came by that connection, and from that user."""
        client = self._clients.get(client_id)
        is_same = client is not None and client.identity == identity and client.owner.user == owner.user
        return client if is_same else None

    def keep(self, client: Client, now_ms: int, owner: ClientOwner) -> None:
        """It lives, and says what it said."""
        self._clients[client.client_id] = replace(client, seen_ms=now_ms, owner=owner)

    def _check_kind(self, group: str, model: str, client_id: str) -> None:
        """A group is popped from, or its queues are consumed: the first kind stays, as with ids."""
        for other, member in self._groups.get(group, {}).items():
            if other != client_id and (member.model == _POPPING) != (model == _POPPING):
                raise GroupConsumedOtherwise(group, "pop" if member.model == _POPPING else "queues", other)

    def _check_allocation(self, group: str, model: str, client_id: str, allocation: str) -> None:
        """The first allocation stays, as with ids; broadcasting members and those that name none are not compared."""
        if not allocation or model != MessageModel.CLUSTERING.value:
            return
        for other, member in self._groups.get(group, {}).items():
            theirs = self._clients[other].info.allocation
            if other != client_id and member.model == model and theirs and theirs != allocation:
                raise AllocationConflict(group, allocation, theirs, other)

    def on_unregister(self, client_id: str) -> list[str]:
        """A client signs off; returns the groups that changed, sorted."""
        client = self._clients.pop(client_id, None)
        if client is None:
            return []
        left = {group for group, _, _ in client.consumers}
        for group in left:
            self._leave(group, client_id)
        return sorted(left)

    def is_of(self, client_id: str, info: ClientInfo, user: str = "") -> bool:
        """No client has this id, or only that process of that user."""
        known = self._clients.get(client_id)
        return known is None or (user == known.owner.user and not info.is_another_than(known.info))

    def clients(self) -> list[Client]:
        """All of them."""
        return list(self._clients.values())

    def forget_all(self) -> None:
        """This broker is no longer master: clients send heartbeats to another."""
        self._clients.clear()
        self._groups.clear()
        self._wants.clear()

    def on_tick(self, now_ms: int) -> list[str]:
        """Removes clients that missed three heartbeats; returns the groups that changed, sorted."""
        oldest = now_ms - MISSED_MAX * self.heartbeat_ms
        silent = [client.client_id for client in self._clients.values() if client.seen_ms < oldest]
        return sorted({group for client_id in silent for group in self.on_unregister(client_id)})

    def members(self, group: str) -> tuple[str, ...]:
        """Client ids of a group's members, sorted."""
        return tuple(sorted(self._groups.get(group, ())))

    def sharers(self, group: str, topic: str) -> list[ConsumerMember]:
        """The members that share a topic's queues, by client id; a broadcasting member reads all by itself."""
        return [
            member
            for _, member in sorted(self._groups.get(group, {}).items())
            if member.model == MessageModel.CLUSTERING.value and any(topic == name for name, *_ in member.subscriptions)
        ]

    def sharing(self, group: str, topic: str) -> dict[str, Any]:
        """{members, allocation} of those that share a topic's queues; allocation None if they do not agree, or name none."""
        members = [member.client_id for member in self.sharers(group, topic)]
        allocations = {self._clients[client_id].info.allocation for client_id in members}
        return {"members": members, "allocation": (allocations.pop() or None) if len(allocations) == 1 else None}

    def describe(self, group: str, now_ms: int) -> list[dict[str, Any]]:
        """A group's members and what they say about themselves, by client id."""
        found = []
        for client_id, member in sorted(self._groups.get(group, {}).items()):
            client = self._clients[client_id]
            found.append(
                {
                    "client_id": client_id,
                    "model": member.model,
                    **asdict(client.info),
                    "silent_ms": max(0, now_ms - client.seen_ms),
                    "subscriptions": [list(subscription) for subscription in member.subscriptions],
                }
            )
        return found

    def identities(self, group: str) -> list[bytes]:
        """Connections of a group's members, each once: members of one process share theirs."""
        return list(dict.fromkeys(member.identity for member in self._groups.get(group, {}).values()))

    def producers(self, group: str) -> list[Client]:
        """The clients that produce for a group."""
        return [client for client in self._clients.values() if group in client.producers]

    def identity_of(self, client_id: str) -> bytes | None:
        """The connection of a client; None if it is unknown."""
        client = self._clients.get(client_id)
        return None if client is None else client.identity

    def member_of_another_kind(self, group: str, model: str) -> str | None:
        """A member of the group that consumes otherwise than by this model; None if there is none."""
        members = self._groups.get(group, {})
        return next((client_id for client_id, member in members.items() if member.model != model), None)

    def topics_of(self, group: str) -> list[str]:
        """Topics that members of a group subscribe to; sorted."""
        members: Iterable[ConsumerMember] = self._groups.get(group, {}).values()
        return sorted({topic for member in members for topic, _, _ in member.subscriptions})

    def disagreements(self, group: str) -> tuple[SubscriptionDisagreement, ...]:
        """The topics to which the group's members subscribe differently."""
        wants = self._wants.get(group)
        return () if wants is None else wants.disagreements()

    def others(self, client_id: str) -> tuple[tuple[str, str, str], ...]:
        """((group, topic, a member that subscribes differently from this client), ...)."""
        client = self._clients.get(client_id)
        return tuple(
            (group, topic, other)
            for group, _, _ in (() if client is None else client.consumers)
            for topic, other in self._wants[group].others(_shared(self._groups[group][client_id]))
        )

    def groups(self) -> set[str]:
        """Groups that have a member."""
        return set(self._groups)

    def counts(self) -> tuple[int, int]:
        """The number of clients, and how many of them consume."""
        return len(self._clients), sum(1 for client in self._clients.values() if client.consumers)

    def member_counts(self) -> dict[str, int]:
        """{group: how many members}. Any thread."""
        return {group: len(members) for group, members in self._groups.copy().items()}

    def producer_count(self) -> int:
        """How many clients produce. Any thread."""
        return sum(1 for client in self._clients.copy().values() if client.producers)

    def _leave(self, group: str, client_id: str) -> None:
        members = self._groups.get(group)
        if members is not None:
            member = members.pop(client_id, None)
            if member is not None:
                self._wants[group].take_out(client_id, _shared(member))
            if not members:
                del self._groups[group]
                del self._wants[group]


def _shared(member: ConsumerMember) -> Subscriptions:
    """The topics whose queues a member shares: none if it broadcasts, since it reads all by itself."""
    return () if member.model == MessageModel.BROADCASTING.value else member.subscriptions
