"""News that a full disk keeps from being noted are taken once there is room: the newest of them, once."""

from __future__ import annotations

from typing import Any

import pytest
from link_kit import ManualLoop
from sim.group_kit import group

from zenitmq.broker.group.held_news import HeldNews
from zenitmq.model.errors import StoreNotWriteable
from zenitmq.model.groups.group import KnownGroup
from zenitmq.store.opening.small_file import NO_ROOM_RETRY_MS


class Story:
    def __init__(self) -> None:
        self.loop: Any = ManualLoop()
        self.taken: list[int] = []
        self.is_full = False
        self.news = HeldNews(self.loop, self.take)

    def take(self, known: KnownGroup) -> None:
        if self.is_full:
            raise StoreNotWriteable("disk full")
        self.taken.append(known.version)

    def hear(self, version: int) -> None:
        self.news.on_group(KnownGroup(group(), version))


def test_news_are_handed_on_at_once() -> None:
    story = Story()
    story.hear(3)
    story.hear(4)
    assert story.taken == [3, 4]


@pytest.mark.parametrize("rounds", [1, 5])
def test_while_the_disk_is_full_the_newest_waits(rounds: int) -> None:
    story = Story()
    story.is_full = True
    for version in range(3, 6):
        story.hear(version)
    story.loop.pass_ms(rounds * NO_ROOM_RETRY_MS)
    assert story.taken == []
    story.is_full = False
    story.loop.pass_ms(NO_ROOM_RETRY_MS)
    assert story.taken == [5]
    story.hear(6)
    story.loop.pass_ms(10 * NO_ROOM_RETRY_MS)
    assert story.taken == [5, 6]
