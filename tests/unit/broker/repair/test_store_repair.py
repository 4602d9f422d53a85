"""Which store counts as a copy: a replica of the same group and cluster, at rest; and only what the same epoch wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer
from store_kit import kill, make_store, message, put

from zenitmq.broker.group.cluster_file import ClusterFile
from zenitmq.broker.group.epoch_file import write_epochs
from zenitmq.broker.group.group_membership import join_group
from zenitmq.broker.repair.store_repair import repair_store
from zenitmq.broker.replication.epochs import EpochList
from zenitmq.cli.commands.store import repair
from zenitmq.model.errors import InvalidParameter, StoreFormatError, StoreLocked

SEGMENT_BYTES = 1 << 16
G, H = "a" * 32, "b" * 32


def report(_done: int, _total: int) -> None:
    """Nobody watches."""


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    """(a store with a damaged message, a replica's): of cluster "one", group G, epochs 1 and 2."""
    for name in ("s", "other"):
        directory = tmp_path / name
        with make_store(directory, segment_bytes=SEGMENT_BYTES) as store:
            placed = [put(store, "t", 0, message("t", b"x" * 1000)) for _ in range(9)]
        write_epochs(str(directory), EpochList.of([(1, 0), (2, placed[6].physical_offset)]).rows)
        ClusterFile.replace(str(directory), "one")
        join_group(str(directory), G)
    path = tmp_path / "s" / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[placed[4].physical_offset + 300] ^= 1
    path.write_bytes(data)
    return str(tmp_path / "s"), str(tmp_path / "other")


def test_damage_is_repaired_and_told(two: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    directory, other = two
    with pytest.raises(typer.Exit):
        repair(directory, None, dry_run=False, as_json=True)
    told = capsys.readouterr()
    (left,) = json.loads(told.out)["left"]
    assert left["reason"] == "no replica's store was given"
    assert "1 damaged range left in" in told.err
    repair(directory, other, dry_run=True, as_json=False)
    assert "1 damaged range would be repaired" in capsys.readouterr().out
    repair(directory, other, dry_run=False, as_json=True)
    (found,) = json.loads(capsys.readouterr().out)["repaired"]
    assert found == {"begin": left["begin"], "end": left["end"], "by": "replica"}
    repair(directory, None, dry_run=False, as_json=False)
    assert capsys.readouterr().out == "nothing is damaged\n"


def test_another_clusters_or_groups_store_is_refused_by_name(two: tuple[str, str]) -> None:
    directory, other = two
    join_other = shutil.copytree(other, Path(other).parent / "joined")
    (join_other / "replica.zenit").unlink()
    join_group(str(join_other), H)
    with pytest.raises(InvalidParameter, match=f"a store of group {G}; this one is of group {H}"):
        repair_store(directory, str(join_other), report=report)
    (join_other / "replica.zenit").unlink()
    with pytest.raises(InvalidParameter, match="this one is of group none"):
        repair_store(directory, str(join_other), report=report)
    ClusterFile.replace(other, "two")
    with pytest.raises(InvalidParameter, match="a store of cluster one; this one is of cluster two"):
        repair_store(directory, other, report=report)


def test_bytes_of_another_epoch_do_not_count(two: tuple[str, str]) -> None:
    directory, other = two
    write_epochs(other, EpochList.of([(1, 0), (3, 2000)]).rows)
    (left,) = repair_store(directory, other, report=report)["left"]
    assert left["reason"] == "written in epoch 1 here, 3 there"


def test_a_store_that_is_open_or_was_not_closed_is_refused(two: tuple[str, str], tmp_path: Path) -> None:
    directory, other = two
    for name, copy in ((str(tmp_path), other), (directory, str(tmp_path))):
        with pytest.raises(StoreFormatError, match="no commit log"):
            repair_store(name, copy, report=report)
    with pytest.raises(InvalidParameter, match="another store than the damaged one"):
        repair_store(directory, f"{directory}/.", report=report)
    with make_store(other, segment_bytes=SEGMENT_BYTES):
        for one, two_ in ((other, directory), (directory, other)):
            with pytest.raises(StoreLocked):
                repair_store(one, two_, report=report)
        killed = str(kill(Path(other), tmp_path / "killed"))
    with pytest.raises(StoreFormatError, match="not stopped cleanly"):
        repair_store(killed, directory, report=report)
    assert repair_store(directory, killed, report=report)["left"] == [], "what is whole in it is proof enough"


def test_files_of_another_size_are_refused(two: tuple[str, str], tmp_path: Path) -> None:
    with make_store(tmp_path / "larger", segment_bytes=2 * SEGMENT_BYTES) as store:
        put(store, "t", 0, message("t", b"x"))
    for name in ("replica.zenit", "cluster.zenit"):
        shutil.copy(Path(two[1]) / name, tmp_path / "larger" / name)
    with pytest.raises(InvalidParameter, match="a log in files of 65536 bytes; this one has 131072"):
        repair_store(two[0], str(tmp_path / "larger"), report=report)
