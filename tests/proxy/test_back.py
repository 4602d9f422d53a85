"""The proxy's way to a real cluster: sends that travel together, pops at all brokers, acknowledgements, presence."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from zenitmq.client.sending.target import GivenQueue
from zenitmq.model.clock import now_ms
from zenitmq.model.errors import HandleRefused, LeaseExpired, MessageTooLarge, TopicNotFound
from zenitmq.model.properties import TIMER_DELAY_MS, encode_properties
from zenitmq.model.subscription import Subscription
from zenitmq.proxy.back.backs import Backs
from zenitmq.proxy.back.foreign_client import ForeignClient
from zenitmq.proxy.back.parts import Back
from zenitmq.proxy.back.pops import Wanted
from zenitmq.proxy.back.ready_message import ReadyMessage, SendKind
from zenitmq.proxy.config import ProxyConfig
from zenitmq.remoting.commands import (
    CheckTransaction,
    EndTransactions,
    GetConsumerList,
    OffsetsReset,
    PopMessages,
    PushReply,
)
from zenitmq.testing import LocalCluster

TOPIC = "back"
MOVED = ForeignClient(
    "moved", "RocketMQ", "1", "10.1.2.3", (), (("back-moved", "CLUSTERING", (("back", "TAG", "*"),)),)
)
BORN = bytes((10, 1, 2, 3, 0, 0, 4, 5))


class Silent:
    """See Listener."""

    shares_queues = True

    def on_check(self, request: CheckTransaction, record: bytes) -> None:
        """Nothing."""

    def on_group_changed(self) -> None:
        """Nothing."""

    def on_offsets_reset(self, request: OffsetsReset) -> None:
        """Nothing."""

    def on_reply(self, request: PushReply, record: bytes) -> None:
        """Nothing."""


@pytest.fixture(scope="module", autouse=True)
def _topic(cluster: LocalCluster) -> None:
    cluster.create_topic(TOPIC)


def run(cluster: LocalCluster, work: Any) -> Any:
    async def within() -> Any:
        async with Backs(ProxyConfig(namesrv=(cluster.namesrv,))) as backs:
            return await work(backs.own)

    coroutine: Coroutine[Any, Any, Any] = within()
    return asyncio.run(coroutine)


def message(number: int, *, topic: str = TOPIC, kind: SendKind = SendKind.PLAIN, **properties: str) -> ReadyMessage:
    name = f"01{number:032X}"
    encoded = encode_properties({**properties, "UNIQ_KEY": name})
    return ReadyMessage(
        topic, b"body %d" % number, encoded, name, now_ms() - 5, BORN, kind, producer_group="back-group"
    )


def soon(back: Back, timeout_ms: int = 10_000) -> int:
    return back.backend.deadline_ms(timeout_ms)


async def popped(back: Back, group: str, count: int, **more: Any) -> list[Any]:
    wanted = Wanted(group, Subscription.parse(TOPIC), "client", **more)
    found: list[Any] = []
    while len(found) < count:
        batch = await back.pops.pop(wanted, 32, invisible_ms=20_000, wait_ms=3_000)
        assert batch, f"{len(found)} of {count}"
        found += batch
    return found


def test_sends_that_come_together_travel_together_and_come_out_as_they_were(cluster: LocalCluster) -> None:
    """Each sender gets its own place; id, born time and born host are the sender's."""

    async def work(back: Back) -> None:
        sent = [message(number) for number in range(300)]
        stored = await asyncio.gather(*(back.sends.send(one, deadline_ms=soon(back)) for one in sent))
        assert back.sends.requests < 10
        assert (back.budget.messages, back.budget.bytes_in_flight) == (0, 0)
        found = {one.message.message_id: one for one in await popped(back, "together", 300)}
        for one, place in zip(sent, stored, strict=True):
            got = found[one.message_id].message
            assert (got.body, got.born_at_ms, got.born_host) == (one.body, one.born_at_ms, BORN)
            assert (got.queue, got.queue_offset) == (place.queue, place.queue_offset)
            assert (got.physical_offset, got.offset_message_id) == (place.physical_offset, place.offset_message_id)
        outcomes = await back.acks.ack("together", [one.handle for one in found.values()], deadline_ms=soon(back))
        assert outcomes == [None] * 300

    run(cluster, work)


def test_a_given_queue_keeps_the_order_of_its_sends(cluster: LocalCluster) -> None:
    async def work(back: Back) -> None:
        route = await back.backend.route(TOPIC, deadline_ms=soon(back))
        target = GivenQueue(route.brokers[0].broker_name, 2)
        sends = [back.sends.send(message(1000 + number), target, deadline_ms=soon(back)) for number in range(20)]
        stored = await asyncio.gather(*sends)
        first = stored[0].queue_offset
        assert [(one.queue.queue_id, one.queue_offset) for one in stored] == [(2, first + at) for at in range(20)]

    run(cluster, work)


def test_messages_that_are_sent_together_lie_side_by_side(cluster: LocalCluster) -> None:
    """In one request; one that breaks a rule keeps all from being sent."""

    async def work(back: Back) -> None:
        route = await back.backend.route(TOPIC, deadline_ms=soon(back))
        target = GivenQueue(route.brokers[0].broker_name, 1)
        before = back.sends.requests
        stored = await back.sends.send_all([message(at) for at in range(256)], target, deadline_ms=soon(back))
        assert back.sends.requests == before + 1
        first = stored[0].queue_offset
        assert [one.queue_offset for one in stored] == list(range(first, first + 256))
        too_large = ReadyMessage(TOPIC, bytes(5 << 20), b"", "X", 1, BORN)
        with pytest.raises(MessageTooLarge):
            await back.sends.send_all([message(1), too_large], target, deadline_ms=soon(back))
        (after,) = await back.sends.send_all([message(2)], target, deadline_ms=soon(back))
        assert after.queue_offset == first + 256
        with pytest.raises(TopicNotFound):
            await back.sends.send_all([message(3, topic="nowhere")], target, deadline_ms=soon(back))

    run(cluster, work)


