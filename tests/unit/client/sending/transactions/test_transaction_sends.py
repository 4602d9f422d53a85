"""Half messages and decisions of several callers that go out together: nobody suffers by what another one does."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from zenitmq.client.aio.event_loop import OnLoop
from zenitmq.client.connection.waiting import Blocking, run_blocking
from zenitmq.client.sending.transactions import combiner, transaction_sends
from zenitmq.client.sending.transactions.combiner import Combiner
from zenitmq.client.sending.transactions.transaction_sends import TransactionSends
from zenitmq.model.errors import MessageTooLarge
from zenitmq.model.message import Message
from zenitmq.model.properties import HALF_SENDER

REMOTING = cast("Any", type("Remoting", (), {"call": None}))


class Accumulator:
    """Takes all but what is too large."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def append(self, body: bytes, *_: object) -> bool:
        if body == b"too large":
            raise MessageTooLarge("properties", 40_000, 31_743)
        self.bodies.append(body)
        return True


class Waited:
    """Stores what it is given; the first request takes until `go`."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.go = threading.Event()
        self.requests: list[list[bytes]] = []

    async def send(self, _topic: str, fill: Any, _key: str | None, _total_ms: int) -> tuple[Any, None, list[bytes]]:
        self.has_begun.set()
        assert self.go.wait(30)
        accumulator = Accumulator()
        fill(accumulator)
        self.requests.append(accumulator.bodies)
        return type("Batch", (), {"facts": lambda _self: accumulator.bodies})(), None, accumulator.bodies


def test_a_message_that_is_too_large_is_the_trouble_of_its_caller_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_sends, "BatchReceipts", lambda facts, _queue, _reply: facts)
    waited = Waited()
    sends = TransactionSends("g", Blocking(REMOTING), cast("Any", waited), 4096)

    def store(body: bytes) -> object:
        return run_blocking(sends.store(Message("t", body), None, {HALF_SENDER: "client/1"}, 30_000))

    with ThreadPoolExecutor(12) as threads:
        first = threads.submit(store, b"first")
        assert waited.has_begun.wait(30)
        bodies = [b"one", b"too large", b"two", b"three"]
        together = {body: threads.submit(store, body) for body in bodies}
        halves = sends._halves["t", 30_000]
        while len(halves._waiting) < len(bodies):
            assert not first.done()
        waited.go.set()
        for body in bodies:
            if body == b"too large":
                with pytest.raises(MessageTooLarge):
                    together[body].result()
            else:
                assert together[body].result() == body


def test_who_is_cancelled_while_it_sends_for_others_takes_nothing_from_them() -> None:
    async def story() -> None:
        gates = {"before": asyncio.Event(), "leader": asyncio.Event(), "after": asyncio.Event()}
        begun: list[list[str]] = []

        async def send(items: list[str]) -> list[str]:
            begun.append(items)
            await gates[items[0]].wait()
            return [item.upper() for item in items]

        sender: Combiner[str, str] = Combiner(OnLoop(REMOTING, "x"), cast("Any", send), under_way_max=1, what="x")

        def ask(item: str) -> asyncio.Task[str]:
            return asyncio.create_task(sender.ask(item, size_bytes=1, total_ms=5000))

        before, leader, other = ask("before"), ask("leader"), ask("other")
        while not begun or len(sender._waiting) < 2:
            await asyncio.sleep(0)
        gates["before"].set()
        assert await before == "BEFORE"
        while len(begun) < 2:
            await asyncio.sleep(0)
        leader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
        gates["leader"].set()
        assert await other == "OTHER"
        gates["after"].set()
        assert await ask("after") == "AFTER"

    asyncio.run(story())


class Sends:
    """A combiner over one loop whose requests are noted, and answered at once."""

    def __init__(self, together: int) -> None:
        self.requests: list[list[str]] = []
        self.combiner: Combiner[str, str] = Combiner(
            OnLoop(REMOTING, "x"), cast("Any", self._send), under_way_max=1, what="x"
        )
        self.combiner._together = together

    async def _send(self, items: list[str]) -> list[str]:
        self.requests.append(items)
        return [item.upper() for item in items]

    def ask(self, item: str) -> asyncio.Task[str]:
        return asyncio.create_task(self.combiner.ask(item, size_bytes=1, total_ms=5000))


def test_the_last_of_those_who_come_together_sends_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combiner, "GATHER_MS", 60_000)

    async def story() -> None:
        sends = Sends(together=3)
        assert await asyncio.gather(*map(sends.ask, "abc")) == ["A", "B", "C"]
        assert [sorted(items) for items in sends.requests] == [["a", "b", "c"]]

    asyncio.run(story())


def test_where_fewer_come_the_first_sends_after_a_while() -> None:
    async def story() -> None:
        sends = Sends(together=3)
        assert await asyncio.gather(*map(sends.ask, "ab")) == ["A", "B"]
        assert await sends.ask("alone") == "ALONE"
        assert sends.requests == [["a", "b"], ["alone"]]
        assert await sends.ask("at once") == "AT ONCE"

    asyncio.run(story())


def test_if_the_first_does_not_wait_for_the_others_another_one_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combiner, "GATHER_MS", 60_000)

    async def story() -> None:
        sends = Sends(together=3)
        first, second = sends.ask("first"), sends.ask("second")
        await asyncio.sleep(0)
        first.cancel()
        assert await second == "SECOND"
        assert sends.requests == [["second"]]

    asyncio.run(story())


def test_who_leads_while_the_first_gathers_answers_it() -> None:
    async def story() -> None:
        sends = Sends(together=2)
        gate = asyncio.Event()
        send = sends._send

        async def slowly(items: list[str]) -> list[str]:
            await gate.wait()
            return await send(items)

        sends.combiner._send = cast("Any", slowly)
        first, second = sends.ask("first"), sends.ask("second")
        await asyncio.sleep(
            0.02
        )  # the first has waited long enough by now, while the second one's request is under way
        gate.set()
        assert await asyncio.gather(first, second) == ["FIRST", "SECOND"]
        assert sends.requests == [["second", "first"]]

    asyncio.run(story())
