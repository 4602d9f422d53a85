"""Whatever a stranger sends: a typed error or a closed connection, and the loop goes on serving others."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
import zmq

from zenitmq.model.errors import RemoteProtocolError, UnknownRequest, VersionNotSupported, ZenitError
from zenitmq.remoting.commands import (
    Done,
    GetMaxOffset,
    Heartbeat,
    OffsetReply,
    PullMessages,
    PullReply,
    SendMessages,
    SendReply,
)
from zenitmq.remoting.direct import direct_router
from zenitmq.remoting.header import decode_reply, encode_reply, encode_request
from zenitmq.remoting.options import IN_FLIGHT_MAX

pytestmark = pytest.mark.usefixtures("each_socket")
FRAME_BYTES_MAX = 256 << 10
GOOD = encode_request(GetMaxOffset("t", 0), 99, timeout_ms=1000)


@pytest.fixture
def served(serve: Any, client: Any) -> Iterator[Any]:
    """A loop that must still answer when the test is over."""
    running = serve(
        {
            GetMaxOffset: lambda _: OffsetReply(5),
            SendMessages: lambda _: SendReply(0, 0, 0, 0, b""),
            PullMessages: lambda call: call.loop.reply(call, PullReply(0, 0, 0, 0, 1), [bytes(8 << 10)]),
        }
    )
    yield running
    assert client.call(running.address, GetMaxOffset("t", 0), timeout_ms=5000)[0] == OffsetReply(5)
    assert running.thread.is_alive()
    assert running.loop.statistics().in_flight_bytes == 0
    assert running.loop.arena.used == 0


@pytest.mark.parametrize("seed", range(8))
def test_random_bytes_on_the_port(served: Any, seed: int) -> None:
    """Before, inside and after ZeroMQ's own greeting."""
    rng = random.Random(seed)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(16) + b"\x00" + bytes(31)
    port = int(served.address.rpartition(":")[2])
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
            try:
                stranger.sendall(greeting[: rng.choice([0, 5, 10, 33, 64])] + rng.randbytes(rng.randrange(1, 5000)))
            except OSError:
                continue  # it hung up already


def test_a_frame_that_lies_about_its_length_closes_the_connection(served: Any) -> None:
    """ZMTP by hand: a long frame that claims a terabyte is not waited for."""
    ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
    host, port = served.address.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as stranger:
        stranger.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(16) + b"\x00" + bytes(31))
        stranger.sendall(b"\x04" + bytes([len(ready)]) + ready)
        stranger.sendall(b"\x02" + (1 << 40).to_bytes(8, "big") + b"x" * 100)
        stranger.settimeout(5)
        while stranger.recv(4096):
            pass  # ends because the other side closed


def test_an_oversized_frame_closes_the_connection(served: Any, raw: Any) -> None:
    peer = raw(served.address)
    monitor = peer.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    peer.send(encode_request(SendMessages("t", 0, 1), 1, timeout_ms=1000), bytes(FRAME_BYTES_MAX + 1))
    assert monitor.poll(5000)
    peer.socket.disable_monitor()
    monitor.close()
    assert served.loop.statistics().requests == 0


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([b"\xc1"], RemoteProtocolError),
        ([b"junk", b"more", b"and more"], RemoteProtocolError),
        ([GOOD[:-2]], RemoteProtocolError),
        ([GOOD + b"\x00"], RemoteProtocolError),
        ([b"\x91" * 60_000], RemoteProtocolError),
        ([b"\xdd\x00\x01\x00\x00" * 900], RemoteProtocolError),
        ([b"\xdb\xff\xff\xff\xffabc"], RemoteProtocolError),
        ([msgpack.packb([4711, 3, 1, 99, 0, None, [], 0]), b"payload"], UnknownRequest),
        ([msgpack.packb([31, 3, 1, 99, 0, None, ["t", 1], 0])], UnknownRequest),  # a request that is not served here
        ([msgpack.packb([30, 3, 7, 99, 0, None, ["t", 1], 0])], VersionNotSupported),
        ([msgpack.packb([30, 3, 1, 99, 0, None, ["t", "1"], 0])], RemoteProtocolError),
        ([msgpack.packb([30, 3, 1, 99, 0, None, [], 0])], RemoteProtocolError),
        ([encode_reply(Done(), 99)], RemoteProtocolError),
        ([b"x" * 200_000], RemoteProtocolError),
    ],
    ids=range(14),
)
def test_what_is_no_request_gets_a_typed_error(
    served: Any, raw: Any, frames: list[bytes], expected: type[ZenitError]
) -> None:
    peer = raw(served.address)
    peer.send(*frames)
    opaque, error = decode_reply(peer.receive()[0], Done)
    assert type(error) is expected
    assert opaque in (0, 99)
    peer.send(GOOD)
    assert decode_reply(peer.receive()[0], OffsetReply) == (99, OffsetReply(5))


