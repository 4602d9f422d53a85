"""What a replica knows of itself outlives every kill, and a damaged file is never guessed at."""

import json
import os
import zlib

import pytest

from zenitmq.broker.replication import replica_files
from zenitmq.broker.replication.replica_files import FILE_NAME, LEFT_GROUPS_MAX, NO_END, ReplicaFiles
from zenitmq.model.errors import InvalidParameter, StoreFormatError
from zenitmq.store.opening import small_file
from zenitmq.store.opening.small_file import SYSTEM_FILES


@pytest.fixture
def directory(tmp_path) -> str:
    return str(tmp_path / "store")


@pytest.fixture
def boot(monkeypatch):
    """The machine: `boot()` restarts it."""
    current = ["boot 1"]
    monkeypatch.setattr(SYSTEM_FILES, "boot_id", lambda: current[0], raising=True)

    def restart() -> None:
        current[0] += "1"

    return restart


def facts(directory: str, log_end: int = 100) -> tuple[bool, bool, int, bool, bool]:
    """Of a new start."""
    start = ReplicaFiles.open(directory).start_facts(log_end)
    assert start.log_end == log_end
    return start.has_clean_marker, start.same_boot, start.marker_end, start.ran_async, start.set_back


def registered(directory: str) -> ReplicaFiles:
    files = ReplicaFiles.open(directory)
    files.note_registered("store-a")
    return files


def test_the_identity_is_made_once_and_the_counter_grows_at_each_start(directory) -> None:
    lives = [ReplicaFiles.open(directory).incarnation for _ in range(3)]
    assert [life.starts for life in lives] == [1, 2, 3]
    assert len({life.store_id for life in lives}) == 1
    assert len(lives[0].store_id) == 32
    assert set(lives[0].store_id) <= set("0123456789abcdef")
    assert ReplicaFiles.open(directory + "2").incarnation.store_id != lives[0].store_id


def test_a_promise_only_grows(directory) -> None:
    files = ReplicaFiles.open(directory)
    assert files.promised == 0
    files.promise(7)
    files.promise(5)
    files.intend(7, 0)
    files.clear_intent()
    assert files.promised == ReplicaFiles.open(directory).promised == 7


def test_an_intent_stays_until_it_is_cleared(directory) -> None:
    files = ReplicaFiles.open(directory)
    assert files.intent is None
    files.intend(3, 0)
    files = ReplicaFiles.open(directory)
    assert files.intent == (3, 0)
    files.clear_intent()
    assert files.intent is None
    assert ReplicaFiles.open(directory).intent is None


def test_a_new_store_has_forgotten_nothing(directory, boot) -> None:
    assert facts(directory) == (False, True, NO_END, False, False)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clean_stop(directory, boot, restarted: bool) -> None:
    registered(directory).mark_clean(100)
    if restarted:
        boot()
    assert facts(directory) == (True, not restarted, 100, False, False)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_kill(directory, boot, restarted: bool) -> None:
    """The marker of the life before vouches for nothing that came after."""
    registered(directory).mark_clean(100)
    registered(directory).note_async()
    if restarted:
        boot()
    assert facts(directory) == (False, not restarted, NO_END, True, False)


def test_lives_that_nobody_heard_of_hide_nothing(directory, boot) -> None:
    """A power loss, then starts that were killed before they had registered: it is told until it was heard."""
    registered(directory).note_async()
    boot()
    for _ in range(3):
        assert facts(directory) == (False, False, NO_END, True, False)
    files = registered(directory)
    files.mark_clean(120)
    assert facts(directory) == (True, True, 120, True, False)
    boot()
    assert facts(directory) == (True, False, 120, True, False)


def test_what_was_counted_and_not_flushed_is_told_until_all_is_flushed(directory) -> None:
    """A life's page cache outlives it under the same boot, and may be lost with the next one."""
    registered(directory).note_async()
    files = registered(directory)
    assert files.ran_async
    files.note_all_flushed()
    files.note_all_flushed()
    assert not files.ran_async
    assert facts(directory) == (False, True, NO_END, False, False)


def test_a_life_that_was_not_registered_marks_nothing_as_clean(directory, boot) -> None:
    registered(directory)
    boot()
    ReplicaFiles.open(directory).mark_clean(100)
    assert facts(directory) == (False, False, NO_END, False, False)


def test_a_log_that_is_half_cut_is_not_clean(directory, boot) -> None:
    files = registered(directory)
    files.intend(2, 50)
    files.mark_clean(100)
    assert facts(directory)[0] is False


def test_a_disk_that_was_set_back(directory, boot) -> None:
    files = ReplicaFiles.open(directory)
    files.start_above(41)
    assert files.incarnation.starts == 42
    assert facts(directory)[4] is True
    files = registered(directory)
    assert files.incarnation.starts == 44
    assert facts(directory)[4] is False


def test_registering_is_noted_once(directory, boot) -> None:
    files = registered(directory)
    files.note_async()
    files.note_registered("store-a")
    assert facts(directory)[3] is True


def test_the_group_that_let_it_in_first_is_its_own_for_ever(directory) -> None:
    assert ReplicaFiles.open(directory).group_id == ""
    assert registered(directory).group_id == "store-a"
    later = ReplicaFiles.open(directory)
    later.note_registered("another")
    assert (later.group_id, ReplicaFiles.open(directory).group_id) == ("store-a", "store-a")


