"""The bytes that a proxy holds for its clients; and what it does with a request before it knows whose it is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zenitmq.model.errors import AuthenticationFailed, BrokerBusy, RequestTimeout
from zenitmq.proxy.back.client_room import SHARE, ClientRoom
from zenitmq.proxy.back.method_counts import MethodCounts
from zenitmq.proxy.v2 import methods as methods_module
from zenitmq.proxy.v2.methods import CallFacts, MessagingMethods, _Written
from zenitmq.proxy.v2.status import Code


def test_one_connection_leaves_room_for_others() -> None:
    room = ClientRoom(100 * SHARE)
    room.take(60, "a")
    room.take(40, "a")
    for work in (lambda: room.take(1, "a"), lambda: room.check("a")):
        with pytest.raises(BrokerBusy):
            work()
    room.take(0, "a")
    room.check("b")
    room.take(600, "b")  # one that is large, of who has none
    with pytest.raises(BrokerBusy):
        room.take(200, "c")
    for size, owner in ((60, "a"), (600, "b"), (0, "a"), (40, "a"), (0, "d")):
        room.give_back(size, owner)
    assert (room.held, room._of_owners) == (0, {})


class Answers:
    """A client that reads nothing, or all."""

    def __init__(self, *, reads: bool) -> None:
        self.reads = reads
        self.got: list[Any] = []

    async def write(self, message: Any) -> None:
        if not self.reads:
            await asyncio.Event().wait()
        self.got.append(message)


def test_nothing_is_decoded_for_who_is_nobody() -> None:
    """Nor is more taken than there is room for."""

    async def refuse(*_: object, **__: object) -> None:
        raise AuthenticationFailed("10.1.1.1", "its request is not signed")

    async def work() -> None:
        backs = SimpleNamespace(grpc_counts=MethodCounts("grpc"), asked=None, is_secured=True, of=refuse, of_all=None)
        serving = MessagingMethods(cast(Any, backs), polls_max=1, bytes_max=1 << 20, signed_within_ms=0)
        decoded: list[bytes] = []
        serving._decoders = dict.fromkeys(serving._decoders, decoded.append)  # type: ignore[arg-type]
        facts = CallFacts({"x-mq-client-id": "c"}, "ipv4:10.1.1.1:5", None)
        send, pull = (next(one for one in serving.all() if one.name == name) for name in ("SendMessage", "PullMessage"))
        assert (await serving.unary(send, facts, b"x")).status.code == Code.UNAUTHORIZED
        answers = Answers(reads=True)
        await serving.stream(pull, facts, b"x", answers)
        assert answers.got[0].status.code == Code.UNAUTHORIZED
        assert (await serving.unary(send, facts, bytes(2 << 20))).status.code == Code.TOO_MANY_REQUESTS
        assert (decoded, serving._requests.held) == ([], 0)

    asyncio.run(work())


def test_who_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods_module, "WRITE_S", 0.001)
    with pytest.raises(RequestTimeout):
        asyncio.run(_Written(Answers(reads=False)).write("an answer"))
