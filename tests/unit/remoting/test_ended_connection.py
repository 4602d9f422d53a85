"""A connection that ended before anything was sent says why it ended."""

from __future__ import annotations

from typing import cast

import pytest

from zenitmq.model.errors import ConnectionLost, HandshakeFailed, ZenitError
from zenitmq.remoting.client_socket import Dealer
from zenitmq.remoting.commands import GetClusterInfo
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
