"""Disks that hang or are full at will, and what a group does about them and about links that are cut."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from zenitmq.deploy.cluster_record import ProcessRecord
from zenitmq.deploy.drills.faults.disk_faults import DiskFault, DiskFaults, prepare
from zenitmq.deploy.drills.faults.partition import is_possible
from zenitmq.deploy.drills.run import DrillOptions, run
from zenitmq.model.errors import InvalidParameter

from .one_fault import SECURE
from .test_drill_runs import needs_zookeeper, work

__all__ = ["work"]

HELD_MS = 300


def broker(name: str, store_dir: Path) -> ProcessRecord:
    return ProcessRecord(role="broker", name=name, address="", store_dir=str(store_dir))


@pytest.fixture
def faults(tmp_path: Path) -> DiskFaults:
    for name in ("broker-a", "broker-b"):
        (tmp_path / name).mkdir()
    return prepare(str(tmp_path / "broker-"), str(tmp_path / "faults"))


def began(faults: DiskFaults, folder: Path, program: str) -> subprocess.Popen[str]:
    """A process that does this in a store directory, and tells how long it took, or what failed."""
    text = f"""
        import os, time
        fd = os.open('log', os.O_RDWR | os.O_CREAT)
        began = time.monotonic()
        try:
            {program}
            print(int(1000 * (time.monotonic() - began)))
        except OSError as error:
            print(error.strerror)
    """
    environment = {**os.environ, **faults.environment()}
    command = [sys.executable, "-c", textwrap.dedent(text)]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def told(child: subprocess.Popen[str]) -> str:
    output, _ = child.communicate(timeout=30)
    return output.strip()


def test_a_disk_hangs_until_it_is_mended_and_no_other_does(faults: DiskFaults, tmp_path: Path) -> None:
    with faults.begun(DiskFault.HANGS, [broker("broker-a", tmp_path / "broker-a")]):
        child = began(faults, tmp_path / "broker-a", "os.fdatasync(fd)")
        assert told(began(faults, tmp_path / "broker-b", "os.fdatasync(fd)")).isdigit()
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(HELD_MS / 1000)
    assert int(told(child)) > 0


def test_a_full_disk_takes_no_new_file_until_it_is_mended(faults: DiskFaults, tmp_path: Path) -> None:
    allocate = "os.posix_fallocate(fd, 0, 4096)"
    with faults.begun(DiskFault.IS_FULL, [broker("broker-a", tmp_path / "broker-a")]):
        assert told(began(faults, tmp_path / "broker-a", allocate)) == os.strerror(28)
        assert told(began(faults, tmp_path / "broker-a", "os.pwrite(fd, b'x', 0); os.fdatasync(fd)")).isdigit()
        assert told(began(faults, tmp_path / "broker-b", allocate)).isdigit()
    assert told(began(faults, tmp_path / "broker-a", allocate)).isdigit()


def test_a_store_elsewhere_has_no_faults(faults: DiskFaults, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter), faults.begun(DiskFault.HANGS, [broker("x", tmp_path / "x")]):
        pytest.fail("it began")


def drilled(name: str) -> dict[str, Any]:
    document = run(DrillOptions(drill=name, rate=400.0, batch=8, seconds=5, replicas=3, controllers=1, secure=SECURE))
    assert document["passed"], document
    (only,) = document["runs"]
    assert only["acknowledged"] > 1_000
    return only


@needs_zookeeper
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("work")
def test_a_disk_that_hangs_holds_its_group_up_for_a_moment_only() -> None:
    for fault in drilled("hung-fsync")["faults"]:
        assert fault["first_write_ms"] < fault["held_ms"], "writes went on before the disk did"


@needs_zookeeper
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("work")
def test_an_elected_replica_whose_disk_is_full_does_not_keep_its_group_from_writing() -> None:
    _, after = drilled("full-disk-after-election")["faults"]
    assert after["gap_while_held_ms"] < after["held_ms"] - 500


@needs_zookeeper
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("work")
@pytest.mark.skipif(not is_possible(), reason="needs root, ip and iptables")
def test_another_takes_over_from_a_master_that_no_slave_reaches() -> None:
    """In a process of its own, which leaves for a network of its own."""
    program = f"""
        import json
        from zenitmq.deploy.drills.run import DrillOptions, run
        options = DrillOptions(drill="partition-replication", rate=400.0, batch=8, seconds=5, controllers=1, secure={SECURE})
        print(json.dumps(run(options)))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["passed"], document
    (fault,) = document["runs"][0]["faults"]
    assert fault["first_write_ms"] < fault["held_ms"], "writes went on before the links did"
