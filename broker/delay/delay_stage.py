"""What the rest of the broker uses of delayed delivery."""

from __future__ import annotations

from typing import Protocol

from ...record.new_record import NewRecord
from ...store.message_store import Placed


class DelayStage(Protocol):
    """Accepts messages that are to reach their queue later."""

    def stage_delayed(self, record: NewRecord, deliver_at_ms: int) -> Placed:
        """Stages a message for delivery to its queue at `deliver_at_ms` (since the epoch), exactly once. Loop thread.

        If that time has passed, the message is staged in its queue at once. A reply waits for `Placed.end`, as a send's
        does. Raises InvalidParameter (beyond the limit), InvalidName, MessageTooLarge, StoreNotWriteable, StorePoisoned.
        """
