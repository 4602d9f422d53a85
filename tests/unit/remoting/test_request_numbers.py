"""A connection keeps nothing of a request that was answered, its number included; numbers begin again after the last."""

from __future__ import annotations

import itertools
import tracemalloc
from collections import deque
from collections.abc import Callable
from typing import cast

import pytest

from zenitmq.remoting import sync_calls
from zenitmq.remoting.channel import Channel
from zenitmq.remoting.client_socket import Dealer
from zenitmq.remoting.commands import GetMaxOffset, OffsetReply
from zenitmq.remoting.header import encode_reply, peek_opaque
from zenitmq.remoting.sync_calls import SyncConnection, opaques

REQUEST = GetMaxOffset("trades", 0)
WARM_UP, CALLS = 1_000, 10_000
KEPT_BYTES_MAX = 10 * CALLS  # an int and its place in a list are 40


class Echo:
    """The socket of a broker that answers at once."""

    address = "127.0.0.1:1"
    must_drain = True

    def __init__(self) -> None:
        self._arrived: deque[tuple[bytes, bytes]] = deque()

    def send(self, header: bytes, payload: object) -> bool:
        self._arrived.append((encode_reply(OffsetReply(7), peek_opaque(header)), b""))
        return True

    def receive_nowait(self) -> tuple[bytes, bytes] | None:
        return self._arrived.popleft() if self._arrived else None

    def receive(self, _: int) -> tuple[bytes, bytes]:
        return self._arrived.popleft()


def by_channel() -> Callable[[], object]:
    channel = Channel(cast(Dealer, Echo()), lambda address, header, payload: None)
    return lambda: channel.send(REQUEST, None, 1000, lambda reply, payload, error: None)


def by_thread() -> Callable[[], object]:
    connection = SyncConnection(cast(Dealer, Echo()), lambda address, header, payload: None)
    return lambda: connection.call(REQUEST, None, 1000, 0, "", "")


@pytest.mark.parametrize("connect", [by_channel, by_thread])
def test_a_connection_keeps_nothing_of_requests_that_were_answered(connect: Callable[[], Callable[[], object]]) -> None:
    call = connect()
    for _ in range(WARM_UP):
        call()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(CALLS):
            call()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < KEPT_BYTES_MAX


def test_numbers_begin_again_at_1_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """0 is the number of what nobody answers."""
    monkeypatch.setattr(sync_calls, "OPAQUE_MAX", 3)
    assert list(itertools.islice(opaques(), 7)) == [1, 2, 3, 1, 2, 3, 1]
