"""Which cluster a store belongs to: taken once, kept over restarts, pinned by the operator."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.broker.group.cluster_file import FILE_NAME, ClusterFile
from zenitmq.model.errors import ConfigError, StoreFormatError


def test_a_new_store_has_none_and_no_file(tmp_path: Path) -> None:
    file = ClusterFile.open(str(tmp_path))
    assert (file.cluster_id, file.is_settled) == ("", False)
    assert not (tmp_path / FILE_NAME).exists()


def test_an_id_that_is_not_settled_gives_way_and_one_that_is_stays(tmp_path: Path) -> None:
    ClusterFile.open(str(tmp_path)).adopt("c1")
    file = ClusterFile.open(str(tmp_path))
    assert (file.cluster_id, file.is_settled) == ("c1", False)
    file.adopt("c2")
    file.settle()
    file = ClusterFile.open(str(tmp_path))
    assert (file.cluster_id, file.is_settled) == ("c2", True)
    with pytest.raises(AssertionError):
        file.adopt("c3")


def test_the_operators_id_is_settled_at_once_and_refused_where_the_store_has_another(tmp_path: Path) -> None:
    ClusterFile.open(str(tmp_path)).adopt("c1")
    assert ClusterFile.open(str(tmp_path), pinned="c2").is_settled
    assert ClusterFile.open(str(tmp_path), pinned="c2").cluster_id == "c2"
    with pytest.raises(ConfigError, match="c2: the store in"):
        ClusterFile.open(str(tmp_path), pinned="c3")


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    ClusterFile.open(str(tmp_path), pinned="c2")
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes().replace(b"c2", b"c3"))
    with pytest.raises(StoreFormatError, match=FILE_NAME):
        ClusterFile.open(str(tmp_path))
