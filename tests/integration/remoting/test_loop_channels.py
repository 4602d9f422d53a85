"""An event loop's own connections to a server: what they carry, how they end, and what they leave behind."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from typing import Any

import pytest
import uvloop

from zenitmq.client.aio.event_loop import OnLoop
from zenitmq.model.errors import (
    BufferFull,
    ClientClosed,
    ConnectionLost,
    InvalidParameter,
    NoRoute,
    RequestTimeout,
)
from zenitmq.remoting import channel as channel_module
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetMaxOffset, GetTopicList, OffsetReply, SendMessages, SendReply
from zenitmq.remoting.direct import direct_dealer, loop_channels

ASK = GetMaxOffset("t", 0)
PAYLOAD = bytes(range(256)) * 900  # more than a quarter of what a kernel keeps, and less than the frame's limit


def echo(call: Any) -> SendReply:
    view = call.loop.arena.view[call.begin : call.end]
    return SendReply(call.request.queue_id, len(view), sum(bytes(view)[:100]), 0, b"")


def run(work: Any) -> Any:
    return asyncio.run(work)


def test_calls_pass_each_other_and_leave_together(serve: Any) -> None:
    waiting: list[Any] = []

    def late(call: Any) -> None:
        waiting.append(call)
        if len(waiting) == 50:
            for each in reversed(waiting):
                call.loop.reply(each, OffsetReply(each.request.queue_id))

    served = serve({GetMaxOffset: late, SendMessages: echo})

    async def work() -> None:
        with RemotingClient() as client:
            waits = OnLoop(client, "test")
            answers = await asyncio.gather(
                *(waits.call(served.address, GetMaxOffset("t", number), timeout_ms=5000) for number in range(50)),
                *(
                    waits.call(served.address, SendMessages("t", number, 1, "g"), PAYLOAD, timeout_ms=5000)
                    for number in range(40)
                ),
            )
            assert [reply.offset for reply, _ in answers[:50]] == list(range(50))
            assert [reply.queue_id for reply, _ in answers[50:]] == list(range(40))
            assert {reply.queue_offset for reply, _ in answers[50:]} == {len(PAYLOAD)}
            assert not client._channels  # nothing went by the I/O thread
            assert client._io is None

    run(work())


def test_a_request_without_a_reply_comes_behind_those_before_it(serve: Any) -> None:
    seen: list[int] = []

    def note(call: Any) -> OffsetReply:
        seen.append(call.request.queue_id)
        return OffsetReply(1)

    served = serve({GetMaxOffset: note})

    async def work() -> None:
        with RemotingClient() as client:
            waits = OnLoop(client, "test")
            calls = [
                asyncio.create_task(waits.call(served.address, GetMaxOffset("t", number), timeout_ms=5000))
                for number in range(3)
            ]
            await asyncio.sleep(0)
            assert waits.oneway(served.address, GetMaxOffset("t", 3))
            await asyncio.gather(*calls)
            await waits.call(served.address, GetMaxOffset("t", 4), timeout_ms=5000)
            assert seen == [0, 1, 2, 3, 4]

    run(work())


def test_one_after_the_end_of_its_loop_goes_by_the_shared_connection(serve: Any) -> None:
    """A coroutine that is freed with its loop's end tells the broker so nevertheless."""
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})
    with RemotingClient() as client:
        waits = OnLoop(client, "test")
        run(waits.call(served.address, ASK, timeout_ms=2000))
        assert waits.oneway(served.address, ASK)
        assert list(client._channels) == [served.address]


def test_a_large_answer_comes_whole(serve: Any) -> None:
    answer = [bytes([number]) * 300_000 for number in range(20)]

    def large(call: Any) -> None:
        call.loop.reply(call, OffsetReply(1), answer)

    served = serve({GetMaxOffset: large})

    async def work() -> None:
        with RemotingClient() as client:
            _, payload = await OnLoop(client, "test").call(served.address, ASK, timeout_ms=10_000)
            assert payload == b"".join(answer)

    run(work())


def test_errors_and_deadlines_come_to_their_callers(serve: Any) -> None:
    def refuse(_: Any) -> None:
        raise NoRoute("t", "no broker")

    served = serve({GetMaxOffset: lambda _: None, GetTopicList: refuse})

    async def work() -> None:
        with RemotingClient() as client:
            waits = OnLoop(client, "test")
            with pytest.raises(NoRoute):
                await waits.call(served.address, GetTopicList(), timeout_ms=2000)
            begun = time.monotonic()
            with pytest.raises(RequestTimeout):
                await asyncio.gather(
                    waits.call(served.address, ASK, timeout_ms=60_000), waits.call(served.address, ASK, timeout_ms=100)
                )
            assert time.monotonic() - begun < 2
            with pytest.raises(InvalidParameter):
                await waits.call("nowhere", ASK, timeout_ms=100)

    run(work())


