"""A request loop in a thread of the test, and raw sockets that need not behave."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

from zenitmq.model.arena import Arena
from zenitmq.model.clock import SystemClock
from zenitmq.remoting import server
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.server import RequestLoop
from zenitmq.remoting.server_socket import RouterSocket

TIMEOUT_MS = 5000
DRAIN_BYTES, FRAME_BYTES_MAX = 64 << 10, 256 << 10


class Served:
    """One loop, running; `handlers` by request class."""

    def __init__(self, handlers: dict[Any, Any], bind: str = "127.0.0.1:0", **settings: Any) -> None:
        self.loop = RequestLoop(bind=bind, arena=Arena(DRAIN_BYTES, FRAME_BYTES_MAX), clock=SystemClock(), **settings)
        for request_class, handler in handlers.items():
            self.loop.handle(request_class, handler)
        self.address = self.loop.address
        self.thread = threading.Thread(target=self.loop.run)
        self.thread.start()

    def on_loop(self, work: Callable[[], Any]) -> Any:
        """What `work` returns, run on the loop's thread."""
        done, result = threading.Event(), []

        def run() -> None:
            result.append(work())
            done.set()

        self.loop.post(run)
        assert done.wait(5)
        return result[0]

    def stop(self) -> None:
        self.loop.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()
        self.loop.close()


class RawPeer:
    """A DEALER that sends what it likes."""

    def __init__(self, address: str, **options: int) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.set(zmq.LINGER, 0)
        self.socket.set(zmq.RCVTIMEO, TIMEOUT_MS)
        for name, value in options.items():
            self.socket.set(getattr(zmq, name), value)
        self.socket.connect(f"tcp://{address}")

    def send(self, *frames: bytes) -> None:
        self.socket.send_multipart(frames)

    def receive(self) -> list[bytes]:
        return self.socket.recv_multipart()

    def close(self) -> None:
        self.socket.close()
        self.context.term()


def eventually(condition: Callable[[], bool], within_s: float = 5) -> bool:
    """True as soon as the condition holds."""
    give_up = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture(params=["direct", "zeromq"])
def each_socket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops have one kind of socket, then the other: that of a server without keys, and that of one with keys."""
    if request.param == "zeromq":
        monkeypatch.setattr(server, "_open_socket", lambda bind, size, _: RouterSocket(bind, size))


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def start(handlers: dict[Any, Any], **settings: Any) -> Served:
        started.append(Served(handlers, **settings))
        return started[-1]

    yield start
    for served in started:
        if served.thread.is_alive():
            served.stop()


@pytest.fixture
def raw() -> Iterator[Callable[..., RawPeer]]:
    opened: list[RawPeer] = []

    def connect(address: str, **options: int) -> RawPeer:
        opened.append(RawPeer(address, **options))
        return opened[-1]

    yield connect
    for peer in opened:
        peer.close()


@pytest.fixture
def client() -> Iterator[RemotingClient]:
    with RemotingClient() as opened:
        yield opened


@pytest.fixture
def until() -> Callable[..., bool]:
    return eventually
