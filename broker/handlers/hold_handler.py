"""HoldMessages, RenewHold, ReleaseHold: see retention_holds. Loop thread."""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress
from typing import Final

from ...model.errors import HoldNotFound
from ...remoting.commands import Done, HoldMessages, HoldReply, ReleaseHold, RenewHold
from ...remoting.security.guard import denied
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
            self._clock.monotonic_ms(),
            secrets.token_hex(ID_BYTES),
            request.owner,
            request.queues,
            request.lease_ms,
            user=call.user,
        )
        log.info("hold taken id=%s owner=%s queues=%s", hold.hold_id, hold.owner, len(hold.queues))
        return HoldReply(hold.hold_id)

    def on_renew(self, call: Call[RenewHold]) -> HoldReply:
        """Raises HoldNotFound if it has ended, if another master gave it, or another user took it; AccessDenied if its
        user may not read one of the topics any more: then it ends."""
        request, now_ms = call.request, self._clock.monotonic_ms()
        hold = self.holds.held(now_ms, request.hold_id, user=call.user)
        guard = call.loop.guard
        asked = HoldMessages(hold.owner, hold.queues, request.lease_ms)
        refusal = None if guard is None else guard.check(call.key, call.address, asked)
        if refusal is not None:
            self.holds.release(hold.hold_id)
            raise denied(refusal)
        return HoldReply(self.holds.renew(now_ms, hold.hold_id, request.lease_ms, user=call.user).hold_id)

    def on_release(self, call: Call[ReleaseHold]) -> Done:
        """Ends a hold of the sender; an unknown one has already ended, and another's is unknown to it."""
        with suppress(HoldNotFound):
            hold = self.holds.held(self._clock.monotonic_ms(), call.request.hold_id, user=call.user)
            self.holds.release(hold.hold_id)
        return Done()

    def on_tick(self, now_ms: int) -> None:
        """Ends holds that were not renewed. `now_ms`: monotonic."""
        for hold in self.holds.lapse(now_ms):
            log.warning("hold lapsed id=%s owner=%s", hold.hold_id, hold.owner)

    def on_deposed(self) -> None:
        """This broker is no longer master: its readers ask the next one."""
        self.holds.clear()
