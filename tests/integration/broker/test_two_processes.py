"""Two brokers are started on one store: the second one is refused, and writes nothing there."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.replication.replica_files import ReplicaFiles
from zenitmq.broker.service import Broker
from zenitmq.model.errors import StoreLocked
from zenitmq.store.config import StoreConfig


def test_a_second_broker_leaves_what_the_first_one_has_promised(tmp_path: Path) -> None:
    """It wrote what it had read of `replica.zenit`, with one start more: a promise made in between was gone."""
    store = StoreConfig(segment_bytes=1 << 20)
    config = BrokerConfig(
        port=0,
        replication_port=0,
        namesrv=(),
        store_dir=str(tmp_path),
        store=store,
        controllers=("127.0.0.1:1",),
        replica="a",
    )
    with Broker(config):
        before = (tmp_path / "replica.zenit").read_bytes()
        with pytest.raises(StoreLocked, match="open in another process"), Broker(config):
            pass
        assert (tmp_path / "replica.zenit").read_bytes() == before
    assert ReplicaFiles.open(str(tmp_path)).incarnation.starts == 2
