"""How the call of a connection ends that does not answer it: with why the connection ended, or at its deadline."""

from __future__ import annotations

import itertools
from typing import cast

import pytest

from zenitmq.model.errors import ConnectionLost, HandshakeFailed, RequestTimeout, ZenitError
from zenitmq.remoting import sync_calls
from zenitmq.remoting.client_socket import Dealer
from zenitmq.remoting.commands import ConsumersChanged, GetClusterInfo, OffsetReply
from zenitmq.remoting.header import encode_reply, encode_request
from zenitmq.remoting.sync_calls import SyncConnection

REFUSED = HandshakeFailed("a:1", "does it want a key?")


class Ended:
    """A dealer without a connection, which knows why once it has looked at its monitor."""

    address = "a:1"

    def __init__(self, why: ZenitError) -> None:
        self._why = why
        self._known: ZenitError = ConnectionLost(self.address)

    def send(self, header: bytes, payload: object) -> bool:
        return False

    def is_lost(self) -> bool:
        self._known = self._why
        return True

    def loss(self) -> ZenitError:
        return self._known


@pytest.mark.parametrize("why", [REFUSED, ConnectionLost("a:1")])
def test_a_call_that_comes_too_late_tells_why_the_connection_ended(why: ZenitError) -> None:
    connection = SyncConnection(cast(Dealer, Ended(why)), lambda address, header, payload: None)
    with pytest.raises(type(why)) as caught:
        connection.call(GetClusterInfo(), None, 1000, 0, "", "")
    assert caught.value is why


class Flooded:
    """A dealer of a server that sends anything but the reply, without a pause."""

    address = "a:1"

    def __init__(self, says: bytes) -> None:
        self._says = says

    def send(self, header: bytes, payload: object) -> bool:
        return True

    def receive(self, _: int) -> tuple[bytes, bytes]:
        return self._says, b""

    def is_lost(self) -> bool:
        return False


LATE = encode_reply(OffsetReply(1), 999)
PUSHED = encode_request(ConsumersChanged("g"), 0, timeout_ms=0, oneway=True)


@pytest.mark.parametrize("says", [LATE, PUSHED])
def test_what_else_a_server_sends_does_not_hold_a_caller_beyond_its_deadline(
    monkeypatch: pytest.MonkeyPatch, says: bytes
) -> None:
    clock = itertools.count(0, 10)
    monkeypatch.setattr(sync_calls, "monotonic_ms", lambda: next(clock))
    connection = SyncConnection(cast(Dealer, Flooded(says)), lambda address, header, payload: None)
    with pytest.raises(RequestTimeout):
        connection.call(GetClusterInfo(), None, 1000, 0, "", "")
    assert next(clock) <= 1020
    assert not connection.is_torn
