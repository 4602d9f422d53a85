"""Sends that travel together over a broker that is played: what one of them breaks, and what the others get."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zenitmq.client.sending.target import GivenQueue, Target
from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import InvalidParameter, MessageIllegal, NoRoute, OutcomeUnknown, RequestTimeout
from zenitmq.model.properties import encode_properties
from zenitmq.model.queue import MessageQueue
from zenitmq.proxy.back import sends as sends_module
from zenitmq.proxy.back.backend import Backend
from zenitmq.proxy.back.ready_message import ReadyMessage, SendKind, Stored
from zenitmq.proxy.back.sends import SendBudget, Sends
from zenitmq.remoting.commands import SendReply

BORN = bytes((10, 1, 2, 3, 0, 0, 4, 5))
QUEUE = MessageQueue("trades", "broker-a", 0)
SOON_MS = 5_000


class PlayedBroker:
    """Refuses requests with b"refused" in them; answers those with b"slow" when it is told to."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.go_on = asyncio.Event()

    async def send_batch(
        self, topic: str, batch: Any, target: Target | None, total_ms: int, deadline_ms: int, *, delayed: bool
    ) -> tuple[MessageQueue, SendReply]:
        assert (topic, target, delayed) == (QUEUE.topic, None, False)
        assert total_ms <= deadline_ms
        content = bytes(batch.payload())
        self.counts.append(batch.count)
        if b"slow" in content:
            await self.go_on.wait()
        if b"refused" in content:
            raise InvalidParameter("delay_level", 99, "1 to 18")
        return QUEUE, SendReply(0, 7, 900, 5, bytes(8))


def message(body: bytes, **more: Any) -> ReadyMessage:
    return ReadyMessage("trades", body, b"", "ID", 1, BORN, **more)


