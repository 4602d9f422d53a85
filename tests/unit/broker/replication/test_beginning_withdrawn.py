"""A slave that waits for the state to begin anew with is made master, or another one is: its log is as it was, and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sim.group_kit import group, life

from zenitmq.broker.replication.effects import DiskEffect, StartAnew
from zenitmq.broker.replication.epochs import Epoch, EpochList
from zenitmq.broker.replication.frames import Opening, RefusalReason, Refused
from zenitmq.broker.replication.replica import GroupReplica, ReplicaIdentity
from zenitmq.broker.replication.replica_log import ReplicaLog
from zenitmq.broker.replication.role import Role
from zenitmq.model.groups.group import KnownGroup
from zenitmq.model.queue import PhysicalOffset

END = 4000
ROWS = EpochList((Epoch(1, PhysicalOffset(0)),))


class Shell:
    """Port, disk, host, clock and controllers of one replica: all that it asks of them is kept, or done at once."""

    def __init__(self) -> None:
        self.opened: list[Opening] = []
        self.asked: list[DiskEffect] = []
        self.role: tuple[Role, int] | None = None
        self.may_withdraw = True
        log = ReplicaLog(end=END, flushed=END, epochs=ROWS)
        identity = ReplicaIdentity.of("c", "broker-a", "b", life("b"))
        fake: Any = self
        self.replica = GroupReplica(
            identity, fake, fake, replica_log=log, promised=0, segment_bytes=1 << 20, wants_lz4=False
        )
        self.replica.port = self.replica.host = self.replica.controller = fake

    def hear(self, version: int, **node: Any) -> None:
        self.replica.on_group(KnownGroup(group("abc", **node), version))

    def is_behind_retention(self) -> None:
        opening = self.opened[-1]
        refused = Refused(
            opening.group, opening.epoch, opening.session, RefusalReason.BEHIND_RETENTION, END, END + 1000, ROWS
        )
        self.replica.on_master_frame(refused, b"")

    # the disk
    def perform(self, effect: DiskEffect, on_done: Callable[[], None]) -> None:
        self.asked.append(effect)
        if not isinstance(effect, StartAnew):
            on_done()

    def withdraw(self, effect: DiskEffect) -> bool:
        return isinstance(effect, StartAnew) and self.may_withdraw

    def position(self) -> tuple[int, int]:
        return END, END

    # the rest
    def monotonic_ms(self) -> int:
        return 0

    def on_role(self, role: Role, epoch: int) -> None:
        self.role = role, epoch

    def send_to_master(self, frame: Any) -> None:
        self.opened.append(frame)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


@pytest.fixture
def waiting() -> Shell:
    """b follows a in epoch 1, is behind its retention, and has asked it for a beginning."""
    shell = Shell()
    shell.hear(3, in_sync="a", epoch=1, min_in_sync=1)
    shell.is_behind_retention()
    assert isinstance(shell.asked[-1], StartAnew)
    return shell


def test_who_is_elected_leads_with_the_log_it_has(waiting: Shell) -> None:
    waiting.hear(4, in_sync="b", master="b", epoch=2, min_in_sync=1)
    assert waiting.role == (Role.MASTER, 2)
    assert waiting.replica.log.end == END


def test_who_is_to_follow_another_asks_that_one(waiting: Shell) -> None:
    asked = len(waiting.asked)
    waiting.hear(4, in_sync="c", master="c", epoch=2, min_in_sync=1)
    assert waiting.role == (Role.SLAVE, 2)
    assert waiting.opened[-1].epoch == 2
    waiting.is_behind_retention()
    assert sum(isinstance(effect, StartAnew) for effect in waiting.asked[asked:]) == 1


def test_what_is_on_the_disk_already_is_carried_through(waiting: Shell) -> None:
    waiting.may_withdraw = False
    waiting.hear(4, in_sync="b", master="b", epoch=2, min_in_sync=1)
    assert waiting.role == (Role.SLAVE, 1)


def test_nothing_is_given_up_within_the_epoch(waiting: Shell) -> None:
    waiting.hear(4, in_sync="a", epoch=1, min_in_sync=1)
    waiting.replica.on_tick()
    assert waiting.replica._on_disk is not None
    assert isinstance(waiting.replica._on_disk[0], StartAnew)
