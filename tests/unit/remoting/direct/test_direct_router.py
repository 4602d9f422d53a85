"""A server's own socket, turn by turn: whom it reads, whom it ends, and what it leaves behind."""

from __future__ import annotations

import errno
import os
import resource
import select
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from zenitmq.model.errors import ConfigError
from zenitmq.remoting.direct import direct_router
from zenitmq.remoting.direct.direct_router import DirectRouter
from zenitmq.remoting.direct.zmtp import HELLO, MORE, SERVER_HELLO, command, frame_begin

FRAME_BYTES_MAX = 1 << 20
LOOKS = 20
"""More than a silent connection outlives."""

Read = list[tuple[bytes, bytes]]
"""Identities and headers."""


def sent(header: bytes, *payload: bytes) -> bytes:
    frames = (header, *payload)
    flags = [MORE] * len(payload) + [0]
    return b"".join(frame_begin(len(frame), flag) + frame for frame, flag in zip(frames, flags, strict=True))


class Server:
    def __init__(self) -> None:
        self.router = DirectRouter("127.0.0.1:0", FRAME_BYTES_MAX)
        self.peers: list[socket.socket] = []

    def connect(self, says: bytes = HELLO) -> socket.socket:
        host, port = self.router.address.split(":")
        peer = socket.create_connection((host, int(port)), timeout=5)
        self.peers.append(peer)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.sendall(says)
        return peer

    def take(self) -> Read:
        """What one reading brings."""
        read: Read = []
        message = self.router.receive_nowait()
        while message is not None:
            read.append(message[:2])
            message = self.router.receive_next()
        self.router.flush()
        return read

    def take_until(self, header: bytes) -> bytes:
        """The identity of who sent it."""
        for _ in range(1000):
            for identity, read in self.take():
                if read == header:
                    return identity
        raise AssertionError(header)

    def close(self) -> None:
        self.router.close()
        for peer in self.peers:
            peer.close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def fill(peer: socket.socket, message: bytes) -> None:
    """Sends as much as the network takes, and the rest of the last message the next time."""
    peer.setblocking(False)
    left = unfinished.pop(peer, b"") or message
    while True:
        try:
            left = left[peer.send(left) :] or message
        except BlockingIOError:
            unfinished[peer] = left
            return


unfinished: dict[socket.socket, bytes] = {}


def has_ended(peer: socket.socket) -> bool:
    """Whether the server ended it; what came before is read."""
    peer.settimeout(0.02)
    try:
        while peer.recv(1 << 20):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("floods", [1, 20])
def test_who_sends_much_leaves_others_their_turn(server: Server, floods: int) -> None:
    """Each of many is read after some turns, whoever comes first in one."""
    flooding = [server.connect() for _ in range(floods)]
    for number, peer in enumerate(flooding):
        peer.sendall(sent(b"begins %d" % number))
        server.take_until(b"begins %d" % number)
    quiet = server.connect(HELLO + sent(b"begins"))
    server.take_until(b"begins")
    messages = [sent(b"f%d" % number, bytes(10_000)) for number in range(floods)]
    for turn in range(10):
        for peer, message in zip(flooding, messages, strict=True):
            fill(peer, message)
        quiet.sendall(sent(b"q%d" % turn))
        read = [header for _ in range(5) for _, header in server.take()]
        assert b"q%d" % turn in read
        assert {header for header in read if header[:1] == b"f"} >= {b"f%d" % number for number in range(floods)}


def test_other_threads_wait_for_no_client(server: Server) -> None:
    server.connect(HELLO + sent(b"first") * 3)
    server.take_until(b"first")
    server.peers[0].sendall(sent(b"second") * 3)
    select.select([server.router.pollable], [], [], 5)
    server.router.ring()
    assert [header for _, header in server.take()] == [b"", *[b"second"] * 3]


def test_what_nobody_has_read_is_not_silence(server: Server) -> None:
    """A loop that was busy for long ends nobody who has spoken meanwhile."""
    peer = server.connect(HELLO + sent(b"begins"))
    server.take_until(b"begins")
    stranger = server.connect(HELLO[:40])
    server.take()
    for one, says in ((peer, sent(b"second")), (stranger, HELLO[40:] + sent(b"third"))):
        one.sendall(says)
    for _ in range(LOOKS):
        server.router.look()
    assert {header for _ in range(5) for _, header in server.take()} >= {b"second", b"third"}


def test_who_is_silent_is_ended(server: Server) -> None:
    peer = server.connect(HELLO + sent(b"begins"))
    server.take_until(b"begins")
    for _ in range(LOOKS):
        server.router.look()
    assert has_ended(peer)


def test_who_says_slowly_what_it_is_is_ended(server: Server) -> None:
    peer = server.connect(HELLO[:3])
    for at in range(3, 3 + LOOKS):
        server.take()
        server.router.look()
        try:
            peer.sendall(HELLO[at : at + 1])
        except OSError:
            break
    assert has_ended(peer)


def test_who_reads_a_large_reply_slowly_is_not_silent(server: Server) -> None:
    peer = server.connect(HELLO + sent(b"begins"))
    reply = bytes(48 << 20)
    assert server.router.send(server.take_until(b"begins"), b"reply", [reply])
    server.router.flush()
    wanted, size = len(SERVER_HELLO + sent(b"reply")) + len(frame_begin(len(reply), 0)) + len(reply), 0
    while size < wanted:
        for _ in range(128):
            if size < wanted:
                size += len(peer.recv(16_384))
        server.take()
        server.router.look()
    assert not has_ended(peer)


