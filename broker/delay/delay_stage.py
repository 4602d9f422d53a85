"""What the rest of the broker asks of delayed delivery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ...store.message_store import Placed


class DelayStage(Protocol):
    """Where a message goes that is to reach its queue later."""

    def stage_delayed(
        self,
        *,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: Mapping[str, str],
        deliver_at_ms: int,
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp_ms: int | None = None,
        born_host: bytes | None = None,
        reconsume_times: int = 0,
        body_crc: int | None = None,
    ) -> Placed:
        """Stages a message that is delivered to queue `queue_id` of `topic` at `deliver_at_ms` (since the epoch), exactly once;
        where that has passed, it is staged there at once. A reply waits for `Placed.end`, as a send's does.
        `body_crc`: as `MessageStore.stage_record` has it. Loop thread.

        Raises InvalidParameter (beyond the limit), InvalidName, MessageTooLarge, StoreNotWriteable, StorePoisoned.
        """
