"""A round asks for everything once, and goes on past what does not answer or may not be seen."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from top_kit import broker, cluster, event, group, statistics, topic

from zenitmq.cli.top import sampling as asking
from zenitmq.cli.top.figures import ClusterFigures
from zenitmq.cli.top.sampling import REQUESTS_MAX, PacedAdmin, PacedWaits, Sampling
from zenitmq.client.aio.event_loop import OnLoop
from zenitmq.model.errors import AccessDenied, ConnectionLost, GroupNotFound, NoRoute, RequestTimeout, ZenitError
from zenitmq.remoting.commands import Done, GetBrokerStatistics


class Cluster:
    """The calls of an Admin; `failing`: what raises, by call or by what is asked for."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failing: dict[str, ZenitError] = {}
        self.passed_over: frozenset[str] = frozenset()
        self.brokers = [broker("a:1"), broker("b:1", "broker-b")]

    def _on(self, call: str, subject: str = "") -> None:
        self.calls.append(f"{call} {subject}".rstrip())
        error = self.failing.get(subject) or self.failing.get(call)
        if error is not None:
            raise error

    async def cluster(self) -> dict[str, Any]:
        self._on("cluster")
        return cluster(*self.brokers)

    async def scrub_statistics(self, addresses: list[str]) -> dict[str, Any]:
        self._on("statistics", addresses[0])
        return {addresses[0]: statistics()}

    async def topic_configs(self) -> list[dict[str, Any]]:
        self._on("topics")
        return [{"name": "t", "system": False}, {"name": "s", "system": True}]

    async def groups(self) -> list[dict[str, Any]]:
        self._on("groups")
        return [{"name": "g"}, {"name": "h"}]

    async def describe_group(self, name: str) -> dict[str, Any]:
        self._on("group", name)
        return group(name, 5, 3)

    async def describe_topic(self, name: str) -> dict[str, Any]:
        self._on("topic", name)
        return topic(name, 5)

    async def events(self, *, since: object) -> dict[str, Any]:
        self._on("events")
        self.since = since
        return {"events": [event(1)], "silent": [], "refused": {}}


def rounds(admin: Cluster, count: int = 1) -> dict[str, Any]:
    figures = ClusterFigures()
    sampling = Sampling(cast("PacedAdmin", admin), figures, 1000)

    async def run() -> None:
        for _ in range(count):
            await sampling.round()

    asyncio.run(run())
    return figures.document(0)


def test_a_round_asks_for_everything_and_lists_only_now_and_then() -> None:
    admin = Cluster()
    document = rounds(admin, 2)
    each = ["cluster", "statistics a:1", "statistics b:1"]
    subjects = ["group g", "group h", "topic t"]
    assert admin.calls == [*each, "topics", "groups", *subjects, "events", *each, *subjects]
    assert [row["lag"] for row in document["groups"]] == [2, 2]
    assert (document["events"], document["unseen"]) == ([event(1)], {})


def test_a_sample_is_of_the_moment_of_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request may wait for its turn before it goes: that time does not count."""
    now, ends = [0], [0, 1_000]

    class Slow(Cluster):
        async def describe_topic(self, name: str) -> dict[str, Any]:
            now[0] += 900 if len(ends) == 1 else 0
            return topic(name, ends.pop(0))

        async def cluster(self) -> dict[str, Any]:
            now[0] += 100
            return await super().cluster()

    monkeypatch.setattr(asking, "monotonic_ms", lambda: now[0])
    assert rounds(Slow(), 2)["topics"][0]["in_per_second"] == 1_000.0


def test_masters_are_asked_first() -> None:
    """A slave is compared with an older sample of its master, so that none seems to be behind that is not."""
    admin = Cluster()
    admin.brokers = [broker("a:2", broker_id=1), broker("a:1"), broker("b:1", "broker-b")]
    rounds(admin)
    assert admin.calls[1:4] == ["statistics a:1", "statistics b:1", "statistics a:2"]


def test_a_broker_that_falls_silent_during_a_round_ends_it() -> None:
    """The first group that would wait for it is the last question about topics and groups."""
    admin = Cluster()
    admin.failing = {name: RequestTimeout(name, 1500) for name in ("b:1", "g")}
    document = rounds(admin)
    assert admin.calls[3:] == ["topics", "groups", "group g", "events"]
    assert [row["role"] for row in document["brokers"]] == ["master", "silent"]
    assert document["groups"][0]["why"] == str(admin.failing["g"])


def test_a_dead_master_that_is_still_registered_is_asked_once_a_round() -> None:
    """The others' topics and groups go on; the page says whose are missing."""
    admin = Cluster()
    admin.failing = {"b:1": ConnectionLost("b:1")}
    document = rounds(admin, 2)
    assert admin.calls.count("statistics b:1") == 2
    assert admin.calls[-3:] == ["group g", "group h", "topic t"]
    assert admin.passed_over == {"b:1"}
    assert document["unseen"] == {"left out": "topics, groups and queues at broker-b (b:1): no answer"}
    admin.failing = {}
    assert rounds(admin)["unseen"] == {}
    assert not admin.passed_over


