"""Who is interrupted inside a socket, between two frames of a message, leaves no half message to those who come later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.client_socket import Dealer
from zenitmq.remoting.commands import GetMaxOffset, OffsetReply

ASK = GetMaxOffset("t", 0)


def interrupted(dealer: Dealer, header: bytes, payload: object) -> bool:
    dealer._socket.send(header, 2)  # more is to come
    raise KeyboardInterrupt


def shared(client: RemotingClient, address: str) -> object:
    answered, answers = threading.Event(), []

    def on_reply(*answer: object) -> None:
        answers.append(answer)
        answered.set()

    client.send_nowait(address, ASK, None, timeout_ms=2000, on_reply=on_reply)
    assert answered.wait(10)
    return answers[0][0]


def own(client: RemotingClient, address: str) -> object:
    return client.call(address, ASK, timeout_ms=2000)[0]


@pytest.mark.parametrize("ask", [shared, own])
def test_the_next_request_goes_over_another_connection(
    serve: Any, monkeypatch: pytest.MonkeyPatch, ask: Callable[[RemotingClient, str], object]
) -> None:
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})
    with RemotingClient() as client:
        assert ask(client, served.address) == OffsetReply(1)
        with monkeypatch.context() as halfway:
            halfway.setattr(Dealer, "send", interrupted)
            with pytest.raises(KeyboardInterrupt):
                ask(client, served.address)
        assert ask(client, served.address) == OffsetReply(1)
