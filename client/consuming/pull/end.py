"""Ends one pull consumer: closed by its program, garbage-collected unclosed, or left open when the program ends.

This object outlives the `PullConsumer` object and does not refer to it. A consumer that the program dropped without closing
would keep its queues from the group for ever, so a thread closes it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from ....model.errors import ClientClosed, ZenitError
from ....remoting.timers import Timer
from ...connection import program_end
from ...connection.connection import Connection, Use, release
from ...connection.program_end import Unsent
from ...connection.waiting import Blocking, Waits, run_blocking
from ...tracing.trace import TraceRecorder
from .commits import PullCommits
from .work import PullWork

log = logging.getLogger(__name__)

LOOK_MS: Final = 500


class PullEnd:
    """The end of one consumer. Thread-safe."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        work: PullWork,
        commits: PullCommits,
        recorder: TraceRecorder | None,
        *,
        group: str,
        client_id: str,
        auto_commit: bool,
        committer: Timer | None,
        unwatch: Callable[[], None],
    ) -> None:
        """`committer`: the timer of the automatic commits; `unwatch`: stops watching the routes."""
        self._connection = connection
        self._waits = waits
        self._work = work
        self._commits = commits
        self._recorder = recorder
        self._group = group
        self._client_id = client_id
        self._auto_commit = auto_commit
        self._committer = committer
        self._unwatch = unwatch
        self._is_dropped = False
        self._is_done = self._is_closing = False
        self._use = Use()
        self._lock = threading.Lock()
        self._timer = connection.remoting.every(LOOK_MS, self._look)
        self._key = program_end.add(self)

    def __repr__(self) -> str:
        return f"PullConsumer(group={self._group!r}, namesrv={self._connection.name_servers!r})"

    def check_usable(self) -> None:
        """Raises ClientClosed, in a forked child too."""
        if self._work.is_closed:
            raise ClientClosed("consumer")
        self._connection.check_process("consumer")

    async def close(self, *, handed: bool) -> None:
        """Commits and leaves the group, once; if it was interrupted, the next call continues.

        `handed`: what was handed out last counts as finished.
        """
        if self._connection.is_forked:
            return
        is_mine = False
        try:
            with self._lock:
                if self._is_done or self._is_closing:
                    return
                self._is_closing = is_mine = True
            progress = self._work.close(handed=handed)
            if self._auto_commit and progress is not None and progress.offsets:
                await self._commits.commit(progress)
        except ZenitError as error:
            log.warning("not committed at close group=%s error=%s", self._group, error)
        finally:
            try:
                if is_mine:
                    await self._let_go()
            finally:
                if is_mine:
                    self._is_closing = False

    async def _let_go(self) -> None:
        self._timer.cancel()
        if self._committer is not None:
            self._committer.cancel()
        self._unwatch()
        try:
            await self._connection.members.leave(self._client_id, self._waits)
        finally:
            self._work.drop_all()
            try:
                if self._recorder is not None:
                    await self._recorder.close(self._waits)
            finally:
                await release(self._connection, self._waits, self._use)
        program_end.remove(self._key)
        self._is_done = True

    # ---- dropped without close

    def on_dropped(self) -> None:
        """The program has dropped the consumer. Takes no lock: it may run in a garbage collection, while any lock is held."""
        self._is_dropped = True

    def _look(self) -> None:
        """Periodically in the I/O thread."""
        self._work.look_after()
        if not self._is_dropped:
            return
        self._timer.cancel()
        if self._is_done:
            return
        self._waits.block()
        Blocking(self._connection.remoting).start(lambda: self.close(handed=False), "zenit-dropped")

    # ---- the end of the program

    def unsent(self) -> int:
        """See `OpenClient`: a consumer sends no messages."""
        return 0

    def send_rest(self, deadline_ms: int) -> None:
        """See `OpenClient`."""

    def end(self, deadline_ms: int) -> Unsent | None:  # noqa: ARG002  # each of its requests has a deadline
        """See `OpenClient`. What was handed out last comes again: the program did not say that it is finished."""
        self._waits.block()
        run_blocking(self.close(handed=False))
        return None
