"""Looks up store times of messages at their brokers, to convert rows behind into seconds behind.

A look-up reads one message of a queue. Each waits at most CALL_TIMEOUT_MS, and all of one call together TOTAL_TIMEOUT_MS;
those not found by then are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ...client.connection.waiting import Blocking, run_blocking
from ...model.clock import monotonic_ms
from ...model.errors import WrongCluster, ZenitError
from ...record.kernel import decode_batch
from ...remoting.commands import PullMessages, PullReply
from ..reading.offsets import QueueKey
from ..session.connections import connection

log = logging.getLogger(__name__)

CALL_TIMEOUT_MS: Final = 500
TOTAL_TIMEOUT_MS: Final = 2_000
QUEUES_MAX: Final = 64
READER: Final = "ZENIT_PIPELINE"  # a pull names a group; this one never commits


class StoreTimes:
    """The look-ups in one cluster. Any thread; one look-up at a time."""

    def __init__(self, namesrv: str | None) -> None:
        self._namesrv = namesrv
        self._cluster_id = ""  # the cluster that answered last

    def __call__(self, wanted: Mapping[QueueKey, int]) -> dict[QueueKey, int]:
        """See `lag_table.StoredAt`; for the first QUEUES_MAX queues."""
        deadline_ms = monotonic_ms() + TOTAL_TIMEOUT_MS
        found: dict[QueueKey, int] = {}
        for queue, offset in list(wanted.items())[:QUEUES_MAX]:
            left_ms = deadline_ms - monotonic_ms()
            if left_ms <= 0:
                break
            try:
                stored_ms = self._stored_ms(queue, offset, min(left_ms, CALL_TIMEOUT_MS))
            except ZenitError as error:
                if isinstance(error, WrongCluster):
                    self._cluster_id = ""  # a figure for display: from whichever cluster is there
                log.debug("the store time of a message was not found queue=%s offset=%s error=%s", queue, offset, error)
                continue
            if stored_ms is not None:
                found[queue] = stored_ms
        return found

    def _stored_ms(self, queue: QueueKey, offset: int, timeout_ms: int) -> int | None:
        """The store time of the first message at or behind `offset`; None if there is none now."""
        request = PullMessages(READER, queue.topic, queue.queue_id, offset, 1, 1)
        with connection(self._namesrv, self._cluster_id) as shared:
            waits = Blocking(shared.remoting)
            route = run_blocking(shared.routes.route(queue.topic, waits, timeout_ms=timeout_ms))
            address = route.address_of(queue.broker)
            if address is None:
                return None
            reply, payload = run_blocking(waits.call(address, request, timeout_ms=timeout_ms))
            self._cluster_id = shared.remoting.cluster_id
        if not isinstance(reply, PullReply):
            return None
        return next((message.stored_at_ms for message in decode_batch(payload, queue.broker)), None)
