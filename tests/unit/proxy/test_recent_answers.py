"""What is kept of the cluster's answers: for whom, for how long, and what counts while nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from zenitmq.model.errors import ConnectionLost, RequestTimeout, TopicNotFound
from zenitmq.proxy.back import recent_answers
from zenitmq.proxy.back.recent_answers import AGAIN_MS, RecentAnswers

LATE_MS = 1 << 40


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 1_000
        monkeypatch.setattr(recent_answers, "monotonic_ms", lambda: self.now_ms)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Cluster:
    """`error`: what it answers with; None = with the number of the question."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.asked = 0
        self.is_silent = False
        self.go_on = asyncio.Event()

    async def find(self, key: str, deadline_ms: int) -> int:
        self.asked += 1
        number = self.asked
        if self.is_silent:
            await self.go_on.wait()
        if self.error is not None:
            raise self.error
        return number


def run(work: Callable[[Cluster], Awaitable[None]]) -> None:
    async def within() -> None:
        await work(Cluster())

    asyncio.run(within())


def test_the_last_answer_counts_while_there_is_none(clock: Clock) -> None:
    """At once, once a question failed or takes long; what is answered at last counts then."""

    async def work(cluster: Cluster) -> None:
        answers = RecentAnswers(cluster.find, known_ms=100, size_max=1, stale_ms=60_000)
        assert await answers.get("", deadline_ms=LATE_MS) == 1
        clock.now_ms += 100
        cluster.error = ConnectionLost("broker-a")
        assert [await answers.get("", deadline_ms=LATE_MS) for _ in range(5)] == [1] * 5
        assert cluster.asked == 2
        clock.now_ms += AGAIN_MS
        answers.forget("")
        cluster.is_silent, cluster.error = True, None
        assert await answers.get("", deadline_ms=clock.now_ms + 1) == 1
        clock.now_ms += 250
        assert await answers.get("", deadline_ms=LATE_MS) == 1
        cluster.go_on.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await answers.get("", deadline_ms=LATE_MS) == 3
        clock.now_ms += 60_000
        cluster.error = ConnectionLost("broker-a")
        with pytest.raises(ConnectionLost):
            await answers.get("", deadline_ms=clock.now_ms + 1_000)

    run(work)


def test_each_who_asks_has_its_own_deadline(clock: Clock) -> None:
    """Who has less time than who asked first is told in time; who has more asks again where that one's was over."""

    async def work(cluster: Cluster) -> None:
        answers = RecentAnswers(cluster.find, known_ms=100, size_max=1)
        cluster.is_silent, cluster.error = True, RequestTimeout("it", 5)
        first = asyncio.create_task(answers.get("", deadline_ms=clock.now_ms + 5_000))
        await asyncio.sleep(0)
        with pytest.raises(RequestTimeout):
            await answers.get("", deadline_ms=clock.now_ms + 1)
        later = asyncio.create_task(answers.get("", deadline_ms=clock.now_ms + 60_000))
        await asyncio.sleep(0)
        cluster.go_on.set()
        with pytest.raises(RequestTimeout):
            await first
        cluster.error = None
        assert await later == 2

    run(work)


def test_what_is_refused_is_told_to_all_who_asked(clock: Clock) -> None:
    async def work(cluster: Cluster) -> None:
        answers = RecentAnswers(cluster.find, known_ms=100, size_max=1)
        cluster.error = TopicNotFound("t")
        asked = (answers.get("", deadline_ms=LATE_MS + more) for more in range(3))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(one) for one in outcomes} == {TopicNotFound}
        assert cluster.asked == 1

    run(work)


def test_what_is_of_no_use_any_more_is_dropped(clock: Clock) -> None:
    async def work(cluster: Cluster) -> None:
        answers = RecentAnswers(cluster.find, known_ms=100, size_max=1_000)
        for number in range(10):
            await answers.get(f"{number}", deadline_ms=LATE_MS)
        clock.now_ms += 101
        await answers.get("new", deadline_ms=LATE_MS)
        assert len(answers) == 1
        clock.now_ms += 101
        answers.drop_old()
        assert len(answers) == 0

    run(work)
