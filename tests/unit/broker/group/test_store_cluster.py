"""An operator's word which cluster a stopped broker's store is of."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_kit import make_store, message, put

from zenitmq.broker.group.cluster_file import FILE_NAME, ClusterFile
from zenitmq.broker.group.store_cluster import move_to_cluster, read_cluster
from zenitmq.model.errors import InvalidParameter, StoreFormatError, StoreLocked, StoreNotEmpty


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Opened and closed, never written to."""
    with make_store(tmp_path):
        pass
    return str(tmp_path)


@pytest.fixture
def full_store(tmp_path: Path) -> str:
    with make_store(tmp_path) as opened:
        put(opened, "t", 0, message("t", b"1"))
    return str(tmp_path)


def test_an_empty_store_takes_the_id_that_is_named_for_good(store: str) -> None:
    assert read_cluster(store) == {"cluster_id": "", "settled": False}
    ClusterFile.open(store, pinned="c1")
    assert move_to_cluster(store, "c2", with_messages=False) == {"cluster_id": "c2", "settled": True}
    assert ClusterFile.open(store, pinned="c2").is_settled


def test_a_store_with_messages_takes_another_id_on_demand_only(full_store: str) -> None:
    ClusterFile.open(full_store, pinned="c1")
    with pytest.raises(StoreNotEmpty, match="--force"):
        move_to_cluster(full_store, "c2", with_messages=False)
    assert read_cluster(full_store)["cluster_id"] == "c1"
    assert move_to_cluster(full_store, "c2", with_messages=True)["cluster_id"] == "c2"


def test_a_damaged_file_is_written_anew_by_the_command_that_its_error_names(store: str) -> None:
    (Path(store) / FILE_NAME).write_bytes(b"rotten")
    with pytest.raises(StoreFormatError, match="zenit store cluster"):
        read_cluster(store)
    assert move_to_cluster(store, "c2", with_messages=False)["settled"]


def test_a_running_brokers_store_no_store_and_no_id_are_refused(tmp_path: Path) -> None:
    with make_store(tmp_path / "open"), pytest.raises(StoreLocked):
        move_to_cluster(str(tmp_path / "open"), "c2", with_messages=True)
    for refused in ("", "two words"):
        with pytest.raises(InvalidParameter):
            move_to_cluster(str(tmp_path / "open"), refused, with_messages=True)
    with pytest.raises(StoreFormatError, match="no commit log"):
        read_cluster(str(tmp_path / "mistyped"))
    assert not (tmp_path / "mistyped").exists()
