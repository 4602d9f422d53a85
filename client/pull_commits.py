"""Committing what a pull consumer was handed: by itself every so often, when it is asked to, and before it gives a queue up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ..model.errors import ZenitError
from ..model.queue import MessageQueue
from .connection import Connection
from .offset_commits import commit_and_wait, commit_nowait
from .pull_work import PullWork
from .waiting import Waits

log = logging.getLogger(__name__)


class PullCommits:
    """One consumer's. Any thread."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        work: PullWork,
        group: str,
        *,
        timeout_ms: int,
        may_have_lost_queues: Callable[[], bool],
    ) -> None:
        """`may_have_lost_queues`: whether another member may have gone on in one of them since; its progress then stays."""
        self._connection = connection
        self._waits = waits
        self._work = work
        self._group = group
        self._timeout_ms = timeout_ms
        self._may_have_lost_queues = may_have_lost_queues

    def send_settled(self) -> None:
        """Sends what was dealt with, and waits for nothing."""
        self.send(self._work.uncommitted(handed=False), forward_only=self._may_have_lost_queues())

    def send(self, offsets: Mapping[MessageQueue, int], *, forward_only: bool = False) -> None:
        """Sends these, behind any commit that is under way. `forward_only`: as `offset_commits` has it."""
        commit_nowait(
            self._connection,
            self._group,
            offsets,
            timeout_ms=self._timeout_ms,
            on_done=self._on_done,
            forward_only=forward_only,
        )

    async def commit(
        self, offsets: Mapping[MessageQueue, int], *, timeout_ms: int | None = None, forward_only: bool = False
    ) -> None:
        """Sends these and waits until the brokers have them. Raises why one did not take them."""
        await commit_and_wait(
            self._connection,
            self._waits,
            self._group,
            offsets,
            timeout_ms=self._timeout_ms if timeout_ms is None else timeout_ms,
            on_done=self._on_done,
            forward_only=forward_only or self._may_have_lost_queues(),
        )

    def _on_done(self, part: list[tuple[MessageQueue, int]], error: ZenitError | None) -> None:
        if error is not None:
            log.warning("offsets not committed group=%s error=%s", self._group, error)
            return
        self._work.on_committed(part)