def test_a_server_that_ends_fails_what_is_in_flight_at_once_and_another_takes_its_place(serve: Any) -> None:
    served = serve({GetMaxOffset: lambda _: None})

    async def work() -> None:
        with RemotingClient() as client:
            waits = OnLoop(client, "test")
            task = asyncio.create_task(waits.call(served.address, ASK, timeout_ms=60_000))
            await asyncio.sleep(0.05)
            await asyncio.to_thread(served.stop)
            begun = time.monotonic()
            with pytest.raises(ConnectionLost):
                await task
            with pytest.raises(ConnectionLost):
                await waits.call(served.address, ASK, timeout_ms=60_000)
            assert time.monotonic() - begun < 5
            again = serve({GetMaxOffset: lambda _: OffsetReply(7)}, bind=served.address)
            assert (await waits.call(again.address, ASK, timeout_ms=5000))[0] == OffsetReply(7)

    run(work())


def test_closing_fails_what_waits_and_leaves_no_descriptor(serve: Any) -> None:
    served = serve({GetMaxOffset: lambda _: None})

    async def work() -> None:
        client = RemotingClient()
        waits = OnLoop(client, "test")
        task = asyncio.create_task(waits.call(served.address, ASK, timeout_ms=60_000))
        await asyncio.sleep(0.01)
        channels = client.loop_channels(asyncio.get_running_loop(), served.address)
        assert channels is not None
        dealers = [channel.dealer for channel in channels._channels.values()]
        await asyncio.to_thread(client.close)
        with pytest.raises(ClientClosed):
            await task
        assert [dealer.fileno() for dealer in dealers] == [-1]
        with pytest.raises(ClientClosed):
            await waits.call(served.address, ASK, timeout_ms=1000)

    run(work())


def test_a_loop_that_is_gone_leaves_nothing(serve: Any) -> None:
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})
    client = RemotingClient()
    kept: list[Any] = []

    async def work() -> None:
        await OnLoop(client, "test").call(served.address, ASK, timeout_ms=2000)
        kept.append(client.loop_channels(asyncio.get_running_loop(), served.address))

    run(work())
    dealers = [channel.dealer for channel in kept[0]._channels.values()]
    client.close()
    assert [dealer.fileno() for dealer in dealers] == [-1]


def test_a_cancelled_call_drops_its_answer(serve: Any) -> None:
    waiting: list[Any] = []
    served = serve({GetMaxOffset: lambda call: waiting.append(call) if not waiting else OffsetReply(2)})

    async def work() -> None:
        with RemotingClient() as client:
            waits = OnLoop(client, "test")
            task = asyncio.create_task(waits.call(served.address, ASK, timeout_ms=60_000))
            while not waiting:
                await asyncio.sleep(0.001)
            task.cancel()
            served.on_loop(lambda: served.loop.reply(waiting[0], OffsetReply(1)))
            assert (await waits.call(served.address, ASK, timeout_ms=5000))[0] == OffsetReply(2)

    run(work())


def test_what_is_in_flight_is_bounded(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve({SendMessages: lambda _: None})
    monkeypatch.setattr(channel_module, "IN_FLIGHT_BYTES_MAX", 2 * len(PAYLOAD) + 1000)

    async def work() -> None:
        with RemotingClient() as client:
            waits = OnLoop(client, "test")
            asked = SendMessages("t", 0, 1, "g")
            tasks = [asyncio.create_task(waits.call(served.address, asked, PAYLOAD, timeout_ms=200)) for _ in range(3)]
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(each) for each in done] == [RequestTimeout, RequestTimeout, BufferFull]

    run(work())


def test_a_connection_that_is_being_made_while_the_cluster_is_named_names_it(serve: Any) -> None:
    """Its requests named none: a server of another cluster would have carried them out."""
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})

    async def work() -> None:
        with RemotingClient() as client:
            channels = client.loop_channels(asyncio.get_running_loop(), served.address)
            assert channels is not None
            make = channels._new_channel

            def name_meanwhile(dealer: direct_dealer.DirectDealer) -> Any:
                made = make(dealer)
                client.name_cluster("f00")
                return made

            channels._new_channel = name_meanwhile
            await OnLoop(client, "test").call(served.address, ASK, timeout_ms=2000)
            assert channels._channels[served.address].cluster_id == "f00"

    run(work())


