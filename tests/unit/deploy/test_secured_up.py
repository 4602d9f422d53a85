"""`zenit up --secure` on a directory whose cluster runs without keys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zenitmq.deploy.cluster_record import FILE_NAME, NAME_SERVER, ClusterRecord, ProcessRecord, Shape, encode_record
from zenitmq.deploy.local_cluster import ProcessCluster
from zenitmq.deploy.processes import birth_of
from zenitmq.model.errors import InvalidParameter


def test_a_cluster_that_runs_without_keys_is_left_alone_and_the_remedy_said(tmp_path: Path) -> None:
    """Its processes take nobody with a key, so `up` would wait for them until its time is over."""
    birth = birth_of(os.getpid())
    assert birth is not None
    running = ProcessRecord(role=NAME_SERVER, name="namesrv-1", address="127.0.0.1:9", pid=os.getpid(), birth=birth)
    record = ClusterRecord(cluster="zenit", namesrv=running.address, shape=Shape(), processes=(running,))
    (tmp_path / FILE_NAME).write_text(encode_record(record), encoding="utf-8")
    with pytest.raises(InvalidParameter, match="down first: it runs without keys") as refused:
        ProcessCluster(str(tmp_path), say=print).up(secure=True)
    assert f"zenit down --dir {tmp_path}" in str(refused.value)
    assert not (tmp_path / "keys").exists()
