"""A replica of a group takes no messages alone; once it has left the group for good, it does, and the group notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.group.epoch_file import read_epochs
from zenitmq.broker.group.group_membership import leave_group
from zenitmq.broker.replication.replica_files import ReplicaFiles
from zenitmq.broker.service import Broker
from zenitmq.controller.group.registration import register
from zenitmq.model.errors import ForeignLog, StoreInGroup
from zenitmq.model.groups.group import GroupNode, GroupSettings, Incarnation, Replica
from zenitmq.remoting.commands import RegisterReplica
from zenitmq.store.config import StoreConfig


def alone(store: Path) -> BrokerConfig:
    return BrokerConfig(port=0, namesrv=(), store_dir=str(store), store=StoreConfig(segment_bytes=1 << 20))


def registered(files: ReplicaFiles, *, log_end: int) -> RegisterReplica:
    who = files.incarnation
    return RegisterReplica(
        "broker-a",
        "b",
        "h:1",
        "h:2",
        who.store_id,
        who.starts,
        "life-1",
        epoch=files.promised,
        log_end=log_end,
        clean_marker=False,
        marker_end=-1,
        same_boot=True,
        ran_async=False,
        group_id=files.group_id,
    )


def test_a_replica_that_was_started_alone_is_refused_and_one_that_left_is_no_copy_any_more(tmp_path: Path) -> None:
    with Broker(alone(tmp_path)):
        pass
    files = ReplicaFiles.open(str(tmp_path))
    files.note_registered("id-1")
    files.promise(5)
    rows = read_epochs(str(tmp_path))
    with pytest.raises(StoreInGroup, match="id-1"), Broker(alone(tmp_path)):
        pass
    assert read_epochs(str(tmp_path)) == rows, "it has begun no epoch"

    leave_group(str(tmp_path))
    with Broker(alone(tmp_path)):
        assert read_epochs(str(tmp_path))[-1].number == 6, "above all that the group may have used"

    replica = Replica("b", "h:1", "h:2", Incarnation(files.incarnation.store_id, 1))
    node = GroupNode(broker_name="broker-a", group_id="id-1", epoch=5, in_sync=("b",), replicas=(replica,))
    back = registered(ReplicaFiles.open(str(tmp_path)), log_end=1000)
    with pytest.raises(ForeignLog):
        register(node, back, settings=GroupSettings(), present_is_alive=False)
