"""Commits a query's offsets to the brokers, for tools that show lag only. Spark's checkpoint is authoritative."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ...client.connection.waiting import Blocking, run_blocking
from ...client.consuming.offset_commits import commit_and_wait
from ...model.errors import ZenitError
from ...model.queue import MessageQueue
from ..options.options import ReadOptions
from ..session.connections import connection
from .offsets import QueueKey

log = logging.getLogger(__name__)


def commit_for_show(options: ReadOptions, offsets: Mapping[QueueKey, int], cluster_id: str) -> None:
    """Commits for the group in the options, if brokers answer; an error is logged, and the next commit tries again."""
    assert options.group is not None
    queues = {MessageQueue(key.topic, key.broker, key.queue_id): offset for key, offset in offsets.items()}
    try:
        with connection(options.namesrv, cluster_id, key=options.key) as shared:
            committed = commit_and_wait(
                shared,
                Blocking(shared.remoting),
                options.group,
                queues,
                timeout_ms=options.request_timeout_ms,
                on_done=lambda _part, _error: None,
            )
            run_blocking(committed)
    except ZenitError as error:
        log.warning("offsets are not shown at the brokers group=%s error=%s", options.group, error)
