"""A signal's handler raises at each place of a call that writes to the network itself: no request is stored twice or taken for
another, and the next call has its own reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from interrupt_kit import Interrupted, Interrupter

from zenitmq.client.aio.event_loop import OnLoop
from zenitmq.model.errors import ConnectionLost
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetMaxOffset, OffsetReply, SendMessages, SendReply

LOSES = (["_tell"], ["_tell_all"], ["_answer"], ["Channel.on_readable"])
"""Here an answer has been taken, and its caller is not told yet: nobody tells it any more."""
SMALL, LARGE = b"x", bytes(100_000)  # the second is not copied behind its header


def asked(number: int) -> SendMessages:
    return SendMessages("t", number, 1, "g")


class Seen:
    """A server that answers each request with its number, and counts it."""

    def __init__(self, serve: Any) -> None:
        self.numbers: list[int] = []
        self.address = serve({SendMessages: self._note, GetMaxOffset: lambda _: OffsetReply(1)}).address

    def _note(self, call: Any) -> SendReply:
        self.numbers.append(call.request.queue_id)
        return SendReply(call.request.queue_id, call.end - call.begin, 0, 0, b"")


def by_thread(client: RemotingClient, address: str, payload: bytes, _loop: Any) -> Callable[[int], SendReply]:
    return lambda number: client.call(address, asked(number), payload, timeout_ms=5000)[0]


def by_loop(
    client: RemotingClient, address: str, payload: bytes, loop: asyncio.AbstractEventLoop
) -> Callable[[int], SendReply]:
    waits = OnLoop(client, "test")

    async def ask(number: int) -> SendReply:
        return (await asyncio.wait_for(waits.call(address, asked(number), payload, timeout_ms=5000), 8))[0]

    return lambda number: loop.run_until_complete(ask(number))


def leave_if_lost(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What a callback of the loop raised comes here, and the loop goes on."""
    if str(context.get("exception", "")).split()[-1:] in LOSES:
        for task in asyncio.all_tasks(loop):
            task.cancel()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a finalizer that was interrupted
@pytest.mark.parametrize("payload", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("way", [by_thread, by_loop])
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
def test_each_place(
    serve: Any, way: Callable[..., Callable[[int], SendReply]], payload: bytes, *, is_first: bool
) -> None:
    seen, number, at, interrupter = Seen(serve), 0, 0, Interrupter(1)
    while interrupter.where or not at:
        at += 1
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(leave_if_lost)
        with RemotingClient() as client:
            call = way(client, seen.address, payload, loop)
            if not is_first:
                call(number := number + 1)
            interrupter = Interrupter(at)
            number += 1
            try:
                with interrupter.at_work():
                    call(number)
            except (Interrupted, ConnectionLost, asyncio.CancelledError):
                pass
            for _ in range(2):
                number += 1
                reply = call(number)
                assert (reply.queue_id, reply.queue_offset) == (number, len(payload)), interrupter.where
        loop.run_until_complete(asyncio.sleep(0))
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        assert len(seen.numbers) == len(set(seen.numbers)), interrupter.where
    assert at > 30
