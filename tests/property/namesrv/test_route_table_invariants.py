"""Random histories of a route table: what it tells is exactly what changed, and its rules hold after every event."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from zenitmq.model.errors import NoRoute, NotMaster, TopicNotFound
from zenitmq.model.route import MASTER_ID, PERMISSION_WRITE, TopicRoute
from zenitmq.namesrv.route_table import RouteTable
from zenitmq.remoting.commands import BrokerHeartbeat, RegisterBroker, RegisterTopics, UnregisterBroker, UpdateTopics

TIMEOUT_MS = 10_000
TOPICS = ("orders", "trades", "payments")

NAMES = st.sampled_from(["broker-a", "broker-b"])
IDS = st.integers(0, 2)
ADDRESSES = st.sampled_from(["h:1", "h:2", "h:3"])
EPOCHS = st.integers(0, 4)
REGISTERED = st.dictionaries(
    st.sampled_from(TOPICS), st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 7))
)


VERSIONS = st.integers(0, 3)


class RouteTableMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.routes = RouteTable(heartbeat_timeout_ms=TIMEOUT_MS, brokers_max=100, topics_max=100)
        self.now_ms = 0
        self.heard: dict[tuple[str, str], int] = {}  # (broker name, address) -> the last accepted sign of life
        self.epochs: dict[str, int] = {}
        self.wiped: set[str] = set()
        self.before = self.visible()

    def visible(self) -> dict[str, TopicRoute]:
        found = {}
        for topic in TOPICS:
            try:
                found[topic] = self.routes.route(topic)
            except (TopicNotFound, NoRoute):
                continue
        return found

    def members(self) -> list[dict]:
        return self.routes.cluster_info(self.now_ms)["brokers"]

    def told(self, changed: frozenset[str]) -> None:
        """What an event tells is the difference between the routes before and after it, no more and no less."""
        after = self.visible()
        assert changed == {topic for topic in TOPICS if self.before.get(topic) != after.get(topic)}
        self.before = after

    @rule(
        name=NAMES,
        broker_id=IDS,
        address=ADDRESSES,
        epoch=EPOCHS,
        topics=REGISTERED,
        version=VERSIONS,
        whole=st.booleans(),
    )
    def register(
        self, name: str, broker_id: int, address: str, epoch: int, topics: dict, version: int, whole: bool
    ) -> None:
        listed = tuple((topic, *numbers) for topic, numbers in topics.items())
        request = RegisterBroker("c", name, broker_id, address, epoch, listed, version=version, is_whole=whole)
        known = self.epochs.get(name, 0)
        rival = any(
            (member["broker_name"], member["broker_id"], member["epoch"]) == (name, MASTER_ID, epoch)
            and member["address"] != address
            for member in self.members()
        )
        if epoch < known or (broker_id == MASTER_ID and rival):
            with pytest.raises(NotMaster):
                self.routes.on_register(request, self.now_ms)
            self.told(frozenset())
            return
        changed = self.routes.on_register(request, self.now_ms)
        self.heard[name, address] = self.now_ms
        self.epochs[name] = epoch
        self.told(changed)
        if whole and broker_id == MASTER_ID:
            assert {topic for topic in TOPICS if self.serves(name, topic)} == set(topics)

    def serves(self, name: str, topic: str) -> bool:
        route = self.before.get(topic)
        return route is not None and name in {data.broker_name for data in route.queues}

    @rule(name=NAMES, broker_id=IDS, address=ADDRESSES, topics=REGISTERED, version=VERSIONS, piece=st.integers(1, 2),
          is_last=st.booleans())  # fmt: skip
    def more_topics(
        self, name: str, broker_id: int, address: str, topics: dict, version: int, piece: int, is_last: bool
    ) -> None:
        listed = tuple((topic, *numbers, 0) for topic, numbers in topics.items())
        request = RegisterTopics(name, broker_id, address, version, piece, listed, is_last)
        known, changed = self.routes.on_more_topics(request, self.now_ms)
        assert known or not changed
        self.told(changed)
        if known:
            self.heard[name, address] = self.now_ms
        assert not known or not self.routes.on_more_topics(request, self.now_ms)[0]  # it is taken once

    @rule(name=NAMES, broker_id=IDS, address=ADDRESSES, topics=REGISTERED, removed=st.sets(st.sampled_from(TOPICS)),
          since=VERSIONS, version=VERSIONS)  # fmt: skip
    def update_topics(
        self, name: str, broker_id: int, address: str, topics: dict, removed: set, since: int, version: int
    ) -> None:
        listed = tuple((topic, *numbers, 0) for topic, numbers in topics.items())
        known, changed = self.routes.on_update_topics(
            UpdateTopics(name, broker_id, address, since, version, listed, tuple(removed)), self.now_ms
        )
        assert known or not changed
        self.told(changed)
        if known:
            self.heard[name, address] = self.now_ms
        if known and broker_id == MASTER_ID:
            for topic in TOPICS:
                if topic in topics or topic in removed:
                    assert self.serves(name, topic) == (topic in topics)

    @rule(name=NAMES, broker_id=IDS, address=ADDRESSES, epoch=EPOCHS)
    def heartbeat(self, name: str, broker_id: int, address: str, epoch: int) -> None:
        known = self.routes.on_heartbeat(BrokerHeartbeat("c", name, broker_id, address, epoch), self.now_ms)
        is_member = any(
            (member["broker_name"], member["broker_id"], member["address"], member["epoch"])
            == (name, broker_id, address, epoch)
            for member in self.members()
        )
        assert is_member or not known  # a member whose topics are not whole must register again
        if is_member:
            self.heard[name, address] = self.now_ms
        self.told(frozenset())

    @rule(name=NAMES, broker_id=IDS, address=ADDRESSES)
    def unregister(self, name: str, broker_id: int, address: str) -> None:
        self.told(self.routes.on_unregister(UnregisterBroker("c", name, broker_id, address)))
        places = {(member["broker_name"], member["broker_id"], member["address"]) for member in self.members()}
        assert (name, broker_id, address) not in places

    @rule(step_ms=st.sampled_from([1000, 1000, 2000, 4000]))
    def scan(self, step_ms: int) -> None:
        self.now_ms += step_ms
        dead, changed = self.routes.on_scan(self.now_ms)
        assert all(self.now_ms - self.heard[member] >= TIMEOUT_MS for member in dead)
        self.told(changed)

    @rule(name=NAMES, wipe=st.booleans())
    def permission(self, name: str, wipe: bool) -> None:
        if not wipe:
            self.wiped.discard(name)
        elif name in self.epochs:
            self.wiped.add(name)
        self.told(self.routes.on_wipe_write_permission(name) if wipe else self.routes.on_add_write_permission(name))

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic: str) -> None:
        self.told(self.routes.on_delete_topic(topic))
        assert topic not in self.routes.topics()

    @invariant()
    def rules_hold(self) -> None:
        members = self.members()
        living = {member["broker_name"] for member in members}
        self.epochs = {name: epoch for name, epoch in self.epochs.items() if name in living}
        for name in living:
            group = [member for member in members if member["broker_name"] == name]
            assert len({member["address"] for member in group}) == len(group), "an address is one member"
            masters = [member for member in group if member["broker_id"] == MASTER_ID]
            assert all(member["epoch"] == self.epochs[name] for member in masters), (
                "a listed master is of the newest epoch"
            )
        assert all(member["last_heartbeat_ms_ago"] < TIMEOUT_MS for member in members)
        assert self.routes._topic_count == sum(len(group.topics) for group in self.routes._groups.values())
        assert self.routes.topics() == tuple(sorted(self.visible()))
        for route in self.visible().values():
            assert {data.broker_name for data in route.queues} == {data.broker_name for data in route.brokers} <= living
            assert not any(
                data.permission & PERMISSION_WRITE for data in route.queues if data.broker_name in self.wiped
            )


TestRouteTable = RouteTableMachine.TestCase
TestRouteTable.settings = settings(max_examples=60, stateful_step_count=30)
