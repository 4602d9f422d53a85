"""What is known of a store's damage is kept twice; where both copies are damaged nothing of it is forgotten silently."""

from __future__ import annotations

import errno
import logging
import shutil
from pathlib import Path

import pytest
from store_kit import make_store, message, put, read_queue

from zenitmq.model.errors import StoreFormatError

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
