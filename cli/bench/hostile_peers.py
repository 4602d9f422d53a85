"""Hostile input for every port of a secured cluster: `python -m zenitmq.cli.bench.hostile_peers [--tries N] [--seed S]`.

It starts a secured group of three with its controller and name server, records the handshake of a real client, and then sends
each port, in turn: random bytes; greetings with random commands behind them; the recorded handshake with bits changed. As a
user who may do nothing it sends frames that are random, and requests with bits changed. Afterwards each process must run,
answer, and have logged no fault; and nothing that a stranger received may hold a name or an id of the cluster. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from threading import Thread
from typing import Any, Final

from ...client.admin import Admin
from ...deploy.cluster_keys import ADMINISTRATOR, administrator
from ...deploy.cluster_plan import key_path
from ...deploy.cluster_record import BROKER, NAME_SERVER, ZOOKEEPER, ClusterRecord, Shape
from ...deploy.local_cluster import QUESTIONS, ProcessCluster
from ...deploy.processes import is_running
from ...model.clock import monotonic_ms
from ...model.errors import SystemFault, ZenitError
from ...model.security.principals import User
from ...remoting.client_socket import ClientContext
from ...remoting.commands import REQUESTS, GetRoute
from ...remoting.header import encode_request
from ...remoting.security.curve_socket import new_key_pair
from ...remoting.security.key_file import read_key_file
from ...remoting.security.key_ring import KeyRing

TOPIC: Final = "the-secret-topic"
NOBODY: Final = "nobody"
GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03\x01"
ANSWER_S: Final = 0.02
ANSWER_BYTES: Final = 4096
FRAMES_AT_ONCE: Final = 200
VALUES: Final[tuple[object, ...]] = ("", TOPIC, 0, -1, 1 << 62, [], [["x", 1]], None, b"\0" * 9, "x" * 300)
FAULT: Final = re.compile(rb"Traceback|a handler failed|an admission failed|CRITICAL")


def greeting(mechanism: bytes) -> bytes:
    """The first 64 bytes of ZMTP 3.1 (RFC 37) of a client."""
    return GREETING + mechanism.ljust(20, b"\0") + b"\0" + bytes(31)


def recorded_handshake(record: ClusterRecord) -> bytes:
    """What a real client sends first, its greeting and HELLO: taken by a port that answers with a server's greeting."""
    taken = bytearray()
    with closing(socket.create_server(("127.0.0.1", 0))) as between:

        def take() -> None:
            peer, _ = between.accept()
            with closing(peer):
                peer.settimeout(5)
                peer.sendall(greeting(b"CURVE"))
                with suppress(TimeoutError):
                    while len(taken) < len(GREETING) + 52 + 200:
                        taken.extend(peer.recv(ANSWER_BYTES))

        taker = Thread(target=take)
        taker.start()
        key = read_key_file(key_path(record, ADMINISTRATOR))
        address = f"127.0.0.1:{between.getsockname()[1]}"
        context = ClientContext(KeyRing(key.pair, {address: next(iter(key.servers.values()))}))
        with closing(context), closing(context.dealer(address)):
            taker.join(10)
    return bytes(taken)


def ports_of(record: ClusterRecord) -> list[tuple[str, int]]:
    """(what it is, port) of everything that listens, but ZooKeeper."""
    ports = []
    for process in record.processes:
        if process.role == ZOOKEEPER:
            continue
        port = int(process.address.rpartition(":")[2])
        ports.append((process.name, port))
        if process.role in (BROKER, NAME_SERVER):
            ports.append((f"{process.name} +1", port + 1))  # replication, and what is published
    return ports


def changed(draw: random.Random, data: bytes) -> bytes:
    """Some bits flipped, and perhaps a piece cut out, doubled, or appended."""
    found = bytearray(data)
    for _ in range(draw.randint(1, 8)):
        found[draw.randrange(len(found))] ^= 1 << draw.randrange(8)
    at = draw.randrange(len(found))
    match draw.randrange(5):
        case 0:
            del found[at:]
        case 1:
            found[at:at] = found[at : at + draw.randrange(64)]
        case 2:
            found += draw.randbytes(draw.randrange(512))
    return bytes(found)


def openings(draw: random.Random, real: bytes) -> Iterator[tuple[str, bytes]]:
    """(kind, bytes) without end."""
    while True:
        yield "random", draw.randbytes(draw.randrange(1, 2048))
        mechanism = draw.choice([b"NULL", b"PLAIN", b"CURVE", b"GSSAPI", draw.randbytes(20)])
        size = draw.randrange(255)
        yield "commands", greeting(mechanism) + bytes([draw.randrange(8), size]) + draw.randbytes(size)
        yield "handshake", changed(draw, real)