@pytest.mark.parametrize("frames", [[b""], [b"", b"x"], [b"", b"", b""], [b"", GOOD]], ids=range(4))
def test_empty_headers_are_ignored(served: Any, raw: Any, frames: list[bytes]) -> None:
    """They are how our own threads ring; from a stranger they ring too, and nobody is there."""
    peer = raw(served.address)
    peer.send(*frames)
    peer.send(GOOD)
    assert decode_reply(peer.receive()[0], OffsetReply) == (99, OffsetReply(5))


def test_a_missing_payload_is_an_empty_one(served: Any, raw: Any) -> None:
    peer = raw(served.address)
    peer.send(encode_request(SendMessages("t", 0, 5), 3, timeout_ms=1000))
    assert decode_reply(peer.receive()[0], SendReply)[0] == 3


def test_a_stolen_identity_is_of_no_use(serve: Any, raw: Any) -> None:
    """The first who gave it keeps its replies, also those that come late; the second gets none of them."""
    held: list[Any] = []
    served = serve({GetMaxOffset: held.append})
    first = raw(served.address, ROUTING_ID=b"me")
    first.send(GOOD)
    while not held:
        time.sleep(0.01)
    thief = raw(served.address, ROUTING_ID=b"me", RCVTIMEO=300)
    thief.send(encode_request(Heartbeat("c"), 1, timeout_ms=1000))
    served.on_loop(lambda: served.loop.reply(held[0], OffsetReply(5)))
    assert decode_reply(first.receive()[0], OffsetReply) == (99, OffsetReply(5))
    with contextlib.suppress(zmq.Again):  # one socket refuses it, the other does not ask for a name
        assert decode_reply(thief.receive()[0], OffsetReply)[0] == 1


def test_a_peer_that_reads_nothing_loses_its_own_replies_only(
    served: Any, raw: Any, client: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory stays bounded, the loop never waits for it, and others are answered meanwhile."""
    monkeypatch.setattr(direct_router, "UNSENT_BYTES_MAX", 64 << 10)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    deaf = raw(served.address, RCVHWM=1, SNDHWM=0, RCVBUF=4096)
    pull = encode_request(PullMessages("g", "t", 0, 0, 1, 1), 1, timeout_ms=60_000)
    for _ in range(4 * IN_FLIGHT_MAX):
        deaf.send(pull)
    assert until(lambda: served.loop.statistics().requests >= 4 * IN_FLIGHT_MAX, 20)
    assert client.call(served.address, GetMaxOffset("t", 0), timeout_ms=5000)[0] == OffsetReply(5)
    assert until(lambda: served.loop.statistics().dropped_slow > 0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 100 << 10


def test_many_strangers_at_once(served: Any, raw: Any, client: Any) -> None:
    """Junk from several sides while sound callers are served."""
    rng = random.Random(4)
    strangers = [raw(served.address, SNDHWM=0) for _ in range(4)]

    def shout(stranger: Any, junk: list[bytes]) -> None:
        for frame in junk:
            stranger.send(frame, frame)

    junk = [[rng.randbytes(rng.randrange(1, 300)) for _ in range(500)] for _ in strangers]
    threads = [threading.Thread(target=shout, args=pair) for pair in zip(strangers, junk, strict=True)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        assert client.call(served.address, GetMaxOffset("t", 0), timeout_ms=5000)[0] == OffsetReply(5)
    for thread in threads:
        thread.join()
