"""Strangers and nonsense on the replication port: answered with a refusal or nothing, and the group goes on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from zenitmq.bench.works.frames import ready_batches
from zenitmq.broker.replication.epochs import EpochList
from zenitmq.broker.replication.frame_codec import decode, encode
from zenitmq.broker.replication.frames import Ack, Credit, Frame, Opening, RefusalReason, Refused, Side, group_key
from zenitmq.model.groups.group import Incarnation

from .group_of_nodes import Group, Node, eventually, group

BATCH = ready_batches("t", size=500, batch=50, keys=0, tags=False, count=1)[0]
KEY = group_key("zenit", "g")
LIFE = Incarnation("0" * 32, 1)


class Stranger:
    """A DEALER on a node's replication port."""

    def __init__(self, node: Node) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.RCVTIMEO, 3000)
        self._socket.connect(f"tcp://{node.member.replication_address}")

    def send(self, *frames: bytes) -> None:
        self._socket.send_multipart(frames)

    def ask(self, frame: Frame) -> Frame:
        self.send(encode(frame))
        return decode(self._socket.recv_multipart()[0], Side.SLAVE)

    def close(self) -> None:
        self._socket.close()
        self._context.term()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Group]:
    with group(tmp_path, "ab", min_in_sync=2) as running:
        running.elect("a", in_sync="ab")
        assert eventually(lambda: running.nodes["a"].roles == [0])
        assert goes_on(running)  # the slave's session is open: a test may look at its number
        yield running


@pytest.fixture
def stranger(running: Group) -> Iterator[Stranger]:
    found = Stranger(running.nodes["a"])
    yield found
    found.close()


def goes_on(running: Group) -> bool:
    """What is sent now comes to be acknowledged by both."""
    a, b = running.nodes.values()
    a.put(BATCH, 50)
    return eventually(lambda: a.acknowledged() == a.written() == b.written())


def opening(name: str, *, session: int = 1, epoch: int = 1, key: int = KEY, life: Incarnation = LIFE) -> Opening:
    return Opening(key, epoch, session, name, life, 0, 0, EpochList(), False)


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_do_no_harm(running: Group, stranger: Stranger, seed: int) -> None:
    chance = random.Random(seed)
    whole = encode(opening("b", session=1 << 40))
    for _ in range(300):
        frame = bytearray(whole if chance.random() < 0.5 else chance.randbytes(chance.randrange(200)))
        for _ in range(chance.randrange(4)):
            if frame:
                frame[chance.randrange(len(frame))] = chance.randrange(256)
        stranger.send(bytes(frame[: chance.randrange(len(frame) + 1)]), *([b"more"] * chance.randrange(3)))
    assert goes_on(running)


def test_who_is_no_member_is_refused(running: Group, stranger: Stranger) -> None:
    answer = stranger.ask(opening("z"))
    assert isinstance(answer, Refused)
    assert answer.reason is RefusalReason.NOT_A_MEMBER
    assert goes_on(running)


def test_another_store_under_a_member_s_name_is_refused(running: Group, stranger: Stranger) -> None:
    """A slave of another cluster's group that is named alike, say. The session that is open stays."""
    session = running.nodes["b"].member._replica._slave.session
    answer = stranger.ask(opening("b", session=1 << 40))
    assert isinstance(answer, Refused)
    assert answer.reason is RefusalReason.NOT_A_MEMBER
    assert goes_on(running)
    assert running.nodes["b"].member._replica._slave.session == session


def test_a_slave_of_another_epoch_hears_which_one_it_is(running: Group, stranger: Stranger) -> None:
    answer = stranger.ask(opening("b", session=1 << 40, epoch=7))
    assert isinstance(answer, Refused)
    assert (answer.reason, answer.epoch) == (RefusalReason.OTHER_EPOCH, 1)
    assert goes_on(running)


def test_a_session_of_the_past_is_refused(running: Group, stranger: Stranger) -> None:
    """And the one that is open is left alone, though it goes by the same name."""
    answer = stranger.ask(opening("b", session=1, life=running.nodes["b"].member.files.incarnation))
    assert isinstance(answer, Refused)
    assert answer.reason is RefusalReason.STALE_SESSION
    assert goes_on(running)


def test_who_never_opened_a_session_acknowledges_nothing(running: Group, stranger: Stranger) -> None:
    a = running.nodes["a"]
    session = a.member._replica.master.members()[0].session  # type: ignore[union-attr]
    for frame in (Ack(KEY, 1, session, 1 << 40, 1 << 40), Credit(KEY, 1, session, 1 << 40)):
        stranger.send(encode(frame))
    assert goes_on(running)
    assert a.written() < 1 << 40


def test_a_slave_refuses_to_serve_others(running: Group) -> None:
    """The port of a replica that does not lead answers with the epoch it knows."""
    other = Stranger(running.nodes["b"])
    try:
        answer = other.ask(opening("a"))
        assert isinstance(answer, Refused)
        assert (answer.reason, answer.epoch) == (RefusalReason.OTHER_EPOCH, 1)
    finally:
        other.close()
    assert goes_on(running)


def test_two_processes_that_claim_one_identity_do_not_both_get_a_session(running: Group, stranger: Stranger) -> None:
    """A copy of a directory opens under the name of the slave it was copied from: the newer session counts, the older one
    is told and opens again under a higher number."""
    b = running.nodes["b"]
    session = b.member._replica._slave.session
    stranger.send(encode(opening("b", session=session + 1, life=b.member.files.incarnation)))
    assert eventually(lambda: b.member._replica._slave.session > session + 1)
    assert goes_on(running)
