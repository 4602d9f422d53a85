"""A stopped replica's store becomes one more replica: all its bytes and notes, another identity, and nothing that is half."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.group.epoch_file import begin_epoch
from zenitmq.broker.group.group_membership import check_membership, join_group
from zenitmq.broker.repair import replica_copy
from zenitmq.broker.repair.replica_copy import copy_replica
from zenitmq.broker.replication.beginning import FILE_NAME as BEGINNING
from zenitmq.broker.replication.replica_files import FILE_NAME, NO_END, ReplicaFiles
from zenitmq.model.errors import InvalidParameter, StoreFormatError, StoreLocked
from zenitmq.model.queue import PhysicalOffset
from zenitmq.store.opening.store_files import StoreLock, write_abort

GROUP = "1" * 32
BYTES = {
    "commitlog/00000000000000000000": b"log" * 1000,
    "checksum/00000000000000000000": b"sums",
    "config/zenitStore.json": b'{"quarantined": [[5, 9]]}',
    "consumequeue/t/0/00000000000000000000": b"units",
    "checkpoint": b"confirmed",
}


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A replica's, in its third epoch, that stopped cleanly under `async`."""
    source = tmp_path / "source"
    for name, content in BYTES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    begin_epoch(str(source), PhysicalOffset(0), PhysicalOffset(0))
    join_group(str(source), GROUP)
    files = ReplicaFiles.open(str(source))
    files.promise(3)
    files.note_registered(GROUP)
    files.note_async()
    files.mark_clean(3000)
    return str(source)


def contents(directory: str) -> dict[str, bytes]:
    """Of all files."""
    root = Path(directory)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_copy_has_every_byte_and_a_name_of_its_own(store: str, tmp_path: Path) -> None:
    target = str(tmp_path / "on" / "target")
    told = copy_replica(store, target)
    given, taken = contents(store), contents(target)
    own = {FILE_NAME, "lock"}
    assert {name: content for name, content in given.items() if name not in own} == {
        name: content for name, content in taken.items() if name not in own
    }
    assert BYTES.items() <= taken.items()
    sizes = sum(len(content) for name, content in taken.items() if name not in own)
    assert told == {"group_id": GROUP, "epoch": 3, "bytes": sizes}
    one, other = ReplicaFiles.open(store), ReplicaFiles.open(target)
    assert one.incarnation.store_id != other.incarnation.store_id
    assert (other.incarnation.starts, other.promised, other.group_id) == (1, 3, GROUP)
    facts = other.start_facts(3000)
    assert (facts.has_clean_marker, facts.marker_end, facts.ran_async) == (False, NO_END, False)


def test_what_is_each_directorys_own_is_not_copied(store: str, tmp_path: Path) -> None:
    for name in ("spare/1", "sparequeue/1", "spareindex/1", "config/zenitScrub.json"):
        (Path(store) / name).parent.mkdir(exist_ok=True)
        (Path(store) / name).write_bytes(b"x")
    target = tmp_path / "target"
    target.mkdir()
    copy_replica(store, str(target))
    assert set(contents(str(target))) == {*BYTES, "epochFileCheckpoint", FILE_NAME}


@pytest.mark.parametrize("copied", range(len(BYTES) + 1))
def test_a_copy_that_breaks_off_is_started_by_nobody_and_not_gone_on_with(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: int
) -> None:
    """After each file: whatever lies there, a broker refuses it by name."""
    target, copies, left = str(tmp_path / "target"), replica_copy._copy_file, iter(range(copied))

    def copy_file(one: str, other: str) -> int:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return copies(one, other)

    monkeypatch.setattr(replica_copy, "_copy_file", copy_file)
    with pytest.raises(OSError, match="No space"):
        copy_replica(store, target)
    for config in (BrokerConfig(store_dir=target), BrokerConfig(store_dir=target, controllers=("127.0.0.1:1",))):
        with pytest.raises(StoreFormatError, match="a copy that broke off; delete it"):
            check_membership(config)
    with pytest.raises(InvalidParameter, match="empty directory"):
        copy_replica(store, target)


def test_only_a_replicas_store_that_is_at_rest_is_copied(store: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    with StoreLock(store), pytest.raises(StoreLocked):
        copy_replica(store, target)
    (Path(store) / BEGINNING).write_bytes(b"note")
    with pytest.raises(StoreFormatError, match="begin anew"):
        copy_replica(store, target)
    (Path(store) / BEGINNING).unlink()
    write_abort(store)
    with pytest.raises(StoreFormatError, match="not stopped cleanly"):
        copy_replica(store, target)
    (Path(store) / "abort").unlink()
    ReplicaFiles.open(store).intend(3, 100)
    with pytest.raises(StoreFormatError, match="half cut"):
        copy_replica(store, target)
    assert not os.path.exists(os.path.join(target, FILE_NAME))


def test_a_store_of_no_group_a_static_masters_and_none_are_refused(store: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    with pytest.raises(StoreFormatError, match="no commit log"):
        copy_replica(str(tmp_path / "elsewhere"), target)
    os.unlink(os.path.join(store, FILE_NAME))
    with pytest.raises(StoreFormatError, match="no replica's"):
        copy_replica(store, target)
    ReplicaFiles.open(store).promise(4)
    with pytest.raises(StoreFormatError, match="static master's own"):
        copy_replica(store, target)
    (Path(store) / "followed.zenit").write_bytes(b"whose")
    assert copy_replica(store, target)["group_id"] == ""
    assert contents(target)["followed.zenit"] == b"whose"


def test_nothing_is_copied_over_what_is_there_or_into_the_store_itself(store: str, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "a").write_bytes(b"mine")
    for target in (str(taken), str(taken / "a"), store):
        with pytest.raises(InvalidParameter, match="empty directory"):
            copy_replica(store, target)
    with pytest.raises(InvalidParameter, match="outside"):
        copy_replica(store, os.path.join(store, "below"))
    assert contents(str(taken)) == {"a": b"mine"}