@pytest.mark.parametrize("step", ["write", "fsync", "replace", "directory"])
def test_killed_at_each_step_it_is_the_old_or_the_new(directory, monkeypatch, step: str) -> None:
    files = ReplicaFiles.open(directory)
    files.promise(3)

    def dies(*_args):
        raise OSError(5, "killed here")

    with monkeypatch.context() as patched:
        if step == "write":
            patched.setattr(replica_files, "_encode", lambda facts: "{half")
            patched.setattr(os, "fsync", dies)
        elif step == "fsync":
            patched.setattr(os, "fsync", dies)
        elif step == "replace":
            patched.setattr(os, "replace", dies)
        else:
            patched.setattr(small_file, "sync_directory", dies)
        with pytest.raises(OSError, match="killed here"):
            files.promise(9)
        assert files.promised == 3  # what is not known to be durable was not promised
    assert ReplicaFiles.open(directory).promised == (9 if step == "directory" else 3)
    assert ReplicaFiles.open(directory).incarnation.starts == 3


def test_every_flipped_bit_is_told(directory) -> None:
    ReplicaFiles.open(directory).intend(5, 1234)
    path = os.path.join(directory, FILE_NAME)
    with open(path, "rb") as file:
        whole = file.read()
    for at in range(len(whole)):
        for bit in (1, 0x20, 0x80):
            changed = bytearray(whole)
            changed[at] ^= bit
            with open(path, "wb") as file:
                file.write(changed)
            with pytest.raises(StoreFormatError) as refused:
                ReplicaFiles.open(directory)
            assert refused.value.path == path
    for cut in range(len(whole)):
        with open(path, "wb") as file:
            file.write(whole[:cut])
        with pytest.raises(StoreFormatError, match="start with an empty one"):
            ReplicaFiles.open(directory)


def test_a_later_version_is_refused(directory, monkeypatch) -> None:
    monkeypatch.setattr(replica_files, "VERSION", 2)
    files = ReplicaFiles.open(directory)
    files._write(files._facts.__class__(version=2, store_id="x"))
    monkeypatch.setattr(replica_files, "VERSION", 1)
    with pytest.raises(StoreFormatError, match="version 2"):
        ReplicaFiles.open(directory)


def test_a_disk_that_failed_is_no_kill(directory, boot) -> None:
    """The kernel runs on, but what it could not write it may have dropped: the next life does not vouch for it."""
    files = registered(directory)
    files.note_disk_failed()
    assert not ReplicaFiles.open(directory).start_facts(100).same_boot


@pytest.mark.parametrize(
    "document",
    [
        [],
        None,
        {"version": 1},
        {"version": 1, "store_id": ""},
        {"version": 1, "store_id": 5},
        {"version": 1, "store_id": "5f0c", "unheard": 1},
        {"version": 1, "store_id": "5f0c", "starts": "3"},
        {"version": 1, "store_id": "5f0c", "starts": True},
        {"version": 1, "store_id": "5f0c", "starts": -1},
        {"version": 1, "store_id": "5f0c", "promised": 1 << 70},
        {"version": 1, "store_id": "5f0c", "left_groups": "5f0c"},
        {"version": 1, "store_id": "5f0c", "left_groups": [5]},
        {"version": 1, "store_id": "5f0c", "left_groups": ["5f0c"] * (LEFT_GROUPS_MAX + 1)},
        {"version": 1, "store_id": "5f0c", "clean_end": -2},
    ],
)
def test_what_no_release_wrote_is_refused_though_its_checksum_is_right(directory, document) -> None:
    write_text(directory, json.dumps(document))
    with pytest.raises(StoreFormatError, match=FILE_NAME):
        ReplicaFiles.open(directory)


@pytest.mark.parametrize("text", ["", "{", "[" * 2000])
def test_what_is_no_json_is_refused_though_its_checksum_is_right(directory, text: str) -> None:
    write_text(directory, text)
    with pytest.raises(StoreFormatError, match=FILE_NAME):
        ReplicaFiles.open(directory)


def test_an_older_releases_name_for_the_groups_id_is_read(directory) -> None:
    write_text(directory, '{"version": 1, "store_id": "s", "starts": 4, "promised": 9, "origin": "5f0c"}')
    files = ReplicaFiles.open(directory)
    assert (files.group_id, files.promised, files.incarnation.starts) == ("5f0c", 9, 5)
    assert ReplicaFiles.open(directory).group_id == "5f0c", "written anew by its name of now"


@pytest.mark.parametrize(("left", "is_refused"), [("5f0c", True), ("", False)])
def test_the_one_group_that_an_older_release_knew_to_be_left_is_read(directory, left: str, is_refused: bool) -> None:
    write_text(directory, f'{{"version": 1, "store_id": "s", "left_group": "{left}", "left_epoch": 4}}')
    ReplicaFiles.open(directory)
    assert ReplicaFiles.membership(directory).left_epoch == 4
    if is_refused:
        with pytest.raises(InvalidParameter, match="has left"):
            ReplicaFiles.join(directory, "5f0c", newest_epoch=4)
    else:
        assert ReplicaFiles.join(directory, "5f0c", newest_epoch=4) == ("5f0c", 4)


def test_what_an_older_release_did_not_write_takes_its_default(directory) -> None:
    write_text(directory, '{"version": 1, "store_id": "5f0c", "starts": 3}')
    files = ReplicaFiles.open(directory)
    assert (files.incarnation.starts, files.promised, files.intent, files.group_id) == (4, 0, None, "")


def write_text(directory, text: str) -> None:
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, FILE_NAME), "w", encoding="ascii") as file:
        file.write(f"{text}\n{zlib.crc32(text.encode()):08x}\n")
