"""The events of requests that were refused: one a minute for each user and request, so that nobody who tries names drives out
what else is kept. The audit topic of a broker counts them all.
"""

from __future__ import annotations

import logging
from typing import Final

from ...model.clock import Clock
from ...model.errors import AccessDenied
from ...model.events.table import REFUSALS_MS, RIGHT_REFUSED
from ...model.events.telling import tell
from .guard import Refusal

log = logging.getLogger(__name__)

TOLD_MAX: Final = 512  # users and requests within a minute; what is beyond is not told


class RefusedRights:
    """Loop thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[tuple[str, str], int] = {}  # -> when, the oldest first

    def on_denied(self, refusal: Refusal) -> None:
        """Tells it, unless this user was refused such a request within the last minute."""
        now_ms = self._clock.monotonic_ms()
        while self._told and now_ms - next(iter(self._told.values())) >= REFUSALS_MS:
            del self._told[next(iter(self._told))]
        asked = refusal.user, refusal.request
        if asked in self._told or len(self._told) >= TOLD_MAX:
            return
        self._told[asked] = now_ms
        right = refusal.right
        what = "" if right is None else f"{right.action.value} on {right.resource.value}"
        tell(
            log,
            RIGHT_REFUSED,
            peer=refusal.address,
            user=refusal.user,
            request=refusal.request,
            resource=f"{what}:{refusal.name[:256]}" if refusal.name else what,
            why="the user is disabled, or has the key no more" if refusal.decision is None else refusal.decision.reason,
            code=AccessDenied.code,
        )
