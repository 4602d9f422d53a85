"""HoldMessages, RenewHold, ReleaseHold: see retention_holds. Loop thread."""

from __future__ import annotations

import logging
import secrets
from typing import Final

from ...remoting.commands import Done, HoldMessages, HoldReply, ReleaseHold, RenewHold
from ...remoting.server import Call
from ..state.admission import known
from ..state.retention_holds import RetentionHolds
from .parts import Parts

log = logging.getLogger(__name__)

ID_BYTES: Final = 12


class HoldHandler:
    """The retention holds of this broker, while it is master."""

    def __init__(self, parts: Parts) -> None:
        self._topics = parts.state.topic_table
        self._clock = parts.clock
        self.holds = RetentionHolds()

    def on_hold(self, call: Call[HoldMessages]) -> HoldReply:
        """Raises TopicNotFound, InvalidParameter, TooManyHolds; then nothing is held."""
        request = call.request
        for topic, queue_id, _ in request.queues:
            known(self._topics, topic, queue_id)
        hold = self.holds.take(
            self._clock.monotonic_ms(), secrets.token_hex(ID_BYTES), request.owner, request.queues, request.lease_ms
        )
        log.info("hold taken id=%s owner=%s queues=%s", hold.hold_id, hold.owner, len(hold.queues))
        return HoldReply(hold.hold_id)

    def on_renew(self, call: Call[RenewHold]) -> HoldReply:
        """Raises HoldNotFound if it has ended, or if another master gave it."""
        request = call.request
        return HoldReply(self.holds.renew(self._clock.monotonic_ms(), request.hold_id, request.lease_ms).hold_id)

    def on_release(self, call: Call[ReleaseHold]) -> Done:
        """Ends a hold; an unknown one has already ended."""
        request = call.request
        self.holds.release(request.hold_id)
        return Done()

    def on_tick(self, now_ms: int) -> None:
        """Ends holds that were not renewed. `now_ms`: monotonic."""
        for hold in self.holds.lapse(now_ms):
            log.warning("hold lapsed id=%s owner=%s", hold.hold_id, hold.owner)

    def on_deposed(self) -> None:
        """This broker is no longer master: its readers ask the next one."""
        self.holds.clear()