def test_who_is_passed_over_is_not_asked_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = PacedAdmin.__new__(PacedAdmin)
    asked: list[str] = []

    async def masters(_: object, _deadline_ms: int) -> dict[str, str]:
        return {"broker-a": "a:1", "broker-b": "b:1"}

    async def call(_: object, address: str, *_request: object) -> tuple[Done, bytes]:
        asked.append(address)
        return Done(), b'{"groups": [], "members": [], "queues": []}'

    monkeypatch.setattr(PacedAdmin, "_masters", masters)
    monkeypatch.setattr(PacedAdmin, "_call", call)
    monkeypatch.setattr(PacedAdmin, "_deadline", lambda *_: 0)
    admin.passed_over = frozenset({"b:1"})
    asyncio.run(admin.groups())
    asyncio.run(admin.describe_group("g"))
    assert asked == ["a:1", "a:1"]
    admin.passed_over = frozenset({"a:1", "b:1"})
    with pytest.raises(NoRoute, match="broker-a, broker-b: no answer"):
        asyncio.run(admin.groups())


def test_what_the_user_may_not_see_is_said() -> None:
    admin = Cluster()
    admin.failing = {"statistics": AccessDenied("u", "get", "cluster"), "g": AccessDenied("u", "get", "group:g")}
    admin.failing |= {"h": GroupNotFound("h"), "events": AccessDenied("u", "get", "cluster")}
    document = rounds(admin)
    assert [row["role"] for row in document["brokers"]] == ["master", "master"]
    assert all("may not get on cluster" in row["why"] for row in document["brokers"])
    assert ["may not get on group:g" in row["why"] for row in document["groups"]] == [True, False]
    assert "may not" in document["unseen"]["events"]
    assert admin.calls[-2:] == ["topic t", "events"]


def test_topics_and_groups_that_cannot_be_listed_are_said() -> None:
    admin = Cluster()
    admin.failing = {"groups": NoRoute("*", "no broker leads")}
    assert "no broker leads" in rounds(admin)["unseen"]["topics and groups"]


def test_who_cannot_reach_the_cluster_is_told_at_the_start_and_later_waits() -> None:
    admin = Cluster()
    admin.failing = {"cluster": RequestTimeout("cluster", 1500)}
    figures = ClusterFigures()
    sampling = Sampling(cast("PacedAdmin", admin), figures, 1)

    async def run() -> None:
        with pytest.raises(RequestTimeout):
            await sampling.begin()
        task = asyncio.create_task(sampling.go_on())
        while len(admin.calls) < 3:
            await asyncio.sleep(0)
        assert "cluster" in figures.document(0)["unseen"]
        admin.failing = {}
        while figures.document(0)["unseen"]:
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(run())


def test_requests_wait_for_their_turn_and_not_long_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    now, timeouts = [0], list[int]()

    class Connection:
        remoting = None

    async def sleep(_waits: object, delay_ms: int) -> None:
        now[0] += delay_ms

    async def call(*_: object, timeout_ms: int) -> tuple[Done, bytes]:
        timeouts.append(timeout_ms)
        return Done(), b""

    monkeypatch.setattr(asking, "monotonic_ms", lambda: now[0])
    monkeypatch.setattr(OnLoop, "sleep", sleep)
    monkeypatch.setattr(OnLoop, "call", call)
    waits = PacedWaits(cast("Any", Connection()))

    async def run() -> None:
        for _ in range(3 * REQUESTS_MAX):
            await waits.call("a:1", GetBrokerStatistics(), timeout_ms=60_000)

    asyncio.run(run())
    assert now == [2000]
    assert set(timeouts) == {1500}
