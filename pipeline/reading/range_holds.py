"""Retention holds of a batch read: one hold of all its queues, taken at planning, renewed while it runs.

Each task renews it when it begins and while it reads. Nobody releases it; it expires HOLD_S after the last task. A hold
helps, but is not required: if brokers do not grant it, the batch runs nevertheless, and rows that expire before they are
read are detected as lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ...client.administration.pipeline_calls import PipelineCalls, RetentionHold
from ...model.clock import monotonic_ms
from ...model.errors import ZenitError
from ...model.queue import MessageQueue
from ..options.options import ReadOptions
from ..session.connections import connection
from .offsets import QueueRange

log = logging.getLogger(__name__)

HOLD_S = 600
RENEW_MS = 200_000

_B = TypeVar("_B")


def hold_ranges(options: ReadOptions, ranges: Iterable[QueueRange], cluster_id: str) -> RetentionHold | None:
    """Holds the queues of ranges from their starts on; None if there is nothing to hold, or brokers do not grant it."""
    offsets = {MessageQueue(item.topic, item.broker, item.queue_id): item.start for item in ranges}
    if not offsets:
        return None
    try:
        with _calls(options, cluster_id) as calls:
            return calls.hold(f"spark:{options.reading_group}", offsets, HOLD_S)
    except ZenitError as error:
        log.warning(
            "what is to be read is not held, and may expire before group=%s error=%s", options.reading_group, error
        )
        return None


def while_held(
    options: ReadOptions, hold: RetentionHold | None, batches: Iterable[_B], cluster_id: str
) -> Iterator[_B]:
    """The batches of one task; renews the hold at the first one, and from time to time."""
    due_ms = monotonic_ms()
    for batch in batches:
        if hold is not None and monotonic_ms() >= due_ms:
            try:
                with _calls(options, cluster_id) as calls:
                    hold = calls.renew(hold, HOLD_S)
            except ZenitError as error:
                log.warning("a hold is not renewed group=%s error=%s", options.reading_group, error)
            due_ms = monotonic_ms() + RENEW_MS
        yield batch


@contextmanager
def _calls(options: ReadOptions, cluster_id: str) -> Iterator[PipelineCalls]:
    with connection(options.namesrv, cluster_id, key=options.key) as shared:
        yield PipelineCalls(shared, timeout_ms=options.request_timeout_ms)