def run(work: Callable[[Sends, PlayedBroker], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def within() -> None:
        route = SimpleNamespace(is_batched=False, brokers=())
        connection = SimpleNamespace(routes=SimpleNamespace(cached=lambda _topic: route))
        broker = PlayedBroker()
        sends = Sends(cast("Backend", SimpleNamespace(connection=connection, waits=None)), SendBudget(1 << 24))
        monkeypatch.setattr(sends, "_producer", lambda *_: broker)
        await work(sends, broker)
        assert (sends._budget.messages, sends._budget.bytes_in_flight) == (0, 0)

    asyncio.run(within())


def outcomes_of(sends: Sends, *bodies: bytes) -> Any:
    deadline_ms = monotonic_ms() + SOON_MS
    return asyncio.gather(
        *(sends.send(message(body), deadline_ms=deadline_ms) for body in bodies), return_exceptions=True
    )


def test_what_a_broker_refuses_for_one_message_is_told_to_its_sender_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are asked in halves, not one by one."""

    async def work(sends: Sends, broker: PlayedBroker) -> None:
        bodies = [b"good"] * 200
        bodies[77] = b"refused"
        outcomes = await outcomes_of(sends, *bodies)
        assert [at for at, one in enumerate(outcomes) if not isinstance(one, Stored)] == [77]
        assert isinstance(outcomes[77], InvalidParameter)
        assert broker.counts[0] == 200
        assert len(broker.counts) < 20

    run(work, monkeypatch)


def test_a_record_that_cannot_be_made_fails_its_sender_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(sends: Sends, broker: PlayedBroker) -> None:
        whole = ReadyMessage.record

        def record(self: ReadyMessage, own: bytes, host_bytes: int) -> bytes:
            if self.body == b"odd":
                raise OverflowError
            return whole(self, own, host_bytes)

        monkeypatch.setattr(ReadyMessage, "record", record)
        outcomes = await outcomes_of(sends, b"good", b"odd", b"good")
        assert [type(one) for one in outcomes] == [Stored, MessageIllegal, Stored]

    run(work, monkeypatch)


def test_each_keeps_to_its_own_deadline_in_a_lane_that_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was not sent yet is told that it is not stored; who was is in doubt."""

    async def work(sends: Sends, broker: PlayedBroker) -> None:
        monkeypatch.setattr(sends_module, "LATE_MS", 0)
        later_ms, soon_ms = monotonic_ms() + SOON_MS, monotonic_ms() + 20
        patient = asyncio.create_task(sends.send(message(b"slow"), deadline_ms=later_ms))
        hasty = asyncio.create_task(sends.send(message(b"hasty"), deadline_ms=soon_ms))
        while not broker.counts:
            await asyncio.sleep(0)
        behind = asyncio.create_task(sends.send(message(b"behind"), deadline_ms=soon_ms))
        with pytest.raises(OutcomeUnknown):
            await hasty
        with pytest.raises(RequestTimeout):
            await behind
        broker.go_on.set()
        assert isinstance(await patient, Stored)
        assert broker.counts == [2]

    run(work, monkeypatch)


def test_a_batch_goes_in_one_request_or_in_as_many_as_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message has its own place; single sends that come with it are told of theirs."""

    async def work(sends: Sends, broker: PlayedBroker) -> None:
        deadline_ms = monotonic_ms() + SOON_MS
        large = [message(bytes(1_500)) for _ in range(250)]  # more bytes than single sends share
        stored, *others = await asyncio.gather(
            sends.send_all(large, deadline_ms=deadline_ms),
            *(sends.send(message(b"x"), deadline_ms=deadline_ms) for _ in range(2)),
        )
        assert broker.counts == [250, 2]
        assert [one.queue_offset for one in stored] == list(range(7, 257))
        assert [one.queue_offset for one in others] == [7, 8]
        size = len(large[0].record(b"", 8))
        own = len(sends._numbered.own_properties)
        assert [one.physical_offset for one in stored[:3]] == [900 + step * (size + own) for step in range(3)]
        broker.counts.clear()
        stored = await sends.send_all([message(b"x")] * 600, deadline_ms=deadline_ms)
        assert (len(stored), broker.counts) == (600, [256, 256, 88])
        broker.counts.clear()
        await sends.send_all([message(bytes(1 << 20))] * 5, deadline_ms=deadline_ms)
        assert broker.counts == [3, 2]

    run(work, monkeypatch)


def test_a_batch_is_refused_as_a_whole_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(sends: Sends, broker: PlayedBroker) -> None:
        deadline_ms = monotonic_ms() + SOON_MS
        batch, good = await asyncio.gather(
            sends.send_all([message(b"good"), message(b"refused")], deadline_ms=deadline_ms),
            sends.send(message(b"good"), deadline_ms=deadline_ms),
            return_exceptions=True,
        )
        assert isinstance(batch, InvalidParameter)
        assert isinstance(good, Stored)

    run(work, monkeypatch)


def test_a_batch_whose_client_goes_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of its messages, though it waits for the first only."""

    async def work(sends: Sends, broker: PlayedBroker) -> None:
        deadline_ms = monotonic_ms() + SOON_MS
        before = asyncio.create_task(sends.send(message(b"slow"), deadline_ms=deadline_ms))
        while not broker.counts:
            await asyncio.sleep(0)
        batch = asyncio.create_task(sends.send_all([message(b"good")] * 9, deadline_ms=deadline_ms))
        await asyncio.sleep(0)
        batch.cancel()
        await asyncio.gather(batch, return_exceptions=True)
        broker.go_on.set()
        await before
        await sends.send(message(b"good"), deadline_ms=deadline_ms)
        assert broker.counts == [1, 1]

    run(work, monkeypatch)


def test_a_batch_is_refused_as_the_first_of_its_messages_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(sends: Sends, broker: PlayedBroker) -> None:
        batch = [message(body) for body in (b"good", b"refused", b"good", b"refused")]
        with pytest.raises(InvalidParameter):
            await sends.send_all(batch, deadline_ms=monotonic_ms() + SOON_MS)
        assert broker.counts[0] == len(batch)

    run(work, monkeypatch)


def test_a_queue_of_a_broker_that_nobody_has_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(sends: Sends, broker: PlayedBroker) -> None:
        async def check(name: str, *, deadline_ms: int) -> None:
            raise NoRoute(name, "no broker has that name")

        sends._backend.check_broker = check  # type: ignore[method-assign]
        target = GivenQueue("nobody", 0)
        for sending in (
            sends.send(message(b""), target, deadline_ms=0),
            sends.send_all([message(b"")], target, deadline_ms=0),
        ):
            with pytest.raises(NoRoute, match="nobody"):
                await sending
        assert not broker.counts

    run(work, monkeypatch)


@pytest.mark.parametrize(
    "more",
    [
        {"reconsume_times": 1 << 40},
        {"reconsume_times": -1},
        {"flag": 1 << 40},
        {"flag": -(1 << 40)},
        {"born_at_ms": 1 << 63},
        {"born_at_ms": -1},
        {"sys_flag": 1 << 40},
    ],
)
def test_numbers_that_no_record_holds_are_refused(more: dict[str, int]) -> None:
    made = {"born_at_ms": 1, **more}
    with pytest.raises(MessageIllegal):
        ReadyMessage("trades", b"", b"", "ID", born_host=BORN, **made).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIMER_DELIVER_MS", "abc"),
        ("TIMER_DELAY_SEC", "-5"),
        ("TIMER_DELAY_MS", "9" * 30),
        ("DELAY", "9" * 5_000),
        ("DELAY", "\u0661"),
    ],
)
def test_delays_that_no_broker_reads_are_refused(name: str, value: str) -> None:
    encoded = encode_properties({name: value})
    with pytest.raises(MessageIllegal, match=name):
        ReadyMessage("trades", b"", encoded, "ID", 1, BORN, SendKind.DELAYED).check()
    ReadyMessage("trades", b"", encode_properties({"DELAY": "3", name: "5"}), "ID", 1, BORN).check()
