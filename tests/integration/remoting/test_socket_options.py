"""The options of the table are what the sockets really have."""

from __future__ import annotations

import pytest
import zmq

from zenitmq.remoting.base_socket import new_context, new_socket
from zenitmq.remoting.options import SOCKET_TABLES


@pytest.mark.parametrize("kind", SOCKET_TABLES)
def test_every_option_is_set(kind: str) -> None:
    context = new_context()
    socket = new_socket(context, kind)
    try:
        for option in SOCKET_TABLES[kind]:
            if option.name not in ("ROUTER_MANDATORY", "ROUTER_HANDOVER"):  # these two cannot be read
                assert socket.get(getattr(zmq, option.name)) == option.value, option.name
    finally:
        socket.close()
        context.term()


def test_an_option_may_be_changed_by_name() -> None:
    context = new_context()
    socket = new_socket(context, "ROUTER", MAXMSGSIZE=12345)
    assert socket.get(zmq.MAXMSGSIZE) == 12345
    socket.close()
    context.term()
