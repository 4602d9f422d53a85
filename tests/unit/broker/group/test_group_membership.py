"""Which group a store is of: an operator's word changes it, and a replica's broker does nothing alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.group.epoch_file import begin_epoch, read_epochs
from zenitmq.broker.group.group_membership import check_membership, join_group, leave_group
from zenitmq.broker.replication.beginning import FILE_NAME as BEGINNING
from zenitmq.broker.replication.replica_files import LEFT_GROUPS_MAX, ReplicaFiles
from zenitmq.model.errors import InvalidParameter, StoreFormatError, StoreInGroup, StoreLocked
from zenitmq.model.queue import PhysicalOffset
from zenitmq.store.opening.store_files import StoreLock

ONE, OTHER = "1" * 32, "2" * 32


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A broker was alone here for two lives."""
    (tmp_path / "commitlog").mkdir()
    begin_epoch(str(tmp_path), PhysicalOffset(0), PhysicalOffset(0))
    begin_epoch(str(tmp_path), PhysicalOffset(0), PhysicalOffset(500))
    return str(tmp_path)


def test_a_log_joins_the_group_that_is_named_with_all_its_epochs(store: str) -> None:
    assert join_group(store, ONE) == {"group_id": ONE, "epoch": 2}
    files = ReplicaFiles.open(store)
    assert (files.group_id, files.promised, files.incarnation.starts) == (ONE, 2, 1)


def test_without_a_name_the_group_is_called_after_the_store(store: str) -> None:
    joined = join_group(store, "")["group_id"]
    assert ReplicaFiles.open(store).incarnation.store_id == joined
    assert join_group(store, "") == {"group_id": joined, "epoch": 2}, "twice is once"


def test_what_a_static_master_had_promised_stays(store: str) -> None:
    files = ReplicaFiles.open(store)
    files.promise(9)
    assert join_group(store, ONE) == {"group_id": ONE, "epoch": 9}
    assert ReplicaFiles.open(store).incarnation.store_id == files.incarnation.store_id


def test_a_store_of_another_group_an_open_one_and_none_are_refused(store: str, tmp_path: Path) -> None:
    join_group(store, ONE)
    with pytest.raises(InvalidParameter, match=ONE):
        join_group(store, OTHER)
    with pytest.raises(InvalidParameter):
        join_group(store, "None")
    with StoreLock(store), pytest.raises(StoreLocked):
        join_group(store, ONE)
    with pytest.raises(StoreFormatError, match="no commit log"):
        join_group(str(tmp_path / "elsewhere"), ONE)


CONTROLLERS = ("127.0.0.1:9878",)


def replica(store: str, group_id: str = ONE, epoch: int = 5) -> ReplicaFiles:
    """The store is in a group, and has promised that epoch."""
    files = ReplicaFiles.open(store)
    files.note_registered(group_id)
    files.promise(epoch)
    files.mark_clean(500)
    return files


def test_a_replica_of_a_group_does_not_start_alone(store: str) -> None:
    replica(store)
    for static_master in ("", "127.0.0.1:10911"):
        with pytest.raises(StoreInGroup, match=f"{ONE}, in epoch 5: .*controllers.*zenit store leave {store}"):
            check_membership(BrokerConfig(store_dir=store, static_master=static_master))
    assert check_membership(BrokerConfig(store_dir=store, controllers=CONTROLLERS)) == 0


def test_a_static_group_s_replica_keeps_its_static_master(store: str) -> None:
    replica(store, "")
    assert check_membership(BrokerConfig(store_dir=store, static_master="127.0.0.1:10911")) == 0
    with pytest.raises(StoreInGroup, match=r"static master, in epoch 5: .*`static_master`"):
        check_membership(BrokerConfig(store_dir=store))


def test_a_replica_that_was_let_in_and_never_led_is_one(store: str) -> None:
    replica(store, ONE, 0)
    with pytest.raises(StoreInGroup):
        check_membership(BrokerConfig(store_dir=store))


def test_who_has_left_its_group_is_another_store_above_all_epochs_of_it(store: str, tmp_path: Path) -> None:
    files = replica(store)
    (tmp_path / "followed.zenit").write_text("{}")
    assert leave_group(store) == {"group_id": ONE, "epoch": 5}
    above = check_membership(BrokerConfig(store_dir=store))
    begin_epoch(store, PhysicalOffset(0), PhysicalOffset(900), above=above)
    assert [row.number for row in read_epochs(store)] == [1, 2, 6]
    assert not (tmp_path / "followed.zenit").exists()
    after = ReplicaFiles.open(store)
    assert after.incarnation.store_id != files.incarnation.store_id
    assert (after.group_id, after.promised, after.start_facts(500).has_clean_marker) == ("", 0, False)


def test_who_has_left_a_group_is_not_in_it_again_by_a_command(store: str) -> None:
    replica(store)
    leave_group(store)
    with pytest.raises(InvalidParameter, match="has left"):
        join_group(store, ONE)
    assert join_group(store, OTHER)["group_id"] == OTHER


def test_no_group_that_was_ever_left_is_joined_again(store: str) -> None:
    for group_id in (ONE, OTHER):
        join_group(store, group_id)
        leave_group(store)
    ReplicaFiles.open(store).promise(9)
    leave_group(store)  # a static master's, which has no id
    for group_id in (ONE, OTHER):
        with pytest.raises(InvalidParameter, match="has left"):
            join_group(store, group_id)
    assert join_group(store, "3" * 32)["group_id"] == "3" * 32


def test_a_store_that_has_left_as_many_groups_as_it_can_tell_leaves_no_other(store: str) -> None:
    names = [f"{number:032x}" for number in range(LEFT_GROUPS_MAX + 1)]
    for name in names[:-1]:
        join_group(store, name)
        leave_group(store)
    join_group(store, names[-1])
    with pytest.raises(StoreFormatError, match="may forget none"):
        leave_group(store)
    assert ReplicaFiles.membership(store).group_id == names[-1]


def test_leaving_changes_nothing_where_there_is_no_group(store: str) -> None:
    assert leave_group(store) == {"group_id": "", "epoch": 0}
    assert check_membership(BrokerConfig(store_dir=store)) == 0
    before = ReplicaFiles.open(store).incarnation.store_id
    leave_group(store)
    assert ReplicaFiles.open(store).incarnation.store_id == before


def test_a_store_that_is_half_cut_or_open_or_about_to_begin_anew_stays_in_its_group(store: str, tmp_path: Path) -> None:
    files = replica(store)
    files.intend(5, 100)
    with pytest.raises(StoreFormatError, match="half cut"):
        leave_group(store)
    files.clear_intent()
    (tmp_path / BEGINNING).touch()
    with pytest.raises(StoreFormatError, match="begin anew"):
        leave_group(store)
    (tmp_path / BEGINNING).unlink()
    with StoreLock(store), pytest.raises(StoreLocked):
        leave_group(store)
    assert leave_group(store)["group_id"] == ONE
