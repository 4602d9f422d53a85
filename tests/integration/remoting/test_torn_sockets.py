"""Who is interrupted inside a socket, between two frames of a message, leaves no half message to those who come later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq.model.errors import RequestTimeout
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.client_socket import Dealer
from zenitmq.remoting.commands import GetMaxOffset, OffsetReply
from zenitmq.remoting.direct.direct_dealer import DirectDealer
from zenitmq.remoting.direct.zmtp import MORE, frame_begin
from zenitmq.remoting.header import encode_request
from zenitmq.remoting.io_thread import IoThread

ASK = GetMaxOffset("t", 0)


def torn(dealer: Dealer, header: bytes, payload: object) -> bool:
    dealer._socket.send(header, 2)  # more is to come
    raise KeyboardInterrupt


def torn_directly(dealer: DirectDealer, header: bytes, payload: object) -> bool:
    dealer._socket.send(frame_begin(len(header), MORE) + header)  # more is to come
    raise KeyboardInterrupt


def interrupted(*_: object) -> None:
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
            halfway.setattr(Dealer, "send", torn)
            halfway.setattr(DirectDealer, "send", torn_directly)
            with pytest.raises(KeyboardInterrupt):
                ask(client, served.address)
        assert ask(client, served.address) == OffsetReply(1)


def test_what_a_handler_raises_may_be_an_error_of_ours(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes a call of its own, say, which fails. Half a message stayed, and the next request was its other half."""

    def fails(dealer: DirectDealer, header: bytes, payload: object) -> bool:
        with pytest.raises(KeyboardInterrupt):
            torn_directly(dealer, header, payload)
        raise RequestTimeout("a call of a signal handler", 1)

    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})
    with RemotingClient() as client:
        with monkeypatch.context() as halfway:
            halfway.setattr(DirectDealer, "send", fails)
            with pytest.raises(RequestTimeout):
                own(client, served.address)
        assert own(client, served.address) == OffsetReply(1)


def test_a_connection_that_nobody_watches_is_watched(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who made it was interrupted before it told the I/O thread: answers came only once somebody else sent."""
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})
    with RemotingClient() as client:
        with monkeypatch.context() as halfway:
            halfway.setattr(IoThread, "post", interrupted)
            with pytest.raises(KeyboardInterrupt):
                shared(client, served.address)
        assert shared(client, served.address) == OffsetReply(1)


def test_a_torn_connection_that_nobody_watched_ends(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended the I/O thread instead, and with it all that waits for an answer."""
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})
    with RemotingClient() as client:
        with monkeypatch.context() as halfway:
            halfway.setattr(IoThread, "post", interrupted)
            with pytest.raises(KeyboardInterrupt):
                shared(client, served.address)
            client._channels[served.address].is_torn = True
        assert shared(client, served.address) == OffsetReply(1)


def test_a_close_that_was_interrupted_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    client = RemotingClient()
    client.run_soon(lambda: None)
    thread = client._io
    assert thread is not None
    with monkeypatch.context() as halfway:
        halfway.setattr(thread, "stop", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.close()
    client.close()
    assert not thread._thread.is_alive()
    assert client._context._context.closed


@pytest.mark.parametrize("had_answers", [True, False])
def test_a_socket_that_nobody_has_stops_no_other(serve: Any, *, had_answers: bool) -> None:
    """Who made it was interrupted before it was kept: zmq's background thread waited for its monitor's reader for ever."""
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})
    with RemotingClient() as client:
        for _ in range(20):
            dealer = client._context.dealer(served.address)
            if had_answers:
                assert dealer.send(encode_request(ASK, 1, timeout_ms=2000), None)
                assert dealer.receive(2000) is not None
            del dealer
            assert own(client, served.address) == OffsetReply(1)
        assert shared(client, served.address) == OffsetReply(1)
