"""Reports messages that no broker has any more: their bytes rotted, and no replica could return them.

A consumer continues behind them. So that this is never silent, it is logged, counted, and passed to `on_lost`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from .prefetch import MessagesLost

log = logging.getLogger(__name__)


OnLost = Callable[[MessagesLost], object]


class LossNotices:
    """The losses of one consumer. `count`: messages skipped so far. Used by one thread at a time, the I/O thread."""

    def __init__(self, group: str, on_lost: OnLost | None) -> None:
        """`on_lost`: called for each loss; must not block."""
        self._group = group
        self._on_lost = on_lost
        self.count = 0

    def tell(self, lost: MessagesLost) -> None:
        """A pull met lost messages; an exception of the user's function is logged, and changes nothing."""
        self.count += lost.end - lost.begin
        log.warning(
            "messages lost, their bytes are damaged at the broker group=%s queue=%s begin=%d end=%d physical=%s",
            self._group,
            lost.queue,
            lost.begin,
            lost.end,
            lost.damaged,
        )
        if self._on_lost is None:
            return
        try:
            self._on_lost(lost)
        except Exception:  # the top of what is not ours
            log.exception("on_lost failed group=%s", self._group)
