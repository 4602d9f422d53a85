"""A store is backed up and made anew: what it held is there, byte for byte, and a run goes on where the last one ended."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from backup_kit import CLUSTER, GROUP, back_up, backup_of, bodies_of, confirmed, grow, log_bytes, restored

from zenitmq.broker.group.cluster_file import ClusterFile
from zenitmq.broker.group.epoch_file import read_epochs
from zenitmq.broker.replication.replica_files import ReplicaFiles
from zenitmq.deploy.backup.directory_target import DirectoryTarget
from zenitmq.deploy.backup.restored_store import RestoredStore
from zenitmq.deploy.backup.verify import find_damage, find_lasting_damage, read_manifest_of
from zenitmq.model.errors import (
    BackupConflict,
    BackupDamaged,
    BackupRefused,
    InvalidParameter,
    StoreFormatError,
    StoreNotWriteable,
)
from zenitmq.model.events.telling import kept_by
from zenitmq.store.integrity.scrub_reader import ScrubReader


def test_what_was_backed_up_comes_back(tmp_path: Path) -> None:
    store, target, made = tmp_path / "store", tmp_path / "target", tmp_path / "made"
    target.mkdir()
    bodies = grow(store, 40)
    figures = back_up(store, target)
    document = restored(target, made)
    assert document["end_offset"] == figures.end > 3 * 4096
    assert document["cluster_id"] == CLUSTER
    assert bodies_of(made) == bodies
    assert log_bytes(made, 0, figures.end)[:4096] == log_bytes(store, 0, figures.end)[:4096]
    assert read_epochs(str(made)) == read_epochs(str(store))


def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    store, target = tmp_path / "store", tmp_path / "target"
    target.mkdir()
    grow(store, 15)
    first = back_up(store, target)
    bodies = grow(store, 25, first=15)
    second = back_up(store, target)
    assert second.uploaded_bytes < second.end - first.end + 4096 + 2000
    restored(target, tmp_path / "made")
    assert bodies_of(tmp_path / "made") == bodies
    assert len(list((target / GROUP / "log").iterdir())) == -(-second.end // 4096)
    assert back_up(store, target).uploaded_bytes == 0


class Told:
    """The events of this process."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, event: object) -> None:
        self.names.append(event.kind.name)  # type: ignore[attr-defined]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    target = tmp_path / "target"
    target.mkdir()
    return target


def test_what_retention_deleted_before_it_went_up_is_told(tmp_path: Path, place: Path) -> None:
    store = tmp_path / "store"
    grow(store, 14)
    before = back_up(store, place)
    bodies = grow(store, 40, first=14)
    for base in range(0, 3 * 4096, 4096):
        (store / "commitlog" / f"{base:020d}").unlink()
    told = Told()
    with kept_by(told):
        figures = back_up(store, place)
    assert figures.gaps == [(before.end, 3 * 4096)]
    assert figures.missed_bytes == 3 * 4096 - before.end
    assert told.names == ["backup_gap"]
    document = restored(place, tmp_path / "made")
    found = bodies_of(tmp_path / "made")
    assert (document["begin_offset"], found) == (3 * 4096, bodies[-len(found) :])
    restored(place, tmp_path / "old", stretch=0)
    assert bodies_of(tmp_path / "old") == bodies[:14]


def test_damage_is_not_uploaded_and_told(tmp_path: Path, place: Path) -> None:
    store = tmp_path / "store"
    bodies = grow(store, 40)
    path = store / "commitlog" / f"{4096:020d}"
    whole = path.read_bytes()
    path.write_bytes(whole[:1000] + b"rot" + whole[1003:])
    told = Told()
    with kept_by(told):
        figures = back_up(store, place)
    assert 4096 < figures.end < 4096 + 1000
    assert figures.stopped_at == figures.end
    assert told.names == ["backup_held_by_damage"]
    restored(place, tmp_path / "made")
    found = bodies_of(tmp_path / "made")
    assert found == bodies[: len(found)]
    path.write_bytes(whole)  # a replica has mended it
    assert back_up(store, place).stopped_at is None
    restored(place, tmp_path / "all")
    assert bodies_of(tmp_path / "all") == bodies


