"""Which master's log a slave of a static group copies, and goes on copying after a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sim.group_kit import group

from zenitmq.broker.group.followed_store import FILE_NAME, FollowedStore
from zenitmq.model.errors import StoreFormatError
from zenitmq.model.groups.group import Incarnation, KnownGroup


class Slave:
    """One life of a slave."""

    def __init__(self, directory: Path, *, is_empty: bool = True) -> None:
        self.heard: list[KnownGroup] = []
        self._followed = FollowedStore(str(directory), is_empty=is_empty, on_group=self.heard.append)

    def follows(self, store_id: str, starts: int) -> bool:
        """Whether news of a master with this store are handed on."""
        before = len(self.heard)
        node = replace(group(), master_incarnation=Incarnation(store_id, starts))
        self._followed.on_group(KnownGroup(node, before))
        return len(self.heard) > before


def test_an_empty_store_follows_the_first_and_no_other(tmp_path: Path) -> None:
    slave = Slave(tmp_path)
    assert slave.follows("m", 3)
    assert not slave.follows("other", 4)
    assert slave.follows("m", 3)
    assert slave.follows("m", 5)


def test_it_is_remembered_over_restarts_whatever_the_log_has(tmp_path: Path) -> None:
    Slave(tmp_path).follows("m", 3)
    again = Slave(tmp_path, is_empty=False)
    assert not again.follows("other", 9)
    assert again.follows("m", 4)
    assert not Slave(tmp_path, is_empty=False).follows("m", 3), "a disk that was set back"


def test_it_is_written_before_the_group_is_handed_on(tmp_path: Path) -> None:
    seen: list[bool] = []
    followed = FollowedStore(
        str(tmp_path), is_empty=True, on_group=lambda _: seen.append((tmp_path / FILE_NAME).exists())
    )
    followed.on_group(KnownGroup(group(), 1))
    assert seen == [True]


def test_a_log_of_unknown_history_follows_nobody(tmp_path: Path) -> None:
    slave = Slave(tmp_path, is_empty=False)
    assert not slave.follows("m", 1)
    assert not (tmp_path / FILE_NAME).exists()


def test_a_group_without_a_master_is_no_news(tmp_path: Path) -> None:
    heard: list[KnownGroup] = []
    followed = FollowedStore(str(tmp_path), is_empty=True, on_group=heard.append)
    followed.on_group(KnownGroup(group(master=None), 1))
    assert heard == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"store_id": "m"}', '{"store_id": "m", "starts": 0}', "\xff"])
def test_a_damaged_file_is_not_guessed_at(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text, encoding="latin-1")
    with pytest.raises(StoreFormatError):
        Slave(tmp_path)
