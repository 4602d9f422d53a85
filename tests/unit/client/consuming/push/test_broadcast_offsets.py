"""The file of a broadcasting member's offsets: kept whole, of one member only, and damage is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from zenitmq.client.consuming.push.broadcast_offsets import BroadcastOffsets, check_instance
from zenitmq.model.errors import InvalidParameter, OffsetFileFailed, OffsetFileInUse, StoreFormatError
from zenitmq.model.queue import MessageQueue

QUEUE = MessageQueue("t", "a", 1)


def file_in(directory: Path, instance: str = "one", servers: tuple[str, ...] = ("127.0.0.1:9876",)) -> BroadcastOffsets:
    return BroadcastOffsets(str(directory), "g", servers, instance)


def test_what_is_saved_is_there_the_next_time(tmp_path: Path) -> None:
    with file_in(tmp_path) as offsets:
        assert not offsets.knows("t")
        assert offsets.offset(QUEUE) is None
        offsets.save({QUEUE: 5})
        offsets.save({MessageQueue("u", "a", 0): 1, QUEUE: 7})
    with file_in(tmp_path) as offsets:
        assert offsets.knows("t")
        assert (offsets.offset(QUEUE), offsets.offset(MessageQueue("u", "a", 0))) == (7, 1)
    for other in (file_in(tmp_path, "two"), file_in(tmp_path, servers=("elsewhere:9876",))):
        with other as offsets:
            assert not offsets.knows("t")
    assert sorted(path.name for path in tmp_path.rglob("*.json")) == ["one.json"]


def test_many_name_servers_have_a_folder_too(tmp_path: Path) -> None:
    servers = tuple(f"name-server-{index}.example.org:9876" for index in range(64))
    with file_in(tmp_path, servers=servers) as offsets:
        offsets.save({QUEUE: 5})


def test_two_members_do_not_share_a_file(tmp_path: Path) -> None:
    with file_in(tmp_path), pytest.raises(OffsetFileInUse), file_in(tmp_path):
        pass
    with file_in(tmp_path):
        pass


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, "[]", "{}", '{"offsets": 1}', '{"offsets": [1]}', '{"offsets": [["t", "a", 0, -1, 0]]}',
     '{"offsets": [["t", "a", "0", 1, 0]]}', '{"offsets": [["t", "a", 0]]}', '{"offsets": [], "cluster_id": 1}'],
)  # fmt: skip
def test_damage_is_told_with_the_remedy(tmp_path: Path, text: str) -> None:
    offsets = file_in(tmp_path)
    Path(offsets.path).parent.mkdir(parents=True)
    Path(offsets.path).write_text(text)
    with pytest.raises(StoreFormatError, match="delete"), offsets:
        pass
    Path(offsets.path).unlink()
    with offsets:
        offsets.save({QUEUE: 5})
    assert json.loads(Path(offsets.path).read_text()) == {"offsets": [["t", "a", 1, 5, 0]], "cluster_id": ""}


def test_a_file_that_cannot_be_written_keeps_what_it_had(tmp_path: Path) -> None:
    with file_in(tmp_path) as offsets:
        offsets.save({QUEUE: 5})
        Path(offsets.path + ".new").mkdir()
        with pytest.raises(OffsetFileFailed):
            offsets.save({QUEUE: 6})
        assert offsets.offset(QUEUE) == 5
    (tmp_path / "file").write_text("")
    with pytest.raises(OffsetFileFailed), BroadcastOffsets(str(tmp_path / "file"), "g", ("a:1",), "one"):
        pass


def test_what_was_kept_of_an_earlier_topic_of_that_name_means_nothing(tmp_path: Path) -> None:
    first, second = replace(QUEUE, incarnation=100), replace(QUEUE, incarnation=400)
    with file_in(tmp_path) as offsets:
        offsets.save({first: 5})
    with file_in(tmp_path) as offsets:
        assert [offsets.offset(queue) for queue in (first, second, QUEUE)] == [5, None, 5]
        offsets.save({second: 1})
        assert offsets.offset(second) == 1


def test_what_was_kept_of_another_cluster_at_the_same_addresses_means_nothing(tmp_path: Path) -> None:
    with file_in(tmp_path) as offsets:
        offsets.save({QUEUE: 4})  # as earlier releases did: of a cluster that nobody named
    with file_in(tmp_path) as offsets:
        assert offsets.mean("one")
        assert offsets.offset(QUEUE) == 4
        offsets.save({QUEUE: 5})
    with file_in(tmp_path) as offsets:
        assert offsets.mean("")  # nobody knows yet
        assert offsets.mean("one")
        assert offsets.offset(QUEUE) == 5
        assert not offsets.mean("two")
        assert not offsets.knows("t")
        assert offsets.mean("two")
        offsets.save({QUEUE: 1})
    with file_in(tmp_path) as offsets:
        assert offsets.mean("two")
        assert offsets.offset(QUEUE) == 1


def test_an_instance_is_a_plain_name() -> None:
    assert check_instance("node-1.a") == "node-1.a"
    for wrong in ("", ".", "..", "a/b", "x" * 65, "\u00e9"):
        with pytest.raises(InvalidParameter):
            check_instance(wrong)
