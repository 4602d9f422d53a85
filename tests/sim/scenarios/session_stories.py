"""Stories of sessions: frames of another one, positions that nobody vouches for (R4, R8, R14)."""

from __future__ import annotations

from zenitmq.broker.replication.frames import Accepted, Ack, Chunk, Credit, Opening

from ..story import Stage
from .table import story


@story("V13", without="nonce-ack", falls="I1")
def ack_of_an_earlier_session() -> None:
    stage = Stage("ab", in_sync="ab")
    stage.append("a")
    stage.one("a", "b", Chunk)
    (late,) = stage.waiting("b", "a", Ack)
    stage.lose_power("b")
    stage.start("b")
    stage.register("b")
    stage.hear("b")
    stage.one("b", "a", Opening)
    stage.one("a", "b", Accepted)
    stage.one("b", "a", Credit)  # the record is sent anew
    stage.deliver(late)
    stage.hear("a")
    stage.write_proposal(stage.proposal("a"))
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("V14", without="nonce-hello", falls="I6")
def answer_to_an_earlier_opening() -> None:
    stage = Stage("ab", in_sync="ab")
    stage.reopen("b")
    stage.one("b", "a", Opening)
    (late,) = stage.waiting("a", "b", Accepted)
    stage.deliver(late)
    stage.append("a")
    stage.carry("a", "b")
    stage.tick("a", after_ms=300)
    stage.carry("a", "b")  # b knows what is confirmed
    stage.network.held.append(late)
    stage.deliver(late)
    stage.whole()


@story("V15", without="highn", falls="I1")
def closed_session_keeps_its_number() -> None:
    stage = Stage("ab", in_sync="ab")
    stage.append("a")
    stage.one("a", "b", Chunk)
    stage.reopen("b")
    (late,) = stage.waiting("b", "a", Opening)
    stage.lose_power("b")
    stage.start("b")
    stage.register("b")
    stage.hear("b")
    stage.deliver(stage.waiting("b", "a", Opening)[-1])
    stage.hear("a")
    stage.tick("a")
    assert stage.write_proposal(stage.proposal("a"))
    stage.hear("a")
    stage.part("a", "b")
    stage.deliver(late)
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("V16a", without="hellofl", falls="I1")
def opening_counts_what_is_flushed() -> None:
    stage = Stage("ab", in_sync="ab", sync=True)
    stage.append("a")
    stage.flush("a")
    stage.one("a", "b", Chunk)
    stage.reopen("b")
    stage.one("b", "a", Opening)
    stage.lose_power("b")
    stage.start("b")
    stage.register("b")
    stage.elect("b")
    stage.hear("b")
    stage.whole()


@story("M-R14", without="R14", falls="I1")
def ack_beyond_what_was_sent() -> None:
    stage = Stage("ab", in_sync="ab")
    master, session = stage.brokers["a"], stage.brokers["b"].replica._slave.session
    master.replica.on_slave_frame("b", Ack(master.group_key, 1, session, 24, 24))
    stage.append("a")
    stage.elect("b")
    stage.hear("b")
    stage.whole()
