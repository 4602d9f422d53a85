"""What is known of a store's damage is kept twice; where both copies are damaged nothing of it is forgotten silently."""

from __future__ import annotations

import errno
import logging
import shutil
from pathlib import Path

import pytest
from store_kit import kill, make_store, message, put, read_queue

from zenitmq.model.errors import StoreFormatError
from zenitmq.store.opening.snapshot import read_snapshot, write_snapshot

LARGE = {"segment_bytes": 65536}


def rotten_store(directory: Path) -> tuple[int, int]:
    with make_store(directory, **LARGE) as store:
        places = [put(store, "t", 0, message("t", b"%05d" % number, tags="paid")) for number in range(20)]
        store.flush_all(20_000)
        bad = (int(places[9].physical_offset), int(places[9].end))
        log = directory / "commitlog" / f"{0:020d}"
        data = bytearray(log.read_bytes())
        at = data.index(b"paid", bad[0])
        data[at : at + 4] = b"oaid"
        log.write_bytes(data)
        store.damage.add(*bad, "in a test")
    return bad


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"firstOpenedMs") + 17] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["zenitStore.json", "zenitStore.json.bak"])
def test_one_damaged_copy_costs_nothing(tmp_path: Path, name: str) -> None:
    bad = rotten_store(tmp_path)
    flip(tmp_path / "config" / name)
    with make_store(tmp_path, **LARGE) as store:
        assert (store.damage.quarantine.ranges, store.damage.quarantine.rotten) == ((bad,), (bad,))


def test_where_both_are_damaged_the_log_is_read_anew_and_counts_up_to_the_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = rotten_store(tmp_path)
    for name in ("zenitStore.json", "zenitStore.json.bak"):
        flip(tmp_path / "config" / name)
    with caplog.at_level(logging.ERROR), make_store(tmp_path, **LARGE) as store:
        assert store.damage.quarantine.ranges == (bad,)
        assert store.damage.quarantine.first_hole == bad[0]
        assert {found.tags for found in read_queue(store, "t", 0)} == {"paid"}
    assert "zenitStore.json is damaged" in caplog.text
    with make_store(tmp_path, **LARGE) as store:
        assert store.damage.quarantine.first_hole == bad[0], "it is written down again"


def of_two_topics(directory: Path) -> None:
    with make_store(directory, **LARGE) as store:
        for topic in ("a", "b"):
            put(store, topic, 0, message(topic, b"first"))


def test_queues_that_are_gone_since_a_clean_stop_are_missed(tmp_path: Path) -> None:
    of_two_topics(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue" / "a")
    with pytest.raises(StoreFormatError, match="1 of 2 queues are gone"), make_store(tmp_path, **LARGE):
        pass
    shutil.rmtree(tmp_path / "consumequeue")
    with make_store(tmp_path, **LARGE) as store:
        assert [read_queue(store, topic, 0)[0].body for topic in ("a", "b")] == [b"first", b"first"]


def test_a_queue_without_files_is_missed_like_one_without_a_folder(tmp_path: Path) -> None:
    of_two_topics(tmp_path)
    (tmp_path / "consumequeue" / "a" / "0" / f"{0:020d}").unlink()
    with pytest.raises(StoreFormatError, match="1 of 2 queues are gone"), make_store(tmp_path, **LARGE):
        pass


def test_queues_of_deleted_topics_are_not_missed(tmp_path: Path) -> None:
    of_two_topics(tmp_path)
    with make_store(tmp_path, **LARGE) as store:
        store.delete_topic("a", 1)
    with make_store(tmp_path, **LARGE) as store:
        assert read_queue(store, "b", 0)[0].body == b"first"


def test_a_stop_on_a_full_disk_is_clean_without_the_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patched:
        patched.setattr("zenitmq.store.upkeep.note_facts", full)
        of_two_topics(tmp_path)
    assert not (tmp_path / "abort").exists()
    with make_store(tmp_path, **LARGE) as store:
        assert read_queue(store, "a", 0)[0].body == b"first"


def of_three_files(directory: Path) -> list[Path]:
    """A store with one queue of 40 messages; its files, oldest first."""
    with make_store(directory, **LARGE) as store:
        for number in range(40):
            put(store, "a", 0, message("a", b"%d" % number))
    return sorted((directory / "consumequeue" / "a" / "0").iterdir())


@pytest.mark.parametrize("index", [0, -1], ids=["first", "last"])
def test_a_file_of_a_queue_that_is_gone_since_a_clean_stop_is_missed(tmp_path: Path, index: int) -> None:
    """Without its last one the queue would go on at an offset that another message has had."""
    of_three_files(tmp_path)[index].unlink()
    with pytest.raises(StoreFormatError, match="1 of 3 files of queues are gone"), make_store(tmp_path, **LARGE):
        pass
    shutil.rmtree(tmp_path / "consumequeue")
    with make_store(tmp_path, **LARGE) as store:
        assert [one.body for one in read_queue(store, "a", 0)] == [b"%d" % number for number in range(40)]


def test_a_last_file_that_is_empty_is_missed_too(tmp_path: Path) -> None:
    of_three_files(tmp_path)[-1].write_bytes(b"")
    with pytest.raises(StoreFormatError, match="1 of 3 files of queues are gone"), make_store(tmp_path, **LARGE):
        pass


def test_a_note_of_an_older_release_does_not_count_files(tmp_path: Path) -> None:
    last = of_three_files(tmp_path)[-1]
    facts = tmp_path / "config" / "zenitStore.json"
    document = read_snapshot(str(facts)).document
    del document["queuesAtStop"]["files"]
    write_snapshot(str(facts), document, 0)
    last.unlink()
    with make_store(tmp_path, **LARGE) as store:
        assert store.max_offset("a", 0) == 32


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["gone", "empty"])
def test_a_log_whose_newest_file_is_gone_is_not_gone_on_with(tmp_path: Path, is_clean: bool, lose) -> None:
    """It would give other messages the offsets of those that were in it."""
    store_directory = tmp_path / "store"
    with make_store(store_directory) as store:
        for number in range(60):
            put(store, "a", 0, message("a", b"%d" % number * 40))
        before = kill(store_directory, tmp_path / "killed")
    directory = store_directory if is_clean else before
    if not is_clean:  # it had been flushed, as its checkpoint says
        shutil.copy(store_directory / "checkpoint", before / "checkpoint")
    lose(max((directory / "commitlog").iterdir()))
    with pytest.raises(StoreFormatError, match="its newest files are gone"), make_store(directory):
        pass