def test_a_message_that_is_refused_spoils_no_other(cluster: LocalCluster) -> None:
    async def work(back: Back) -> None:
        too_large = ReadyMessage(TOPIC, bytes(5 << 20), b"", "X", 1, BORN)
        outcomes = await asyncio.gather(
            *(back.sends.send(one, deadline_ms=soon(back)) for one in (message(1), too_large, message(2))),
            return_exceptions=True,
        )
        assert isinstance(outcomes[1], MessageTooLarge)
        assert not isinstance(outcomes[0], Exception)
        assert not isinstance(outcomes[2], Exception)
        with pytest.raises(TopicNotFound):
            await back.sends.send(message(3, topic="nowhere"), deadline_ms=soon(back))

    run(cluster, work)


def test_handles_tell_what_became_of_a_lease(cluster: LocalCluster) -> None:
    """More time gives a new handle; the old one is of no use; a handle of another group, or none, is refused."""

    async def work(back: Back) -> None:
        await back.sends.send(message(7), deadline_ms=soon(back))
        one, *_ = await popped(back, "leases", 1)
        fresh = await back.acks.change_invisible("leases", one.handle, 15_000, deadline_ms=soon(back))
        assert fresh != one.handle
        outcomes = await back.acks.ack("leases", [one.handle, fresh, "no handle"], deadline_ms=soon(back))
        assert isinstance(outcomes[0], LeaseExpired)
        assert outcomes[1] is None
        assert isinstance(outcomes[2], HandleRefused)
        assert isinstance((await back.acks.ack("others", [fresh], deadline_ms=soon(back)))[0], HandleRefused)
        again = await back.acks.ack("leases", [fresh], deadline_ms=soon(back))
        assert again == [None]

    run(cluster, work)


def test_a_pop_of_one_queue_that_is_given_up_releases_its_messages(cluster: LocalCluster) -> None:
    async def work(back: Back) -> None:
        route = await back.backend.route(TOPIC, deadline_ms=soon(back))
        broker = route.brokers[0].broker_name
        target = GivenQueue(broker, 3)
        request = PopMessages("given-up", TOPIC, 32, 20_000, 0, "client", queue_id=3)
        while await back.pops.pop_once(broker, request, deadline_ms=soon(back)):
            pass
        waiting = PopMessages("given-up", TOPIC, 32, 20_000, 10_000, "client", queue_id=3)
        task = asyncio.create_task(back.pops.pop_once(broker, waiting, deadline_ms=soon(back)))
        while not back.pops.waiting:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await back.sends.send(message(9), target, deadline_ms=soon(back))
        (one,) = await back.pops.pop_once(broker, waiting, deadline_ms=soon(back))
        assert one.message.reconsume_times == 0
        assert await back.acks.ack("given-up", [one.handle], deadline_ms=soon(back)) == [None]

    run(cluster, work)


def test_delayed_and_half_messages_name_how_they_go_on(cluster: LocalCluster) -> None:
    async def work(back: Back) -> None:
        delayed = message(20, kind=SendKind.DELAYED, **{TIMER_DELAY_MS: "60000"})
        half = message(21, kind=SendKind.HALF)
        waits, prepared = await asyncio.gather(
            *(back.sends.send(one, deadline_ms=soon(back)) for one in (delayed, half))
        )
        assert waits.recall_handle
        assert waits.deliver_at_ms > now_ms()
        assert not prepared.recall_handle
        end = EndTransactions("back-group", ((TOPIC, prepared.transaction_id, 8, -1),))
        reply, _ = await back.backend.call(TOPIC, prepared.queue.broker_name, end, deadline_ms=soon(back))
        assert reply.rows[0][:2] == (0, "committed")

    run(cluster, work)


def members(back: Back, group: str) -> Any:
    return back.backend.call_master("broker-a", GetConsumerList(group), deadline_ms=soon(back))


def test_a_link_that_ends_is_no_goodbye(cluster: LocalCluster) -> None:
    """Its client may have come through another proxy already, and goes on with its queues and locks there."""

    async def through_two(old: Back) -> None:
        namesrv = cluster.namesrv.replace(
            "127.0.0.1", "localhost"
        )  # as another process comes: by a connection of its own
        async with Backs(ProxyConfig(namesrv=(namesrv,))) as backs:
            new, before, after = backs.own, Silent(), Silent()
            await old.presence.join(MOVED, before)
            await new.presence.join(MOVED, after)
            new.presence.lose(MOVED.client_id, before)
            assert new.presence.heard(MOVED.client_id), "another session has it"
            old.presence.lose(MOVED.client_id, before)
            reply, _ = await members(new, "back-moved")
            assert reply.client_ids == (MOVED.client_id,)
            await new.presence.leave(MOVED.client_id, after)
            reply, _ = await members(new, "back-moved")
            assert reply.client_ids == ()

    run(cluster, through_two)


def test_who_says_goodbye_before_it_has_a_route_is_heard(cluster: LocalCluster) -> None:
    async def comes_and_goes(back: Back) -> None:
        await back.presence.join(MOVED, Silent())
        assert not back.backend.connection.routes.masters()
        await back.presence.leave(MOVED.client_id)
        reply, _ = await members(back, "back-moved")
        assert reply.client_ids == ()

    run(cluster, comes_and_goes)
