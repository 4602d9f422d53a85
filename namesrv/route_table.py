"""The route table: which brokers are alive, and which topics they serve. Pure: events in, changed topics out.

A *group* is the members with one broker name: a master (broker id 0) and its slaves. Each `on_<event>` takes the request
(and the time if silence matters) and returns the topics whose route has changed, for the service to publish. Rules, in the
order in which they apply to a registration:

- A registration of a lower epoch than the group's is refused: an older master must not replace a newer one. So is a
  second master of the same epoch at another address while the first is alive (two brokers were given one name). A group
  is forgotten, with its epoch, when its last member is gone.
- A name belongs to one cluster: a registration under the name of a living cluster, but with another id, is refused; so
  are heartbeats and unregistrations with another id than the member's (cluster_names).
- A master of an older epoch is dropped as soon as any member reports a newer one. One address is at most one member.
- The master's topics are all topics of the group: others are removed. A slave's count only while there is no master.
- A registration of many topics comes in pieces: what was registered before and is in none of them is removed with the last.
  What changes later comes alone (UpdateTopics), and names the version that it is a change of. Who is not known with the
  version that it says must register again.
- If an operator wiped the write permission, it stays wiped over registrations and expiry, until it is given back.
- The topics of a group whose last member is gone are remembered (departed_topics): nobody serves them, but they do not
  count as unknown.
- The table holds at most `brokers_max` members and `topics_max` topics, counted once per group; more are refused.
- A member is dead after `heartbeat_timeout_ms` of silence. After a pause of the table itself (the process was stopped,
  the machine slept), everybody's silence begins again.

Times are monotonic milliseconds. Owned by one thread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from itertools import islice
from typing import Any, Final

from ..model.cluster_id import Standing, check_cluster_id
from ..model.errors import BrokerBusy, InvalidName, InvalidParameter, NoRoute, NotMaster, TopicNotFound
from ..model.groups.group_limits import check_token
from ..model.names import check_topic
from ..model.plain_dataclass import dataclass
from ..model.route import BATCHED, MASTER_ID, PERMISSION_READ, PERMISSION_WRITE, BrokerData, QueueData, TopicRoute
from ..model.topics.light_queues import LIGHT_PREFIX
from ..remoting.commands import (
    BrokerHeartbeat,
    ClaimClusterId,
    RegisterBroker,
    RegisterTopics,
    UnregisterBroker,
    UpdateTopics,
)
from .cluster_names import ClusterNames
from .departed_topics import DepartedTopics

QUEUES_PER_TOPIC_MAX: Final = 65_536
PERMISSION_MAX: Final = 7  # and BATCHED
NAME_LENGTH_MAX: Final = 127
ADDRESS_LENGTH_MAX: Final = 255

NOTHING_CHANGED: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class ListedBroker:
    """One broker process of a group, as registered."""

    address: str
    epoch: int
    replication_address: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """The living members of one broker name, {broker id: member}, and the topics they serve."""

    cluster: str
    broker_name: str
    cluster_id: str = ""
    epoch: int = 0
    members: Mapping[int, ListedBroker] = field(default_factory=dict)
    topics: dict[str, QueueData] = field(default_factory=dict)
    """Changed in place by UpdateTopics."""


@dataclass(slots=True)
class _ToldTopics:
    """What a member has told of its topics: their version, and while pieces are missing, what has come."""

    version: int = 0
    pieces: int = 0
    came: set[str] | None = None  # None: it is whole


class RouteTable:
    """The routes of one name server; empty at the start, filled by the brokers themselves."""

    def __init__(
        self, *, heartbeat_timeout_ms: int, brokers_max: int, topics_max: int, listens_until_ms: int = 0
    ) -> None:
        """`listens_until_ms`: before this time nobody is told that no cluster of a name is known here."""
        self._heartbeat_timeout_ms = heartbeat_timeout_ms
        self._brokers_max = brokers_max
        self._topics_max = topics_max
        self._topic_count = 0  # of all groups
        self._groups: dict[str, Group] = {}
        self._serving: dict[str, set[str]] = {}  # topic -> names of the groups that have it
        self._sorted: tuple[str, ...] | None = None  # its topics
        self._told: dict[tuple[str, int], _ToldTopics] = {}  # (broker name, broker id) -> of its topics
        self._heard_ms: dict[tuple[str, int], int] = {}  # (broker name, broker id) -> time of the last sign of life
        self._names = ClusterNames(
            listens_until_ms=listens_until_ms, offer_ms=heartbeat_timeout_ms, clusters_max=brokers_max
        )
        self._departed = DepartedTopics(brokers_max=brokers_max, topics_max=topics_max)
        self._wiped: frozenset[str] = frozenset()
        self._full: set[tuple[str, int]] = set()  # (broker name, broker id) of brokers whose disk is full
        self._scanned_ms: int | None = None

    # ---- events

    def on_register(self, request: RegisterBroker, now_ms: int) -> frozenset[str]:
        """Registers a broker with its topics.

        Raises WrongCluster, NotMaster or BrokerBusy (see the rules), InvalidParameter, InvalidName; then nothing has
        changed.
        """
        topics = _registered_topics(request)
        name, broker_id = request.broker_name, request.broker_id
        self._names.check_free(request.cluster, request.cluster_id)
        group = self._groups.get(name, Group(request.cluster, name, request.cluster_id))
        if group.cluster != request.cluster:
            raise InvalidParameter("cluster", request.cluster, f"{group.cluster}, where {name} lives already")
        held = len(group.topics) if group.members else 0
        to_come = len(topics) if request.is_whole else max(held, len(topics))
        self._check_room(group, broker_id, to_come)
        master = group.members.get(MASTER_ID)
        claims = broker_id == MASTER_ID and master is not None and master.address != request.address
        if request.epoch < group.epoch or (claims and master is not None and master.epoch == request.epoch):
            raise NotMaster(name, group.epoch)
        members = {
            member_id: member
            for member_id, member in group.members.items()
            if member.address != request.address and not (member_id == MASTER_ID and member.epoch < request.epoch)
        }
        told = _ToldTopics(request.version, came=None if request.is_whole else set(topics))
        if broker_id == MASTER_ID or MASTER_ID not in members:
            group = replace(group, topics=topics if request.is_whole else group.topics | topics)
        members[broker_id] = ListedBroker(request.address, request.epoch, request.replication_address)
        changed = self._adopt(replace(group, epoch=request.epoch, members=members))
        self._heard_ms[name, broker_id] = now_ms
        self._told[name, broker_id] = told
        return changed

    def on_more_topics(self, request: RegisterTopics, now_ms: int) -> tuple[bool, frozenset[str]]:
        """(whether that registration is under way, the topics whose route has changed). Raises what on_register does."""
        topics = _checked_topics(request.broker_name, request.topics)
        group, told = self._member(request.broker_name, request.broker_id, request.address)
        if group is None or (told.version, told.pieces + 1) != (request.version, request.piece) or told.came is None:
            return False, NOTHING_CHANGED
        came = told.came.union(topics)
        removed = [name for name in group.topics if name not in came] if request.is_last else []
        changed = self._change_topics(group, request.broker_id, topics, removed)
        self._heard_ms[request.broker_name, request.broker_id] = now_ms
        told.pieces, told.came = request.piece, None if request.is_last else came
        return True, changed

    def on_update_topics(self, request: UpdateTopics, now_ms: int) -> tuple[bool, frozenset[str]]:
        """(whether the version is known that it changes, the topics whose route has changed). Raises what on_register does."""
        topics = _checked_topics(request.broker_name, request.topics)
        group, told = self._member(request.broker_name, request.broker_id, request.address)
        if group is None or told.came is not None or not told.version or told.version != request.since:
            return False, NOTHING_CHANGED
        changed = self._change_topics(group, request.broker_id, topics, request.removed)
        self._heard_ms[request.broker_name, request.broker_id] = now_ms
        told.version = request.version
        return True, changed

    def _member(self, name: str, broker_id: int, address: str) -> tuple[Group | None, _ToldTopics]:
        """The group of a member, and what that has told; None if it is not registered with this address."""
        group = self._groups.get(name)
        member = group.members.get(broker_id) if group is not None else None
        if member is None or member.address != address:
            return None, _ToldTopics()
        return group, self._told[name, broker_id]

    def _change_topics(
        self, group: Group, broker_id: int, topics: Mapping[str, QueueData], removed: Iterable[str]
    ) -> frozenset[str]:
        """Raises BrokerBusy; then nothing has changed."""
        if broker_id != MASTER_ID and MASTER_ID in group.members:
            return NOTHING_CHANGED
        gone = [topic for topic in removed if topic in group.topics and topic not in topics]
        new = [topic for topic in topics if topic not in group.topics]
        self._check_room(group, broker_id, len(group.topics) + len(new) - len(gone))
        seen = {topic: self._queue(group, group.topics[topic]) for topic in topics if topic in group.topics}
        changed = [topic for topic, data in topics.items() if seen.get(topic) != self._queue(group, data)]
        group.topics.update(topics)
        for topic in gone:
            del group.topics[topic]
        self._topic_count += len(new) - len(gone)
        self._note_serving(group.broker_name, new, gone)
        return frozenset((*changed, *gone))

    def on_heartbeat(self, request: BrokerHeartbeat, now_ms: int) -> bool:
        """A sign of life. False if that member with that epoch and these topics is not registered: it must register again."""
        group = self._groups.get(request.broker_name)
        member = group.members.get(request.broker_id) if group is not None else None
        if group is None or member is None or group.cluster_id != request.cluster_id:
            return False
        if (member.address, member.epoch) != (request.address, request.epoch):
            return False
        key = request.broker_name, request.broker_id
        self._heard_ms[key] = now_ms
        (self._full.discard if request.takes_writes else self._full.add)(key)
        told = self._told[key]
        return told.came is None and request.version in (0, told.version)

    def on_unregister(self, request: UnregisterBroker) -> frozenset[str]:
        """Removes a member now. Does nothing if another address has its place already."""
        group = self._groups.get(request.broker_name)
        member = group.members.get(request.broker_id) if group is not None else None
        if group is None or member is None or member.address != request.address:
            return NOTHING_CHANGED
        if group.cluster_id != request.cluster_id:
            return NOTHING_CHANGED
        return self._without(group, {request.broker_id})

    def on_claim(self, request: ClaimClusterId, now_ms: int) -> tuple[str, Standing]:
        """The id of the cluster with that name, and how certain it is. Raises InvalidName, InvalidParameter, BrokerBusy."""
        _check_printable("cluster", request.cluster)
        check_token("offered", request.offered)
        return self._names.on_claim(request.cluster, request.offered, now_ms)

    def on_scan(self, now_ms: int) -> tuple[list[tuple[str, str]], frozenset[str]]:
        """Removes members that were silent for too long.

        Returns them as (broker name, address), and the changed topics.
        """
        away_ms = 0 if self._scanned_ms is None else now_ms - self._scanned_ms
        self._scanned_ms = now_ms
        if away_ms >= self._heartbeat_timeout_ms // 2:
            self._heard_ms = dict.fromkeys(self._heard_ms, now_ms)
        silent = [key for key, heard in self._heard_ms.items() if now_ms - heard >= self._heartbeat_timeout_ms]
        changed: frozenset[str] = NOTHING_CHANGED
        dead: list[tuple[str, str]] = []
        for name, broker_id in silent:
            group = self._groups[name]
            dead.append((name, group.members[broker_id].address))
            changed |= self._without(group, {broker_id})
        return dead, changed

    def on_wipe_write_permission(self, broker_name: str) -> frozenset[str]:
        """Makes producers leave this broker. An unknown name changes nothing and is not stored."""
        if broker_name not in self._groups:
            return NOTHING_CHANGED
        return self._set_wiped(broker_name, self._wiped | {broker_name})

    def on_add_write_permission(self, broker_name: str) -> frozenset[str]:
        """Lets producers come back."""
        return self._set_wiped(broker_name, self._wiped - {broker_name})

    def on_delete_topic(self, topic: str) -> frozenset[str]:
        """Forgets a topic until a broker registers it again."""
        self._departed.on_delete_topic(topic)
        changed: frozenset[str] = NOTHING_CHANGED
        for name in tuple(self._serving.get(topic, ())):
            group = self._groups[name]
            rest = {name: data for name, data in group.topics.items() if name != topic}
            changed |= self._adopt(replace(group, topics=rest))
            for broker_id in group.members:  # what they register next counts, as a whole
                self._told[name, broker_id] = _ToldTopics(-1)
        return changed

    # ---- questions

    def check_lives(self, cluster_id: str) -> None:
        """Raises WrongCluster if clusters are living here, but not that one."""
        self._names.check_lives(cluster_id)

    def route(self, topic: str) -> TopicRoute:
        """Everything a client needs to know of a topic, ordered by broker name.

        Of LIGHT_PREFIX: every broker, because each may have any light queue. Raises NoRoute if the brokers that have it are
        not registered now, or no broker is at all; else TopicNotFound.
        """
        if topic == LIGHT_PREFIX and self._groups:
            groups = [self._groups[name] for name in sorted(self._groups)]
            queues = tuple(QueueData(group.broker_name, 1, 0, PERMISSION_READ) for group in groups)
            return TopicRoute(topic, queues, tuple(map(_members, groups)))
        serving = [self._groups[name] for name in sorted(self._serving.get(topic, ()))]
        if not serving:
            raise self._no_route(topic)
        return TopicRoute(
            topic,
            tuple(self._queue(group, group.topics[topic]) for group in serving),
            tuple(_members(group) for group in serving),
        )

    def _no_route(self, topic: str) -> NoRoute | TopicNotFound:
        """Why nobody serves it, as far as this name server has heard since its start."""
        if not self._groups:
            return NoRoute(topic, "no broker is registered with the name server (see zenit status)")
        broker_name = self._departed.broker_of(topic)
        if broker_name is None:
            return TopicNotFound(topic)
        return NoRoute(topic, f"{broker_name}, which has it, is not registered now (see zenit status)")

    def holds_address(self, address: str) -> bool:
        """Whether a member is registered with it, for clients or for replicas."""
        return any(
            address in (member.address, member.replication_address)
            for group in self._groups.values()
            for member in group.members.values()
        )

    def peers(self) -> list[tuple[str, str]]:
        """("broker", address) of all members."""
        return [("broker", member.address) for group in self._groups.values() for member in group.members.values()]

    def topics(self) -> tuple[str, ...]:
        """All topics that some broker serves, sorted."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self._serving))
        return self._sorted

    @property
    def broker_count(self) -> int:
        """How many brokers are registered. Any thread."""
        return len(self._heard_ms)

    @property
    def topic_count(self) -> int:
        """How many topics they have. Any thread."""
        return len(self._serving)

    def topics_after(
        self, after: str, count_max: int, is_seen: Callable[[str], bool] | None = None
    ) -> tuple[tuple[str, ...], bool]:
        """(those behind a name that are seen, at most so many or, for 0, all; whether there are more). Raises
        InvalidParameter."""
        _check_range("count_max", count_max, 0, 1 << 31)
        topics = self.topics()
        begin = bisect_right(topics, after)
        if is_seen is None:
            end = begin + count_max if count_max else len(topics)
            return topics[begin:end], end < len(topics)
        seen = filter(is_seen, islice(topics, begin, None))
        page = tuple(islice(seen, count_max or None))
        return page, bool(count_max) and next(seen, None) is not None

    def cluster_info(self, now_ms: int) -> dict[str, Any]:
        """The document of GetClusterInfo."""
        clusters: dict[str, list[str]] = {}
        brokers: list[dict[str, Any]] = []
        for name, group in sorted(self._groups.items()):
            clusters.setdefault(group.cluster, []).append(name)
            brokers += [
                {
                    "cluster": group.cluster,
                    "cluster_id": group.cluster_id,
                    "broker_name": name,
                    "broker_id": broker_id,
                    "address": member.address,
                    "replication_address": member.replication_address,
                    "epoch": member.epoch,
                    "last_heartbeat_ms_ago": now_ms - self._heard_ms[name, broker_id],
                    "writeable": self._is_writeable(name, broker_id),
                }
                for broker_id, member in sorted(group.members.items())
            ]
        return {"clusters": clusters, "brokers": brokers}

    def _is_writeable(self, name: str, broker_id: int) -> bool:
        return broker_id == MASTER_ID and name not in self._wiped and (name, broker_id) not in self._full

    # ---- state

    def _adopt(self, group: Group) -> frozenset[str]:
        """Replaces the group's state by its next one; a group without members is removed."""
        name = group.broker_name
        before = self._groups.get(name)
        self._topic_count += len(group.topics if group.members else ()) - len(
            before.topics if before is not None else ()
        )
        after = group if group.members else None
        for broker_id in (before.members if before is not None else {}).keys() - group.members.keys():
            del self._heard_ms[name, broker_id], self._told[name, broker_id]
            self._full.discard((name, broker_id))
        if after is None:
            self._groups.pop(name, None)
            self._departed.on_departed(name, group.topics)
        else:
            self._departed.on_registered(name)
            self._groups[name] = after
        had = before.topics if before is not None else {}
        has = after.topics if after is not None else {}
        if had is not has:
            self._note_serving(name, has.keys() - had.keys(), had.keys() - has.keys())
        if (before is None) != (after is None):
            self._names.on_living({group.cluster: group.cluster_id for group in self._groups.values()})
        return _difference(self._view(before), self._view(after))

    def _note_serving(self, name: str, new: Iterable[str], gone: Iterable[str]) -> None:
        self._sorted = None
        for topic in new:
            self._serving.setdefault(topic, set()).add(name)
        for topic in gone:
            self._serving[topic].discard(name)
            if not self._serving[topic]:
                del self._serving[topic]

    def _check_room(self, group: Group, broker_id: int, topic_count: int) -> None:
        """Raises BrokerBusy if one more member, or this many topics for this group, would exceed a limit."""
        if broker_id not in group.members and len(self._heard_ms) >= self._brokers_max:
            raise BrokerBusy(self._heartbeat_timeout_ms, f"{self._brokers_max} brokers are registered, brokers_max")
        held = len(group.topics) if group.members else 0
        if topic_count > held and self._topic_count - held + topic_count > self._topics_max:
            raise BrokerBusy(
                self._heartbeat_timeout_ms, f"more than {self._topics_max} topics are registered, topics_max"
            )

    def _without(self, group: Group, broker_ids: set[int]) -> frozenset[str]:
        rest = {broker_id: member for broker_id, member in group.members.items() if broker_id not in broker_ids}
        return self._adopt(replace(group, members=rest))

    def _set_wiped(self, broker_name: str, wiped: frozenset[str]) -> frozenset[str]:
        group = self._groups.get(broker_name)
        before = self._view(group)
        self._wiped = wiped
        return _difference(before, self._view(group))

    def _queues(self, group: Group) -> Mapping[str, QueueData]:
        """A group's topics with their present permissions for clients."""
        if group.broker_name not in self._wiped:
            return group.topics
        return {topic: self._queue(group, data) for topic, data in group.topics.items()}

    def _queue(self, group: Group, data: QueueData) -> QueueData:
        is_wiped = group.broker_name in self._wiped
        return replace(data, permission=data.permission & ~PERMISSION_WRITE) if is_wiped else data

    def _view(self, group: Group | None) -> tuple[BrokerData | None, Mapping[str, QueueData]]:
        """Everything that routes contain of a group."""
        return (None, {}) if group is None else (_members(group), self._queues(group))


