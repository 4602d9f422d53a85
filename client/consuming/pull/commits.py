"""Commits what a pull consumer has finished: periodically, on request, and before it gives up a queue."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from ....model.errors import ZenitError
from ....model.queue import MessageQueue
from ...connection.connection import Connection
from ...connection.waiting import Waits
from ..offset_commits import OnMoved, commit_and_wait, commit_nowait
from .work import Progress, PullWork

log = logging.getLogger(__name__)


class PullCommits:
    """The commits of one consumer. Thread-safe."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        work: PullWork,
        group: str,
        *,
        timeout_ms: int,
        on_moved: OnMoved,
    ) -> None:
        self._connection = connection
        self._waits = waits
        self._work = work
        self._group = group
        self._timeout_ms = timeout_ms
        self._on_moved = on_moved

    def send_settled(self) -> None:
        """Sends what is finished, after any commit in progress, and does not wait."""
        progress = self._work.uncommitted(handed=False)
        commit_nowait(
            self._connection,
            self._group,
            progress.offsets,
            timeout_ms=self._timeout_ms,
            on_done=partial(self._on_done, progress.sought),
            on_moved=self._on_moved,
            may_go_back=progress.sought,
        )

    async def commit(self, progress: Progress, *, timeout_ms: int | None = None) -> None:
        """Sends these offsets and waits until the brokers have them. Raises why one did not take them."""
        await commit_and_wait(
            self._connection,
            self._waits,
            self._group,
            progress.offsets,
            timeout_ms=self._timeout_ms if timeout_ms is None else timeout_ms,
            on_done=partial(self._on_done, progress.sought),
            on_moved=self._on_moved,
            may_go_back=progress.sought,
        )

    def _on_done(
        self, sought: Mapping[MessageQueue, int], part: list[tuple[MessageQueue, int]], error: ZenitError | None
    ) -> None:
        if error is not None:
            log.warning("offsets not committed group=%s error=%s", self._group, error)
            return
        self._work.on_committed(part, sought)