def test_pings_of_one_that_reads_nothing_are_not_kept(server: Server) -> None:
    peer = server.connect(HELLO + sent(b"begins"))
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    identity = server.take_until(b"begins")
    server.router._peers[identity].socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    for _ in range(50):
        peer.sendall(command(b"PING", b"\0\x64" + b"context") * 1000)
        server.take()
    assert len(server.router._peers[identity].unsent) < 1 << 17
    peer.close()


def test_connections_are_taken_again_once_there_are_descriptors(server: Server) -> None:
    first = server.connect(HELLO + sent(b"begins"))
    server.take_until(b"begins")
    waiting = server.connect(HELLO + sent(b"waits"))
    before, free = resource.getrlimit(resource.RLIMIT_NOFILE), os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        for _ in range(3):
            assert server.take() == []
        assert not server.router._poll(0)  # it does not turn for it
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    first.sendall(sent(b"served"))
    server.take_until(b"served")
    server.router.look()
    server.take_until(b"waits")
    assert not has_ended(waiting)


def test_nothing_is_left_of_a_server_without_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> None:
        raise OSError(errno.EMFILE, "too many open files")

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(direct_router.select, "epoll", none_left)
    with pytest.raises(OSError, match="too many"):
        DirectRouter("127.0.0.1:0", FRAME_BYTES_MAX)
    assert os.listdir("/proc/self/fd") == before


def test_every_address_of_a_machine_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    new_socket: Callable[..., socket.socket] = socket.socket

    def only_ipv4(family: int = socket.AF_INET, *rest: Any, **named: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "address family not supported")
        return new_socket(family, *rest, **named)

    monkeypatch.setattr(direct_router.socket, "socket", only_ipv4)
    router = DirectRouter("*:0", FRAME_BYTES_MAX)
    monkeypatch.undo()
    with socket.create_connection(("127.0.0.1", int(router.address.removeprefix("*:"))), timeout=5):
        pass
    router.close()


@pytest.mark.parametrize("bind", ["127.0.0.1:{}", "*:{}"])
def test_a_port_that_is_taken(server: Server, bind: str) -> None:
    with pytest.raises(ConfigError, match="free port"):
        DirectRouter(bind.format(server.router.address.rpartition(":")[2]), FRAME_BYTES_MAX)


def test_what_all_together_do_not_read_is_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads is answered, and once others have ended, who does not read may leave much again."""
    monkeypatch.setattr(direct_router, "UNSENT_ALL_BYTES_MAX", 24 << 20)
    identities = []
    for number in range(5):
        server.connect(HELLO + sent(b"%d" % number))
        identities.append(server.take_until(b"%d" % number))
    reply, taken = bytes(10 << 20), []
    for identity in identities * 2:
        taken.append(server.router.send(identity, b"reply", [reply]))
        server.router.flush()
    assert taken == [True] * 5 + [False] * 5
    server.connect(HELLO + sent(b"reads"))
    assert server.router.send(server.take_until(b"reads"), b"reply", [b"x"])
    for peer in server.peers[:4]:
        peer.close()
    server.take()
    assert server.router.send(identities[4], b"reply", [reply])
    server.peers[4].close()
    server.take()
    assert server.router._unsent_bytes == 0


def test_one_that_reads_nothing_keeps_no_last_reply_from_others(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(direct_router._OPTIONS, "LINGER", 100)
    reply = bytes(16 << 20)
    for _ in range(2):
        server.connect(HELLO + sent(b"begins"))
        assert server.router.send(server.take_until(b"begins"), b"last", [reply])
    deaf, other = server.peers
    read: list[bytes] = []

    def read_all() -> None:
        while data := other.recv(1 << 20):
            read.append(data)

    reader = threading.Thread(target=read_all)
    reader.start()
    server.router.close()
    reader.join(5)
    assert b"".join(read).endswith(reply)
    assert has_ended(deaf)


def in_child(work: Callable[[], object]) -> tuple[int, int]:
    """A forked child that has done this, and stays until the descriptor is closed: (its id, the descriptor)."""
    done, say_done = os.pipe()
    stays, leave = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(leave)
            work()
            os.write(say_done, b"!")
            os.read(stays, 1)
        finally:
            os._exit(0)
    os.close(say_done)
    os.close(stays)
    assert os.read(done, 1) == b"!"
    os.close(done)
    return child, leave


def test_a_child_that_closes_what_it_inherited_ends_nothing(server: Server) -> None:
    peer = server.connect(HELLO + sent(b"begins"))
    server.take_until(b"begins")
    child, leave = in_child(server.router.close)
    os.close(leave)
    os.waitpid(child, 0)
    peer.sendall(sent(b"second"))
    server.take_until(b"second")
    server.connect(HELLO + sent(b"third"))
    server.take_until(b"third")


def test_a_child_keeps_neither_the_port_nor_a_connection() -> None:
    server = Server()
    peer = server.connect(HELLO + sent(b"begins"))
    server.take_until(b"begins")
    child, leave = in_child(lambda: None)
    server.router.close()
    try:
        assert has_ended(peer)
        DirectRouter(server.router.address, FRAME_BYTES_MAX).close()
    finally:
        os.close(leave)
        os.waitpid(child, 0)
        server.close()