def _members(group: Group) -> BrokerData:
    addresses = {broker_id: member.address for broker_id, member in sorted(group.members.items())}
    return BrokerData(group.cluster, group.broker_name, addresses, group.cluster_id)


def _difference(
    before: tuple[BrokerData | None, Mapping[str, QueueData]], after: tuple[BrokerData | None, Mapping[str, QueueData]]
) -> frozenset[str]:
    """The topics of one group whose route has changed."""
    (members_before, topics_before), (members_after, topics_after) = before, after
    either = topics_before.keys() | topics_after.keys()
    if members_before != members_after:
        return frozenset(either)
    return frozenset(topic for topic in either if topics_before.get(topic) != topics_after.get(topic))


def _registered_topics(request: RegisterBroker) -> dict[str, QueueData]:
    """The topics of a registration; raises InvalidName or InvalidParameter for values that must not reach a client."""
    _check_printable("cluster", request.cluster)
    _check_printable("broker", request.broker_name)
    check_cluster_id(request.cluster_id)
    _check_range("broker_id", request.broker_id, 0, 1 << 31)
    _check_range("epoch", request.epoch, 0, 1 << 62)
    _check_address(request.address)
    incarnations = request.incarnations or (0,) * len(request.topics)
    if len(incarnations) != len(request.topics):
        raise InvalidParameter("incarnations", len(incarnations), f"one for each of {len(request.topics)} topics")
    rows = [(*row, incarnation) for row, incarnation in zip(request.topics, incarnations, strict=True)]
    return _checked_topics(request.broker_name, rows)


