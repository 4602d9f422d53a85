"""What becomes of sessions without a rule: numbers, acks, openings (R4, R8, R14)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zenitmq.broker.replication import following_member, master, slave
from zenitmq.broker.replication.effects import Effect
from zenitmq.broker.replication.frame_codec import decode
from zenitmq.broker.replication.frames import Accepted, Ack, Side
from zenitmq.broker.replication.port import ReplicationPort

from . import sockets
from .mutation_table import Patch, mutation


def _deaf_port() -> list[Patch]:
    """The port lets frames of closed connections through: the cores' own check is what is tested."""
    on_slave_data, close_dealer = ReplicationPort._on_slave_data, ReplicationPort.close_dealer
    on_message = sockets.SimulatedDealer.on_message

    def from_slave(self: ReplicationPort, identity: bytes, data: bytes, *, more: bool) -> None:
        frame = decode(data, Side.MASTER)
        if isinstance(frame, Ack) and identity not in self._peers:
            self._listener.on_slave_frame(identity.partition(b"/")[0].decode(), frame)
        else:
            on_slave_data(self, identity, data, more=more)

    def closing(self: ReplicationPort) -> None:
        if self._dealer is not None:
            self._dealer.still_heard = self._listener  # type: ignore[attr-defined]
        close_dealer(self)

    def from_master(self: sockets.SimulatedDealer, header: bytes, data: bytes) -> None:
        frame, listener = decode(header, Side.SLAVE), getattr(self, "still_heard", None)
        if isinstance(frame, Accepted) and listener is not None:
            listener.on_master_frame(frame, b"")
        else:
            on_message(self, header, data)

    return [
        (ReplicationPort, "_on_slave_data", from_slave),
        (ReplicationPort, "close_dealer", closing),
        (sockets.SimulatedDealer, "on_message", from_master),
    ]


@mutation("nonce-ack", "R14: an ack counts, whatever session it names")
def _() -> list[Patch]:
    on_frame = master.MasterState.on_frame

    def mutant(self: master.MasterState, peer: str, frame: Any, now_ms: int) -> list[Effect]:
        if isinstance(frame, Ack) and peer in self._members:
            frame = replace(frame, session=self._members[peer].session)
        return on_frame(self, peer, frame, now_ms)

    return [*_deaf_port(), (master.MasterState, "on_frame", mutant)]


@mutation("nonce-hello", "R4: the answer to an opening counts, whatever session it names")
def _() -> list[Patch]:
    on_frame = slave.SlaveState.on_frame

    def mutant(self: slave.SlaveState, frame: Any, now_ms: int, data: bytes = b"") -> list[Effect]:
        if isinstance(frame, Accepted) and frame.epoch == self.epoch and self.is_quiet and self._is_open:
            return self._on_accepted(replace(frame, session=self.session), now_ms)
        return on_frame(self, frame, now_ms, data)

    return [*_deaf_port(), (slave.SlaveState, "on_frame", mutant)]


@mutation("highn", "R14: closing a session forgets its number")
def _() -> list[Patch]:
    close = master.MasterState._close

    def mutant(self: master.MasterState, one: following_member.FollowingMember) -> Effect:
        effect = close(self, one)
        one.session = 0
        return effect

    return [(master.MasterState, "_close", mutant)]


@mutation("R14", "R14: an ack beyond what was sent counts")
def _() -> list[Patch]:
    def mutant(self: master.MasterState, one: following_member.FollowingMember, ack: Ack, now_ms: int) -> list[Effect]:
        one.written, one.flushed, one.heard_ms = ack.written, ack.flushed, now_ms
        effects: list[Effect] = []
        one.observe_lag(self._log.end, self._is_sync, now_ms)
        if one.sent < self._log.end and one.sent < one.credit:
            self._send_chunk(one, self._log.end, now_ms, effects)
        self._progress(effects)
        return effects if one.is_counted else effects + self._propose(now_ms)

    return [(master.MasterState, "_on_ack", mutant)]


@mutation("hellofl", "R8: under sync an opening counts unflushed bytes too, up to the truncation point")
def _() -> list[Patch]:
    opens = following_member.FollowingMember.open

    def mutant(self: following_member.FollowingMember, opening: Any, offset: int, **now: Any) -> None:
        opens(self, replace(opening, flushed=offset), offset, **now)

    return [(following_member.FollowingMember, "open", mutant)]