def knock(record: ClusterRecord, tries: int, draw: random.Random, real: bytes) -> tuple[Counter[str], set[bytes]]:
    """Connects `tries` times; how often of each kind, and the different answers, without what is random in them."""
    counts: Counter[str] = Counter()
    answers: set[bytes] = set()
    ports, kinds = ports_of(record), openings(draw, real)
    for number in range(tries):
        port = ports[number % len(ports)][1]
        kind, data = next(kinds)
        counts[kind] += 1
        with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), 5)) as peer:
            peer.sendall(data)
            if number % 50 == 0:  # to wait for each answer would take all the time
                peer.settimeout(ANSWER_S)
                answers.add(peer.recv(ANSWER_BYTES))
    return counts, answers


def pester(record: ClusterRecord, tries: int, draw: random.Random, pair: Any) -> int:
    """Sends `tries` frames as a user who may do nothing; how many of them were answered."""
    servers = [process for process in record.processes if process.role != ZOOKEEPER]
    fixed = {process.address: (read_key_file(key_path(record, process.name)).pair.public,) for process in servers}
    sent = answered = 0
    real = encode_request(GetRoute(TOPIC), 7, timeout_ms=1000)
    codes = sorted(REQUESTS)
    with closing(ClientContext(KeyRing(pair, fixed))) as context:
        while sent < tries:
            with closing(context.dealer(servers[sent // FRAMES_AT_ONCE % len(servers)].address)) as dealer:
                for _ in range(min(FRAMES_AT_ONCE, tries - sent)):
                    sent += 1
                    header = draw.choice(
                        (draw.randbytes(draw.randrange(1, 300)), changed(draw, real), _request(draw, codes))
                    )
                    dealer.send(header, draw.randbytes(draw.randrange(2048)) if draw.random() < 0.3 else None)
                while dealer.receive(50) is not None:
                    answered += 1
    return answered


def _request(draw: random.Random, codes: list[int]) -> bytes:
    """A well-formed header of any request, with fields that mean nothing."""
    import msgpack

    fields = [
        draw.choice(["", TOPIC, 0, -1, 1 << 62, [], [["x", 1]], None, b"\0" * 9, "x" * 300])
        for _ in range(draw.randrange(12))
    ]
    packed: bytes = msgpack.packb(
        [draw.choice(codes), 3, 1, draw.randrange(1 << 31), draw.randrange(4), None, fields, 1000]
    )
    return packed


def check(cluster: ProcessCluster, record: ClusterRecord, answers: set[bytes]) -> None:
    """Raises SystemFault if a process ended, does not answer or has logged a fault, or if a stranger learned a name."""
    names = [TOPIC, record.cluster_id, *(process.name for process in record.processes)]
    told = [name for name in names if any(name.encode() in answer for answer in answers)]
    if told:
        raise SystemFault(f"a stranger was told {told}")
    with administrator(record) as remoting:
        for process in record.processes:
            if not is_running(process.pid, process.birth):
                raise SystemFault(f"{process.name} has ended")
            if process.role in QUESTIONS:
                remoting.call(process.address, QUESTIONS[process.role], timeout_ms=10_000)
            if process.role != ZOOKEEPER:
                with open(cluster.log_path(process.name), "rb") as log:
                    found = FAULT.search(log.read())
                if found:
                    raise SystemFault(f"{process.name} logged {found.group().decode()!r}")


def run(directory: str, tries: int, seed: int) -> dict[str, Any]:
    """The whole of it; half of the tries are connections, half frames."""
    os.environ["HOME"] = directory
    cluster = ProcessCluster(os.path.join(directory, "cluster"))
    with ExitStack() as started:
        record = cluster.up(shape=Shape(replicas=3), secure=True)
        started.callback(cluster.down)
        pair = new_key_pair()
        with Admin(record.namesrv, key=key_path(record, ADMINISTRATOR)) as admin:
            admin.create_topic(TOPIC)
            admin.put_security_row(User(NOBODY, (pair.public,)))
        real, began_ms = recorded_handshake(record), monotonic_ms()
        counts, answers = knock(record, tries // 2, random.Random(seed), real)
        answered = pester(record, tries - tries // 2, random.Random(seed + 1), pair)
        check(cluster, record, answers)
    seconds = (monotonic_ms() - began_ms) / 1000
    return {"connections": dict(counts), "frames": tries - tries // 2, "answered": answered, "seconds": seconds}


def main() -> None:
    """Prints what was sent; exit code 1 and one line if something gave way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tries", type=int, default=20_000, help="connections and frames together")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        try:
            print(json.dumps(run(directory, options.tries, options.seed), indent=2))
        except ZenitError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
