"""A push consumer's handler whose messages and time are counted."""

from __future__ import annotations

from collections import Counter

from ....model.clock import monotonic_ns
from ....record.kernel import StoredMessage
from ...client_counts import ClientCounts
from .handler_pool import ConsumeResult, Handle


def counted_handle(counts: ClientCounts, group: str, handle: Handle) -> Handle:
    """The same handler. A call that never ends is not timed."""

    async def handle_counted(messages: list[StoredMessage]) -> ConsumeResult | None:
        for topic, count in Counter(message.topic for message in messages).items():
            counts.on_consumed(topic, group, count)
        began_ns = monotonic_ns()
        try:
            return await handle(messages)
        finally:
            counts.on_handled(group, (monotonic_ns() - began_ns) // 1_000)

    return handle_counted
