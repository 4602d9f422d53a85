"""A small model of ZooKeeper for the simulation: one server in memory, and `GroupStore`s with a session each.

What it models is what ZooKeeper can do to a controller: conditional writes; a connection lost before a write was
carried out, after it, or so that it is carried out later; watches that come late, and in order; a session that is
suspended, and one that has ended while its client still believes in it. Everything happens when the test says so:

    zookeeper = ModelZooKeeper()
    store = zookeeper.store(events.append)
    store.next_write = Loss.AFTER          # the next write is carried out, its answer is lost
    zookeeper.hold_events = True           # watches wait until zookeeper.deliver()
    zookeeper.suspend(store); zookeeper.expire(store); zookeeper.resume(store)

The integration tests hold it to the same contract as the real server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from zenitmq.controller.group_store import (
    EVENT_BYTES_MAX,
    EVENTS_MAX,
    ControllerMember,
    Listener,
    MembersTouched,
    Outcome,
    SessionChanged,
    SessionState,
    Stale,
    StoreEvent,
    Touched,
    Unknown,
    Written,
)
from zenitmq.model.errors import SightingsDamaged, ZooKeeperUnavailable
from zenitmq.model.events.event import with_lines
from zenitmq.model.groups.group import GroupNode, KnownGroup, Seen, Sighting
from zenitmq.model.groups.group_codec import decode_node, decode_seen, encode_node, encode_seen
from zenitmq.model.groups.group_limits import check_name


class Loss(Enum):
    """What happens to a write whose answer never comes."""

    BEFORE = "the server never saw it"
    AFTER = "the server carried it out"
    LATER = "the server carries it out at `carry_out_late`"


@dataclass
class Content:
    data: bytes
    version: int


@dataclass
class Session:
    number: int
    ended: bool = False


@dataclass
class ModelZooKeeper:
    """The server: linearizable, never down; it is connections that fail."""

    hold_events: bool = False
    cluster_id: str = "c1"
    groups: dict[str, Content] = field(default_factory=dict)
    seen: dict[str, bytes] = field(default_factory=dict)
    kept_records: list[bytes] = field(default_factory=list)
    histories: dict[str, bytes] = field(default_factory=dict)
    controllers: dict[int, tuple[Session, str]] = field(default_factory=dict)  # sequence number -> (session, address)
    _stores: list[ModelStore] = field(default_factory=list)
    _sessions: int = 0
    _sequence: int = 0
    _late: list[Callable[[], object]] = field(default_factory=list)
    _events: list[tuple[ModelStore, StoreEvent]] = field(default_factory=list)

    def store(self, listener: Listener) -> ModelStore:
        store = ModelStore(self, listener, self.new_session())
        self._stores.append(store)
        self.tell(store, SessionChanged(SessionState.CONNECTED))
        return store

    def suspend(self, store: ModelStore) -> None:
        """The connection is lost; the session lives on at the server until it is expired."""
        store.connected = False
        store.forget_watches()
        self.tell(store, SessionChanged(SessionState.SUSPENDED))

    def expire(self, store: ModelStore) -> None:
        """The server ends the session. The client learns of it when it is connected again, not before."""
        store.session.ended = True
        left = [number for number, (session, _) in self.controllers.items() if session is store.session]
        for number in left:
            del self.controllers[number]
        if left:
            self.members_touched()

    def resume(self, store: ModelStore) -> None:
        """The connection is back; where the session has ended meanwhile, with a new one."""
        store.connected = True
        if store.session.ended:
            store.forget_watches()
            self.tell(store, SessionChanged(SessionState.LOST))
            store.session = self.new_session()
        self.tell(store, SessionChanged(SessionState.CONNECTED))

    def carry_out_late(self) -> None:
        """Writes that were given up by their clients arrive now."""
        late, self._late = self._late, []
        for write in late:
            write()

    def drop_late(self) -> None:
        """They never arrive: the server that was to have them is gone with its connections, another has begun."""
        self._late.clear()

    def deliver(self, count: int | None = None) -> None:
        """The oldest `count` events that are under way arrive; all of them for None."""
        arriving = self._events[:count]
        del self._events[: len(arriving)]
        for store, event in arriving:
            store.listener(event)

    # ---- for the stores

    def new_session(self) -> Session:
        self._sessions += 1
        return Session(self._sessions)

    def apply(self, name: str, data: bytes, version: int | None) -> Outcome:
        """A create (`version` None) or a conditional write."""
        content = self.groups.get(name)
        if (content is None) != (version is None) or (content is not None and content.version != version):
            return Stale()
        after = Content(data, 0 if content is None else content.version + 1)
        self.groups[name] = after
        for store in self._stores:
            if content is None and store.watches_list:
                store.watches_list = False
                self.tell(store, Touched(None))
            if content is not None and name in store.watched:
                store.watched.discard(name)
                self.tell(store, Touched(name))
        return Written(after.version)

    def later(self, write: Callable[[], object]) -> None:
        self._late.append(write)

    def next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def members_touched(self) -> None:
        for store in self._stores:
            if store.watches_members:
                store.watches_members = False
                self.tell(store, MembersTouched())

    def tell(self, store: ModelStore, event: StoreEvent) -> None:
        self._events.append((store, event))
        if not self.hold_events:
            self.deliver()


@dataclass(eq=False)
class ModelStore:
    """A `GroupStore` of one client."""

    server: ModelZooKeeper
    listener: Listener
    session: Session
    connected: bool = True
    next_write: Loss | None = None
    watched: set[str] = field(default_factory=set)
    watches_list: bool = False
    watches_members: bool = False

    def read(self, broker_name: str) -> KnownGroup | None:
        self._check("read")
        content = self.server.groups.get(check_name("broker", broker_name))
        if content is None:
            return None
        self.watched.add(broker_name)
        return KnownGroup(decode_node(content.data, broker_name), content.version)

    def broker_names(self) -> tuple[str, ...]:
        self._check("list groups")
        self.watches_list = True
        return tuple(sorted(self.server.groups))

    def create(self, node: GroupNode) -> Outcome:
        return self._written(node, None)

    def write(self, node: GroupNode, version: int) -> Outcome:
        if version < 0:
            raise ValueError(f"a write names a version, not {version}")
        return self._written(node, version)

    def seen_names(self) -> tuple[str, ...]:
        self._check("list seen")
        return tuple(sorted(self.server.seen))

    def read_seen(self, broker_name: str) -> Seen:
        self._check("read seen")
        data = self.server.seen.get(check_name("broker", broker_name))
        return Seen(broker_name) if data is None else decode_seen(data, broker_name)

    def remember(self, broker_name: str, sighting: Sighting) -> None:
        after = self.read_seen(broker_name).with_sighting(sighting)
        if after.sightings:
            self.server.seen[broker_name] = encode_seen(after)

    def renew_seen(self, broker_name: str, sighting: Sighting) -> None:
        try:
            self.remember(broker_name, sighting)
        except SightingsDamaged:
            self.server.seen[broker_name] = encode_seen(Seen(broker_name).with_sighting(sighting))

    def cluster_id(self) -> str:
        self._check("read the cluster's id")
        return self.server.cluster_id

    def make_cluster_id(self, offered: str) -> str:
        self._check("keep the cluster's id")
        self.server.cluster_id = self.server.cluster_id or offered
        return self.server.cluster_id

    def join(self, address: str) -> None:
        self._check("join")
        self.watches_members = True
        if any(session is self.session for session, _ in self.server.controllers.values()):
            return
        self.server.controllers[self.server.next_sequence()] = (self.session, address)
        self.server.members_touched()

    def members(self) -> tuple[ControllerMember, ...]:
        self._check("list controllers")
        self.watches_members = True
        oldest_first = [taken for _, taken in sorted(self.server.controllers.items())]
        return tuple(ControllerMember(address, session is self.session) for session, address in oldest_first)

    def add_events(self, broker_name: str, lines: tuple[bytes, ...]) -> None:
        self._check("keep events")
        present = self.server.histories.get(check_name("broker", broker_name), b"")
        after = with_lines(present, lines, lines_max=EVENTS_MAX, bytes_max=EVENT_BYTES_MAX)
        self.server.histories[broker_name] = after

    def events(self, broker_name: str) -> bytes:
        self._check("read events")
        return self.server.histories.get(broker_name, b"")

    def append_record(self, record: bytes) -> str:
        self._check("keep a record")
        self.server.kept_records.append(record)
        return f"record-{len(self.server.kept_records) - 1:010d}"

    def records(self) -> tuple[bytes, ...]:
        self._check("read records")
        return tuple(self.server.kept_records)

    def forget_watches(self) -> None:
        self.watched.clear()
        self.watches_list = self.watches_members = False

    def _written(self, node: GroupNode, version: int | None) -> Outcome:
        name, data = check_name("broker", node.broker_name), encode_node(node)
        loss, self.next_write = self.next_write, None
        if not self._usable():
            loss = loss or Loss.BEFORE
        if loss is None:
            return self.server.apply(name, data, version)
        if loss is Loss.AFTER:
            self.server.apply(name, data, version)
        if loss is Loss.LATER:
            self.server.later(lambda: self.server.apply(name, data, version))
        return Unknown(loss.value)

    def _usable(self) -> bool:
        return self.connected and not self.session.ended

    def _check(self, what: str) -> None:
        if not self._usable():
            raise ZooKeeperUnavailable(what, "no connection")
