"""Stories of what is not what it passes for: another group's log, another store, an old node, rows without bytes."""

from __future__ import annotations

from zenitmq.broker.replication.frames import Chunk
from zenitmq.controller.group.detection import Detection
from zenitmq.model.errors import MasterStillAlive
from zenitmq.model.groups.group import KnownGroup
from zenitmq.remoting.commands import ElectMaster

from ..disk import Disk
from ..group_kit import GROUP, group, heartbeat
from ..ledger import Violation
from ..records import RECORD, SEGMENT
from ..story import Stage
from .table import story


@story("V24", without="group-id", falls="I3")
def log_of_another_group_is_not_let_in() -> None:
    """Both groups are called the same and count their epochs from one: their rows agree, their bytes do not."""
    other = Stage("c", in_sync="c", minimum=1)
    other.append("c")
    foreign = other.disks["c"]
    foreign.rewrite_replica(store_id="store-x", group_id="group-2")
    stage = Stage("abc", in_sync="ab")
    stage.append("a")
    stage.carry("a", "b")
    stage.tick(after_ms=300)
    stage.kill("c")
    of_this_group = stage.disks["c"]
    stage.disks["c"] = foreign
    stage.start("c")
    if stage.register("c"):
        stage.hear("c")
        stage.carry_all()
        stage.tick(after_ms=300)
        stage.carry_all()
    else:
        stage.kill("c")
        stage.disks["c"] = of_this_group
    stage.whole()


@story("V25", without="R14-store", falls="I1")
def stranger_opens_no_session_in_a_members_name() -> None:
    stage = Stage("ac", in_sync="ac")
    member = stage.brokers.pop("c")  # it is paused
    disk, stage.disks["c"] = stage.disks["c"], Disk("c", "store-x")
    stage.start("c")
    stage.hear("c")
    stage.carry_all()
    stage.tick("c", after_ms=60)  # its first number was used before
    stage.carry_all()
    stage.append("a")
    stage.carry_all()
    stage.kill("c")
    stage.drop_all()
    stage.brokers["c"], stage.disks["c"] = member, disk
    stage.calls["c"].broker = member
    stage.elect("c")
    stage.hear("c")
    stage.whole()


@story("V26", without="node-lost", falls="I4")
def node_that_was_set_back_gives_no_epoch_twice() -> None:
    stage = Stage(in_sync="abc")
    version = stage.version
    stage.elect("b")
    stage.hear("b")
    stage.hear("c")
    stage.carry("b", "c")
    stage.set_back_zookeeper(version)
    if stage.elect("a", epoch_seen=2):
        stage.hear("a")


@story("M-R12", without="R12", falls="queue")
def log_that_begins_later_is_told_what_came_before() -> None:
    """A wiped replica behind retention: queue offsets go on where they were."""
    stage = Stage("ab", in_sync="ab", minimum=1)
    for _ in range(SEGMENT // RECORD):
        stage.append("a")
        stage.carry("a", "b")
    for name in "ab":
        stage.flush(name)
    stage.tick(after_ms=300)
    stage.carry_all()
    stage.disks["a"].expire(SEGMENT)
    stage.tick("a")
    stage.wipe("b")
    stage.start("b")
    stage.register("b")
    stage.whole()
    stage.elect("b")
    stage.hear("b")
    stage.hear("a")
    stage.carry_all()
    stage.append("b")
    stage.whole()


@story("M-R4e", without="R4-recovered", falls="I5")
def row_whose_bytes_power_took_goes_with_them() -> None:
    stage = Stage("ab", in_sync="ab", minimum=1)
    stage.append("a")
    stage.append("a")
    stage.carry("a", "b")
    stage.flush("a")
    stage.elect("a")
    stage.hear("a")
    stage.hear("b")
    stage.carry("a", "b")
    stage.append("a")
    stage.one("a", "b", Chunk)
    stage.lose_power("b", keep=1)
    stage.start("b")
    stage.register("b")
    stage.elect("a")
    stage.whole()


@story("M-R10b", without="R10-dead", falls="R10")
def nobody_is_forced_beside_a_master_that_lives() -> None:
    detection, now_ms = Detection(), 100_000
    node = group(in_sync="a", eligible="", min_in_sync=1)
    detection.on_group(KnownGroup(node, 1), now_ms)
    for at_ms in (0, 500, 1000):
        for name in "abc":
            detection.on_heartbeat(heartbeat(name), now_ms + at_ms)
    try:
        detection.operator_election(ElectMaster(GROUP, 1, "b", force=True), now_ms + 1500)
    except MasterStillAlive:
        return
    raise Violation("R10: a second master beside one that was heard half a second ago")