def test_a_damaged_segment_is_left_out_if_that_is_wanted(tmp_path: Path, place: Path) -> None:
    store = tmp_path / "store"
    bodies = grow(store, 40)
    path = store / "commitlog" / f"{4096:020d}"
    whole = path.read_bytes()
    path.write_bytes(whole[:1000] + b"rot" + whole[1003:])
    back_up(store, place)
    figures = back_up(store, place, is_past_damage=True)
    assert figures.gaps[0][1] == 2 * 4096
    assert figures.lag_bytes == 0
    restored(place, tmp_path / "made")
    found = bodies_of(tmp_path / "made")
    assert found == bodies[-len(found) :]


def test_another_stores_log_is_refused(tmp_path: Path, place: Path) -> None:
    grow(tmp_path / "store", 14)
    back_up(tmp_path / "store", place)
    grow(tmp_path / "other", 14, size=310)
    with pytest.raises(BackupRefused, match="are not the store's"):
        back_up(tmp_path / "other", place)


def test_a_second_writer_is_refused(tmp_path: Path, place: Path) -> None:
    store = tmp_path / "store"
    grow(store, 14)
    backup = backup_of(store, place)
    backup.run(with_tail=True)
    bodies = grow(store, 14, first=14)
    back_up(store, place)
    more = grow(store, 14, first=28)
    with pytest.raises(BackupConflict, match="another process writes this backup"):
        backup.run(with_tail=True)
    assert backup.run(with_tail=True).lag_bytes == 0  # it has read the manifest again
    restored(place, tmp_path / "made")
    assert bodies_of(tmp_path / "made") == more
    assert more[:28] == bodies


def test_what_a_target_has_lost_is_uploaded_anew(tmp_path: Path, place: Path) -> None:
    store = tmp_path / "store"
    bodies = grow(store, 40)
    back_up(store, place)
    first, second = sorted((place / GROUP / "log").iterdir())[:2]
    first.unlink()
    second.write_bytes(b"rot" + second.read_bytes()[3:])
    manifest = read_manifest_of(DirectoryTarget(str(place)), GROUP)
    damaged = find_damage(DirectoryTarget(str(place)), f"{GROUP}/", manifest)
    assert [each.name for each in damaged] == [f"log/{first.name}", f"log/{second.name}"]
    with pytest.raises(BackupDamaged, match="is missing"):
        restored(place, tmp_path / "broken")
    back_up(store, place, is_mending=True)
    manifest = read_manifest_of(DirectoryTarget(str(place)), GROUP)
    assert not find_damage(DirectoryTarget(str(place)), f"{GROUP}/", manifest)
    restored(place, tmp_path / "made")
    assert bodies_of(tmp_path / "made") == bodies


@pytest.mark.parametrize("content", [None, b"rot"], ids=["lost", "changed"])
def test_the_newest_object_is_uploaded_anew_too(tmp_path: Path, place: Path, content: bytes | None) -> None:
    """It is the one by which a run sees that the store is the same."""
    bodies = grow(tmp_path / "store", 40)
    back_up(tmp_path / "store", place)
    newest = max((place / GROUP / "log").iterdir())
    newest.unlink() if content is None else newest.write_bytes(content + newest.read_bytes()[3:])
    back_up(tmp_path / "store", place, is_mending=True)
    restored(place, tmp_path / "made")
    assert bodies_of(tmp_path / "made") == bodies


def test_a_damaged_state_before_a_gap_does_not_end_every_later_run(tmp_path: Path, place: Path) -> None:
    store = tmp_path / "store"
    grow(store, 14)
    back_up(store, place)
    grow(store, 40, first=14)
    for base in range(0, 3 * 4096, 4096):
        (store / "commitlog" / f"{base:020d}").unlink()
    back_up(store, place)
    target = DirectoryTarget(str(place))
    before, _ = read_manifest_of(target, GROUP).stretches
    (place / GROUP / before.points[0].name).write_bytes(b"rot")
    with pytest.raises(BackupDamaged, match="--mend"):
        back_up(store, place)
    back_up(store, place, is_mending=True)
    assert not find_damage(target, f"{GROUP}/", read_manifest_of(target, GROUP))
    back_up(store, place)
    restored(place, tmp_path / "old", stretch=0)  # its log begins at 0, and needs no state


