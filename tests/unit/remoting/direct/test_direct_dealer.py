"""A thread's own connection, against a server of a few bytes that behaves and misbehaves as it is told."""

from __future__ import annotations

import signal
import socket
import struct
import time
from collections.abc import Iterator

import pytest
from interrupt_kit import alarms

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
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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


def test_pings_are_signs_of_life(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited for a reply for longer than a silence may last was told that the connection is lost."""
    dealer, peer = opened(server)
    now = [dealer._heard_ms]
    monkeypatch.setattr(direct_dealer, "monotonic_ms", lambda: now[0])
    for _ in range(3):
        now[0] += SILENCE_MS - 1
        peer.sendall(command(b"PING", b"\x00\x64"))
        assert dealer.receive(1000) is None
        now[0] += 2
        assert not dealer.is_lost()
    dealer.close()


def test_pings_of_a_server_that_reads_nothing_are_not_all_answered(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_dealer, "_UNSENT_ANSWERS_MAX", 1000)
    dealer, peer = opened(server)
    dealer._keep(b"x")

    def full(*_: object) -> int:
        raise BlockingIOError

    dealer._send = full  # type: ignore[assignment]
    for _ in range(200):
        peer.sendall(command(b"PING", b"\x00\x64" + bytes(16)))
        assert dealer.receive(1000) is None
    assert 900 < len(dealer._unsent) < 1100
    dealer.close()


def test_a_server_that_trickles_does_not_hold_the_caller(server: Server) -> None:
    """A piece of a reply ends the wait: the caller looks at its deadline."""
    dealer, peer = opened(server)
    begun = time.monotonic()
    for byte in b"\x02" + (1000).to_bytes(8, "big") + b"xx":
        peer.send(bytes((byte,)))
        assert dealer.receive(5000) is None
    assert time.monotonic() - begun < 4
    dealer.close()


def test_many_pieces_at_once_do_not_hold_the_caller(server: Server) -> None:
    dealer, peer = opened(server)
    peer.sendall(b"\0")
    reads = 0

    def one_byte(*_: object) -> bytes:
        nonlocal reads
        reads += 1
        return (b"\x02" + (1000).to_bytes(8, "big"))[reads - 1 : reads] or b"x"

    dealer._recv = one_byte  # type: ignore[assignment]
    assert dealer.receive(1000) is None
    assert reads <= 16
    dealer.close()


def test_signals_do_not_lengthen_a_wait(server: Server) -> None:
    """The kernel's own timeout began anew after each: a caller whose program has a timer waited for ever."""
    dealer, _ = opened(server)
    with alarms(0.002, at_most=1000) as seen:
        assert dealer.receive(20) is None
    assert len(seen) < 1000
    dealer.close()


def test_a_connection_that_broke_sends_no_signal(server: Server) -> None:
    """A program that lets SIGPIPE end it, as many commands do, ended with the first send to a server that had gone."""
    dealer, peer = opened(server)
    seen: list[int] = []
    before = signal.signal(signal.SIGPIPE, lambda *_: seen.append(1))
    try:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        for _ in range(3):
            dealer._loss = None
            dealer.send(b"h", bytes(direct_dealer._JOINED_BYTES_MAX + 1))
            dealer._loss = None
            dealer._unsent += b"x"
            dealer.flush()
    finally:
        signal.signal(signal.SIGPIPE, before)
    assert not seen
    dealer.close()


def test_a_reply_counts_though_a_request_after_it_could_not_be_sent(server: Server) -> None:
    dealer, peer = opened(server)
    peer.sendall(b"\x00\x01a")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def broken(*_: object) -> int:
        raise BrokenPipeError

    dealer._send = broken  # type: ignore[assignment]
    assert not dealer.send(b"h", None)
    assert dealer.is_unfit
    assert dealer.receive_nowait() == (b"a", b"")
    assert dealer.has_ended
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
    assert dealer.receive_nowait() is None  # not the same bytes again
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
    assert type(stranger.loss()) is ConnectionLost
    stranger.close()


def test_no_descriptor_left_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(NoDescriptors):
        DirectDealer("127.0.0.1:1")


def test_addresses_that_this_system_does_not_know_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(ConnectionLost):
        DirectDealer("[::1]:1")
