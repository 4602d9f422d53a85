"""A cluster's directory whose record is gone or damaged: its stores say what the cluster was, and nothing passes them over."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.broker.group.cluster_file import ClusterFile
from zenitmq.deploy.cluster_record import FILE_NAME, Shape
from zenitmq.deploy.left_stores import left_cluster_id, left_shape
from zenitmq.deploy.local_cluster import ProcessCluster
from zenitmq.model.errors import InvalidParameter, StoreFormatError

ID = "9f1c2b3a4d5e6f70"


def left(directory: Path, *names: str, controllers: int = 0, cluster_id: str = ID) -> None:
    (directory / "log").mkdir(exist_ok=True)
    for number in range(1, controllers + 1):
        (directory / "log" / f"controller-{number}.log").touch()
    if controllers:
        (directory / "zookeeper").mkdir()
    for name in names:
        (directory / name / "commitlog").mkdir(parents=True)
        ClusterFile.replace(str(directory / name), cluster_id)


@pytest.mark.parametrize(
    ("names", "controllers", "shape"),
    [
        (["broker-a"], 0, Shape()),
        (["broker-a", "broker-b"], 0, Shape(groups=2)),
        (["broker-a-1", "broker-a-2"], 0, Shape(replicas=2, controllers=0)),
        (["broker-a-1", "broker-a-3", "broker-b-2"], 3, Shape(replicas=3, groups=2, controllers=3)),
        (["broker-a-1"], 1, Shape(replicas=2)),
    ],
)
def test_the_stores_tell_the_shape_and_the_id(tmp_path: Path, names: list[str], controllers: int, shape: Shape) -> None:
    left(tmp_path, *names, controllers=controllers)
    (tmp_path / "broker-x").mkdir()
    assert (left_shape(str(tmp_path)), left_cluster_id(str(tmp_path))) == (shape, ID)
    record = ProcessCluster(str(tmp_path))._record_of(None)
    assert (record.shape, record.cluster_id) == (shape, ID)


def test_a_directory_without_stores_tells_nothing(tmp_path: Path) -> None:
    assert left_shape(str(tmp_path / "none")) is None
    assert left_cluster_id(str(tmp_path)) == ""


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (Shape(), "broker-a-1, broker-a-2"),
        (Shape(replicas=2, controllers=0), "--controllers = '0': expected 1"),
        (Shape(replicas=3, groups=2), None),
    ],
)
def test_no_store_is_passed_over(tmp_path: Path, shape: Shape, told: str | None) -> None:
    """Else an empty cluster would be started beside them."""
    left(tmp_path, "broker-a-1", "broker-a-2", controllers=1)
    cluster = ProcessCluster(str(tmp_path))
    if told is None:
        assert cluster._record_of(shape).cluster_id == ID
        return
    with pytest.raises(InvalidParameter, match=told):
        cluster._record_of(shape)


def test_a_zookeeper_of_somebody_else_is_named_again(tmp_path: Path) -> None:
    left(tmp_path, "broker-a-1", "broker-a-2", controllers=1)
    (tmp_path / "zookeeper").rmdir()
    cluster = ProcessCluster(str(tmp_path))
    with pytest.raises(InvalidParameter, match="--zookeeper"):
        cluster._record_of(None)
    assert cluster._record_of(Shape(replicas=2, zookeeper="h:1")).zookeeper == "h:1"


def test_stores_of_two_clusters_are_told(tmp_path: Path) -> None:
    left(tmp_path, "broker-a")
    left(tmp_path, "broker-b", cluster_id="0123456789abcdef")
    with pytest.raises(InvalidParameter, match=f"broker-b of 0123456789abcdef, broker-a of {ID}"):
        ProcessCluster(str(tmp_path))._record_of(None)


def test_a_record_without_an_id_takes_that_of_the_stores(tmp_path: Path) -> None:
    left(tmp_path, "broker-a")
    (tmp_path / FILE_NAME).write_text('{"cluster": "zenit", "namesrv": "127.0.0.1:1", "processes": []}')
    assert ProcessCluster(str(tmp_path))._record_of(None).cluster_id == ID


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b'{"processes": [{}]}'])
def test_a_damaged_record_says_what_to_do(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(StoreFormatError, match="move this file away, and run `zenit up`"):
        ProcessCluster(str(tmp_path)).read()