class GoingOn(DirectoryTarget):
    """The backup goes on as soon as somebody reads a certain object: `then` is done first."""

    def __init__(self, path: str, name: str, then: Callable[[], object]) -> None:
        super().__init__(path)
        self.watched = name
        self.then: Callable[[], object] | None = then
        self.gets = 0

    def get(self, name: str, begin: int, end: int) -> bytes:
        if name.endswith(self.watched):
            self.gets += 1
            if self.gets > 1 and (then := self.then) is not None:
                self.then = None
                then()
        return super().get(name, begin, end)


@pytest.mark.parametrize("more", [1, 30], ids=["a longer tail", "a closed segment"])
def test_a_backup_that_goes_on_during_a_restore_breaks_nothing_off(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """Its newest object is replaced by a longer one while it is read: what was restored of it counts."""
    monkeypatch.setattr("zenitmq.deploy.backup.verify.RANGE_BYTES", 700)
    store = tmp_path / "store"
    bodies = grow(store, 26)
    end = back_up(store, place).end
    assert end % 4096 > 2 * 700
    tail = max(path.name for path in (place / GROUP / "log").iterdir())

    def go_on() -> None:
        grow(store, more, first=26)
        back_up(store, place)

    target = GoingOn(str(place), tail, go_on)
    document = restored(target, tmp_path / "made")
    assert target.then is None
    assert not (place / GROUP / "log" / tail).exists()
    assert (document["end_offset"], bodies_of(tmp_path / "made")) == (end, bodies)


def test_what_a_backup_has_replaced_while_it_was_verified_is_no_damage(tmp_path: Path, place: Path) -> None:
    store = tmp_path / "store"
    grow(store, 22)
    back_up(store, place)
    first, *_, tail = sorted(path.name for path in (place / GROUP / "log").iterdir())

    def go_on() -> None:
        grow(store, 5, first=22)
        back_up(store, place)

    target = GoingOn(str(place), tail, go_on)
    target.gets = 1
    manifest, damaged = find_lasting_damage(target, GROUP)
    assert target.then is None
    assert (damaged, manifest.end) == ([], read_manifest_of(target, GROUP).end)
    (place / GROUP / "log" / first).unlink()
    _, damaged = find_lasting_damage(target, GROUP)
    assert [each.name for each in damaged] == [f"log/{first}"]


def test_a_restore_that_broke_off_starts_no_broker(tmp_path: Path, place: Path) -> None:
    grow(tmp_path / "store", 40)
    back_up(tmp_path / "store", place)
    max((place / GROUP / "log").iterdir()).unlink()
    with pytest.raises(BackupDamaged):
        restored(place, tmp_path / "made")
    with pytest.raises(StoreFormatError, match="broke off; delete it"):
        ReplicaFiles.membership(str(tmp_path / "made"))
    with pytest.raises(InvalidParameter, match="an empty one"):
        restored(place, tmp_path / "made")


def test_a_new_disk_is_empty_with_what_its_file_system_made(tmp_path: Path, place: Path) -> None:
    grow(tmp_path / "store", 40)
    back_up(tmp_path / "store", place)
    (tmp_path / "made" / "lost+found").mkdir(parents=True)
    restored(place, tmp_path / "made")


def test_a_disk_without_room_for_the_log_is_refused_before_a_file_is_written(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(tmp_path / "store", 40)
    back_up(tmp_path / "store", place)
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=3, f_frsize=4096))
    with pytest.raises(InvalidParameter, match="a disk with 16384 bytes free; this one has 12288"):
        restored(place, tmp_path / "far" / "made")
    assert not (tmp_path / "far").exists()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space"), StoreNotWriteable("writes go on by themselves")])
