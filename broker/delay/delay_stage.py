"""What the rest of the broker asks of delayed delivery."""

from __future__ import annotations

from typing import Protocol

from ...record.new_record import NewRecord
from ...store.message_store import Placed


class DelayStage(Protocol):
    """Where a message goes that is to reach its queue later."""

    def stage_delayed(self, record: NewRecord, deliver_at_ms: int) -> Placed:
        """Stages a message that is delivered to its queue at `deliver_at_ms` (since the epoch), exactly once;
        where that has passed, it is staged there at once. A reply waits for `Placed.end`, as a send's does.
        Loop thread.

        Raises InvalidParameter (beyond the limit), InvalidName, MessageTooLarge, StoreNotWriteable, StorePoisoned.
        """
