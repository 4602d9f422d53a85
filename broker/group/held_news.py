"""News of a group that need a record on the disk first: while the disk is full, the newest of them wait here.

A member is told of a node only after the consequences are on the disk (how it counts, that its incarnation is registered,
its cluster). Without room for that, it continues as before: other replicas suspect it like any replica
without room, and it does not act on news that it does not have. Loop thread.
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
    """`on_group` passes news on to `take`, now or when there is room; newer news replace waiting ones."""

    def __init__(self, loop: NewsLoop, take: Callable[[KnownGroup], None]) -> None:
        """`take`: raises StoreNotWriteable if there is no room; then it has changed nothing, and is called again."""
        self._loop = loop
        self._take = take
        self._held: KnownGroup | None = None

    def on_group(self, known: KnownGroup) -> None:
        """News that are newer than those before."""
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