def test_a_disk_that_becomes_full_says_what_to_do(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    grow(tmp_path / "store", 40)
    back_up(tmp_path / "store", place)

    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(RestoredStore, "append", full)
    with pytest.raises(StoreNotWriteable, match=f"disk full: delete {tmp_path / 'made'}, .* restore it"):
        restored(place, tmp_path / "made")


def test_a_replica_comes_back_as_one_of_its_group(tmp_path: Path, place: Path) -> None:
    store = tmp_path / "store"
    grow(store, 14)
    with pytest.raises(BackupRefused, match="it has no backup of a group"):
        restored(place, tmp_path / "none")
    group_id, _ = ReplicaFiles.join(str(store), "", newest_epoch=1)
    confirmed(store)
    back_up(store, place)
    assert restored(place, tmp_path / "made")["group_id"] == group_id
    found = ReplicaFiles.membership(str(tmp_path / "made"))
    assert (found.group_id, found.epoch) == (group_id, 1)
    restored(place, tmp_path / "alone", is_alone=True)
    found = ReplicaFiles.membership(str(tmp_path / "alone"))
    assert (found.is_member, found.left_epoch) == (False, 1)


def test_only_what_is_confirmed_goes_up(tmp_path: Path, place: Path) -> None:
    store = tmp_path / "store"
    grow(store, 30)
    ReplicaFiles.join(str(store), "", newest_epoch=1)
    assert back_up(store, place).end == 0
    end = confirmed(store)
    assert back_up(store, place).end == end


def test_a_backup_of_another_cluster_is_refused_unless_asked(tmp_path: Path, place: Path) -> None:
    grow(tmp_path / "store", 14)
    back_up(tmp_path / "store", place)
    with pytest.raises(BackupRefused, match=f"of the cluster with the id {CLUSTER}, not beef; .*--as-cluster beef"):
        restored(place, tmp_path / "made", cluster_id="beef")
    assert not (tmp_path / "made").exists()
    assert restored(place, tmp_path / "made", as_cluster="beef")["cluster_id"] == "beef"
    assert ClusterFile.open(str(tmp_path / "made")).cluster_id == "beef"


def test_a_store_that_is_none(tmp_path: Path, place: Path) -> None:
    with pytest.raises(StoreFormatError, match="no commit log"):
        back_up(tmp_path, place)


def test_unnamed_objects_go_once_they_are_old(tmp_path: Path, place: Path) -> None:
    grow(tmp_path / "store", 14)
    back_up(tmp_path / "store", place)
    for name in ("log/old", "compacted/old", "state/young"):
        path = place / GROUP / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left")
        if name.endswith("old"):
            os.utime(path, (1, 1))
    assert back_up(tmp_path / "store", place).deleted == 2
    assert (place / GROUP / "state/young").exists()


def test_damage_in_the_open_segment_is_waited_for_even_past_damage(tmp_path: Path, place: Path) -> None:
    """A stretch begins where a segment does, and the next one has not begun."""
    store = tmp_path / "store"
    grow(store, 22)
    end = back_up(store, place).end
    grow(store, 2, first=22)
    path = store / "commitlog" / f"{end - end % 4096:020d}"
    whole = path.read_bytes()
    at = end % 4096 + 100
    path.write_bytes(whole[:at] + b"rot" + whole[at + 3 :])
    figures = back_up(store, place, is_past_damage=True)
    assert (figures.stopped_at, figures.gaps) == (end, [])
    assert len(read_manifest_of(DirectoryTarget(str(place)), GROUP).stretches) == 1


def test_a_segment_that_goes_while_it_is_read(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    bodies = grow(store, 40)
    real = ScrubReader.is_there
    first = store / "commitlog" / f"{0:020d}"

    def is_there(reader: ScrubReader) -> bool:
        first.unlink(missing_ok=True)
        return real(reader)

    monkeypatch.setattr(ScrubReader, "is_there", is_there)
    figures = back_up(store, place)
    assert figures.gaps == [(0, 4096)]
    assert figures.lag_bytes == 0
    restored(place, tmp_path / "made")
    found = bodies_of(tmp_path / "made")
    assert found == bodies[-len(found) :]
