"""An operator says whose log a store has; everything else of it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.broker.epoch_file import begin_epoch
from zenitmq.broker.join_group import join_group
from zenitmq.broker.replication.replica_files import ReplicaFiles
from zenitmq.model.errors import InvalidParameter, StoreFormatError, StoreLocked
from zenitmq.model.queue import PhysicalOffset
from zenitmq.store.store_files import StoreLock


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A broker was alone here for two lives."""
    (tmp_path / "commitlog").mkdir()
    begin_epoch(str(tmp_path), PhysicalOffset(0), PhysicalOffset(0))
    begin_epoch(str(tmp_path), PhysicalOffset(0), PhysicalOffset(500))
    return str(tmp_path)


def test_a_log_joins_the_group_that_is_named_with_all_its_epochs(store: str) -> None:
    assert join_group(store, "id-1") == {"group_id": "id-1", "epoch": 2}
    files = ReplicaFiles.open(store)
    assert (files.group_id, files.promised, files.incarnation.starts) == ("id-1", 2, 1)


def test_without_a_name_the_group_is_called_after_the_store(store: str) -> None:
    joined = join_group(store, "")["group_id"]
    assert ReplicaFiles.open(store).incarnation.store_id == joined
    assert join_group(store, "") == {"group_id": joined, "epoch": 2}, "twice is once"


def test_what_a_static_master_had_promised_stays(store: str) -> None:
    files = ReplicaFiles.open(store)
    files.promise(9)
    assert join_group(store, "id-1") == {"group_id": "id-1", "epoch": 9}
    assert ReplicaFiles.open(store).incarnation.store_id == files.incarnation.store_id


def test_a_store_of_another_group_an_open_one_and_none_are_refused(store: str, tmp_path: Path) -> None:
    join_group(store, "id-1")
    with pytest.raises(InvalidParameter, match="id-1"):
        join_group(store, "id-2")
    with pytest.raises(InvalidParameter):
        join_group(store, "no id")
    with StoreLock(store), pytest.raises(StoreLocked):
        join_group(store, "id-1")
    with pytest.raises(StoreFormatError, match="no commit log"):
        join_group(str(tmp_path / "elsewhere"), "id-1")