def _checked_topics(broker_name: str, rows: Iterable[tuple[str, int, int, int, int]]) -> dict[str, QueueData]:
    topics: dict[str, QueueData] = {}
    for topic, read_queues, write_queues, permission, incarnation in rows:
        check_topic(topic)
        _check_range(f"read queues of {topic}", read_queues, 0, QUEUES_PER_TOPIC_MAX)
        _check_range(f"write queues of {topic}", write_queues, 0, QUEUES_PER_TOPIC_MAX)
        _check_range(f"permission of {topic}", permission & ~BATCHED, 0, PERMISSION_MAX)
        _check_range(f"incarnation of {topic}", incarnation, 0, 1 << 62)
        topics[topic] = QueueData(broker_name, read_queues, write_queues, permission, incarnation)
    return topics


def _check_printable(kind: str, name: str) -> None:
    if not 1 <= len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        raise InvalidName(kind, name, f"printable, 1 to {NAME_LENGTH_MAX} characters")


def _check_range(name: str, value: int, minimum: int, maximum: int) -> None:
    if not minimum <= value <= maximum:
        raise InvalidParameter(name, value, f"an integer from {minimum} to {maximum}")


def _check_address(address: str) -> None:
    host, separator, port = address.rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if not (separator and host and digits and 1 <= int(port) <= 65535 and len(address) <= ADDRESS_LENGTH_MAX):
        raise InvalidParameter("address", address[:ADDRESS_LENGTH_MAX], "host:port")
