"""A thread's own connection, against a server of a few bytes that behaves and misbehaves as it is told."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from zenitmq.model.errors import (
    AuthenticationFailed,
    ConnectionLost,
    HandshakeFailed,
    NoDescriptors,
    RemoteProtocolError,
)
from zenitmq.remoting.direct import direct_dealer
from zenitmq.remoting.direct.direct_dealer import REST_MS, SILENCE_MS, DirectDealer
from zenitmq.remoting.direct.zmtp import GREETING, HELLO, command

READY = command(b"READY", b"\x0bSocket-Type\0\0\0\6ROUTER")


class Server:
    """Accepts one connection."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(5)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.peers: list[socket.socket] = []

    def accept(self, says: bytes = GREETING + READY) -> socket.socket:
        peer = self.listener.accept()[0]
        self.peers.append(peer)
        peer.settimeout(5)
        peer.sendall(says)
        return peer

    def close(self) -> None:
        self.listener.close()
        for peer in self.peers:
            peer.close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def read(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += peer.recv(size - len(data))
    return data


def opened(server: Server) -> tuple[DirectDealer, socket.socket]:
    dealer = DirectDealer(server.address)
    assert dealer.send(b"h", b"p")
    peer = server.accept()
    for _ in range(100):
        if dealer._is_quick:
            break
        dealer.receive(10)
    assert read(peer, len(HELLO) + 6) == HELLO + b"\x01\x01h\x00\x01p"
    return dealer, peer


def test_a_message_waits_for_the_servers_ready(server: Server) -> None:
    """A server that has not sent its own READY takes a message for a part of the handshake, and ends the connection."""
    dealer = DirectDealer(server.address)
    assert dealer.send(b"h", None)
    peer = server.accept(GREETING)
    for _ in range(5):
        assert dealer.receive(5) is None
    assert read(peer, len(HELLO)) == HELLO
    peer.setblocking(False)
    with pytest.raises(BlockingIOError):
        peer.recv(1)
    peer.settimeout(5)
    peer.sendall(READY + b"\x01\x01a\x00\x01b")
    for _ in range(100):
        answer = dealer.receive(50)
        if answer is not None:
            break
    assert answer == (b"a", b"b")
    assert read(peer, 3) == b"\x00\x01h"
    dealer.close()


def test_large_messages_leave_whole_though_the_network_takes_parts(server: Server) -> None:
    dealer, peer = opened(server)
    payload = bytes(range(256)) * 65536  # 16 MiB, more than the kernel keeps
    assert dealer.send(b"h" * 300, payload)
    assert dealer.send(b"again", None)
    assert dealer._unsent
    got, wanted = bytearray(), 9 + 300 + 9 + len(payload) + 7
    peer.setblocking(False)
    while len(got) < wanted:
        dealer.receive(1)
        try:
            got += peer.recv(1 << 20)
        except BlockingIOError:
            continue
    assert bytes(got[9:309]) == b"h" * 300
    assert bytes(got[318 : 318 + len(payload)]) == payload
    assert bytes(got[-7:]) == b"\x00\x05again"
    dealer.receive(1)
    assert dealer._is_quick
    dealer.close()


def test_what_a_server_does_not_read_is_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_dealer, "UNSENT_BYTES_MAX", 1 << 20)
    dealer, _ = opened(server)
    for _ in range(64):
        if not dealer.send(b"h", bytes(1 << 20)):
            break
    else:
        pytest.fail("it takes anything")
    assert not dealer.is_lost()
    dealer.close()


def test_pings_are_answered_while_a_reply_is_awaited(server: Server) -> None:
    dealer, peer = opened(server)
    peer.sendall(command(b"PING", b"\x00\x64ctx"))
    assert dealer.receive(20) is None
    assert read(peer, 10) == command(b"PONG", b"ctx")
    dealer.close()


def test_a_server_that_only_pings_is_not_silent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call may wait for longer than that for its answer."""
    dealer, peer = opened(server)
    later_ms = dealer._heard_ms + SILENCE_MS + 1
    monkeypatch.setattr(direct_dealer, "monotonic_ms", lambda: later_ms)
    peer.sendall(command(b"PING", b"\x00\x64"))
    assert dealer.receive(20) is None
    assert not dealer.is_lost()
    dealer.close()


def test_a_server_that_trickles_does_not_hold_the_caller(server: Server) -> None:
    """Each piece ends a wait: the caller looks at its deadline after a few of them."""
    dealer, _ = opened(server)
    begin, reads = b"\x02" + (1000).to_bytes(8, "big"), 0

    def one_byte(*_: object) -> bytes:
        nonlocal reads
        reads += 1
        return begin[reads - 1 : reads] or b"x"

    dealer._recv = one_byte  # type: ignore[assignment]
    assert dealer.receive(5) is None
    assert reads <= 16
    dealer.close()


def test_a_reply_counts_though_the_server_ended_right_after_it(server: Server) -> None:
    dealer, peer = opened(server)
    peer.sendall(b"\x00\x01a")
    peer.close()
    while dealer._loss is None:
        dealer.is_lost()
    assert not dealer.is_lost()
    assert dealer.receive(5) == (b"a", b"")
    assert dealer.is_lost()
    assert isinstance(dealer.loss(), ConnectionLost)
    assert not dealer.send(b"h", None)
    assert dealer.receive(5) is None
    dealer.close()


def test_wrong_bytes_end_the_connection(server: Server) -> None:
    dealer, peer = opened(server)
    peer.sendall(b"\x02" + b"\xff" * 8)
    with pytest.raises(RemoteProtocolError):
        dealer.receive(5000)
    assert dealer.is_lost()
    dealer.close()


@pytest.mark.parametrize(
    ("says", "error"),
    [
        (GREETING[:12] + b"CURVE".ljust(20, b"\0") + bytes(32), HandshakeFailed),
        (GREETING + command(b"ERROR", b"\x03400"), AuthenticationFailed),
        (b"", HandshakeFailed),
    ],
)
def test_who_does_not_take_us_says_why(server: Server, says: bytes, error: type[Exception]) -> None:
    dealer = DirectDealer(server.address)
    assert dealer.send(b"h", None)
    peer = server.accept(says)
    dealer.receive(50)
    if not says:
        peer.close()
    while not dealer.is_lost():
        dealer.receive(20)
    assert type(dealer.loss()) is error
    dealer.close()


def test_a_refused_connection_is_lost(server: Server) -> None:
    server.close()
    dealer = DirectDealer(server.address)
    dealer.send(b"h", None)
    while not dealer.is_lost():
        dealer.receive(20)
    assert type(dealer.loss()) is ConnectionLost
    dealer.close()


def test_times_end_a_connection(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence while somebody waits; a server that does not greet; and rest, after which it is not used again."""
    dealer, _ = opened(server)
    heard_ms = dealer._heard_ms
    now = [heard_ms + SILENCE_MS]
    monkeypatch.setattr(direct_dealer, "monotonic_ms", lambda: now[0])
    assert not dealer.is_lost()
    assert not dealer.has_rested(heard_ms + REST_MS)
    assert dealer.has_rested(heard_ms + REST_MS + 1)
    now[0] += 1
    assert dealer.is_lost()
    assert type(dealer.loss()) is ConnectionLost
    dealer.close()
    stranger = DirectDealer(server.address)
    server.accept(b"")
    stranger.receive(20)
    now[0] += 60_000
    assert stranger.is_lost()
    assert type(stranger.loss()) is HandshakeFailed
    stranger.close()


def test_no_descriptor_left_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(NoDescriptors):
        DirectDealer("127.0.0.1:1")