def test_a_loop_that_was_blocked_makes_a_new_connection(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings waited meanwhile, so the server may be about to end the old one."""
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})

    async def work() -> None:
        with RemotingClient() as client:
            waits = OnLoop(client, "test")
            await waits.call(served.address, ASK, timeout_ms=2000)
            channels = client.loop_channels(asyncio.get_running_loop(), served.address)
            assert channels is not None
            first = channels._channels[served.address]
            await waits.call(served.address, ASK, timeout_ms=2000)
            assert channels._channels[served.address] is first
            late = loop_channels.monotonic_ms() + direct_dealer.REST_MS + 100
            with monkeypatch.context() as blocked:
                blocked.setattr(loop_channels, "monotonic_ms", lambda: late)
                await waits.call(served.address, ASK, timeout_ms=2000)
            assert channels._channels[served.address] is not first
            assert first.ended

    run(work())


def test_an_idle_connection_outlives_the_servers_pings(serve: Any) -> None:
    """Its loop answers them, though nobody calls."""
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})

    async def work() -> None:
        with RemotingClient() as client:
            waits = OnLoop(client, "test")
            await waits.call(served.address, ASK, timeout_ms=2000)
            channels = client.loop_channels(asyncio.get_running_loop(), served.address)
            assert channels is not None
            first = channels._channels[served.address]
            heard_ms = first.dealer._heard_ms
            for _ in range(400):
                if first.dealer._heard_ms > heard_ms + 1000:
                    break
                await asyncio.sleep(0.01)
            assert first.dealer._heard_ms > heard_ms + 1000
            assert not first.dealer.has_unsent
            assert not first.ended

    run(work())


def test_a_server_that_speaks_another_protocol_ends_the_call(caplog: pytest.LogCaptureFixture) -> None:
    """Its bytes were parsed again and again: the loop did nothing else any more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        async def work() -> None:
            with RemotingClient() as client:
                asked = asyncio.create_task(OnLoop(client, "test").call(address, ASK, timeout_ms=5000))
                await asyncio.sleep(0)
                with listener.accept()[0] as peer:
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n" * 4)
                    with pytest.raises(ConnectionLost):
                        await asked

        run(work())
    assert len(caplog.records) == 1


def test_a_network_that_cannot_be_reached_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call was told that a buffer is full, and so waited for what never happens."""
    monkeypatch.setattr(socket.socket, "connect_ex", lambda *_: errno.ENETUNREACH)

    async def work() -> None:
        with RemotingClient() as client:
            for _ in range(2):
                with pytest.raises(ConnectionLost):
                    await OnLoop(client, "test").call("10.1.2.3:4", ASK, timeout_ms=5000)

    run(work())


def test_a_call_after_an_end_that_was_not_yet_seen_has_a_new_connection(serve: Any) -> None:
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})

    async def work() -> None:
        with RemotingClient() as client:
            waits = OnLoop(client, "test")
            await waits.call(served.address, ASK, timeout_ms=2000)
            channels = client.loop_channels(asyncio.get_running_loop(), served.address)
            assert channels is not None
            channels._channels[served.address].dealer._lose()
            assert (await waits.call(served.address, ASK, timeout_ms=2000))[0] == OffsetReply(1)

    run(work())


def test_loops_that_are_closed_leave_no_connection_to_a_client_that_lives_on(serve: Any) -> None:
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})
    with RemotingClient() as client:
        kept: list[Any] = []

        async def work() -> None:
            await OnLoop(client, "test").call(served.address, ASK, timeout_ms=2000)
            channels = client.loop_channels(asyncio.get_running_loop(), served.address)
            assert channels is not None
            kept.append(channels._channels[served.address].dealer)

        for _ in range(3):
            run(work())
        assert [dealer.fileno() == -1 for dealer in kept] == [True, True, False]
        assert len(client._loops) == 1


def test_a_flush_that_was_interrupted_doubles_nothing(serve: Any) -> None:
    """What the network had taken was sent again with the next request, and stored twice."""
    seen: list[int] = []

    def note(call: Any) -> OffsetReply:
        seen.append(call.request.queue_id)
        return OffsetReply(1)

    served = serve({GetMaxOffset: note})
    loop = asyncio.new_event_loop()
    with RemotingClient() as client:
        waits = OnLoop(client, "test")

        async def ask(number: int) -> None:
            await waits.call(served.address, GetMaxOffset("t", number), timeout_ms=2000)

        loop.run_until_complete(ask(0))
        channels = client.loop_channels(loop, served.address)
        assert channels is not None
        dealer = channels._channels[served.address].dealer
        send = dealer._send

        def interrupted(*arguments: Any) -> int:
            send(*arguments)
            raise KeyboardInterrupt

        dealer._send = interrupted  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(ask(1))
        dealer._send = send
        loop.run_until_complete(ask(2))
        assert dealer.fileno() == -1
        loop.close()
    assert seen == [0, 1, 2]


def test_uvloop_has_connections_of_its_own_too(serve: Any) -> None:
    served = serve({GetMaxOffset: lambda _: OffsetReply(1), SendMessages: echo})
    with RemotingClient() as client:

        async def work() -> None:
            waits = OnLoop(client, "test")
            asked = SendMessages("t", 0, 1, "g")
            answers = await asyncio.gather(
                *(waits.call(served.address, asked, PAYLOAD, timeout_ms=5000) for _ in range(9))
            )
            assert {reply.queue_offset for reply, _ in answers} == {len(PAYLOAD)}

        for _ in range(2):
            uvloop.run(work())
        assert client._io is None
