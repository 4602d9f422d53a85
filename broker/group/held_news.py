"""News of a group that ask for a note on the disk first: while it is full the newest of them wait, and are taken later.

A member is told of a node once what follows from it is written down (how it counts, that its life is registered, which
cluster it is of). Where there is no room for that, it goes on as it was: suspicion falls on it as on any other replica
without room, and what it does not know yet it does not act on. Loop thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from ...model.errors import StoreNotWriteable
from ...model.groups.group import KnownGroup
from ...remoting.timers import Timer
from ...store.opening.small_file import NO_ROOM_RETRY_MS

log = logging.getLogger(__name__)


class NewsLoop(Protocol):
    """The request loop, as far as held news use it."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Once."""


class HeldNews:
    """`on_group` hands on to `take`, now or as soon as there is room; what is newer takes the place of what waits."""

    def __init__(self, loop: NewsLoop, take: Callable[[KnownGroup], None]) -> None:
        """`take`: raises StoreNotWriteable where there is no room; then it is called again, and nothing has come of it."""
        self._loop = loop
        self._take = take
        self._held: KnownGroup | None = None

    def on_group(self, known: KnownGroup) -> None:
        """News, newer than those before."""
        was, self._held = self._held, known
        if was is None:
            self._hand_on()

    def _hand_on(self, *, is_first: bool = True) -> None:
        known = self._held
        assert known is not None
        try:
            self._take(known)
        except StoreNotWriteable as error:
            if is_first:
                log.warning("news of the group wait for room on the disk epoch=%s why=%s", known.node.epoch, error)
            self._loop.call_later(NO_ROOM_RETRY_MS, lambda: self._hand_on(is_first=False))
        else:
            self._held = None
