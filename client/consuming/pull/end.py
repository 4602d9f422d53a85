"""The end of one pull consumer: closed by its program, dropped without that, or left open when the program ends.

It outlives the `PullConsumer` object, which nothing in here refers to. A consumer that its program let go of would keep its
queues from the group for ever: a thread closes it.
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
    """Any thread may call."""

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
        """`committer`, `unwatch`: what commits by time, and what watches routes, until the end."""
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
        """Commits and leaves the group, once; where that was interrupted the next call goes on.

        `handed`: what was handed out last counts as dealt with.
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

    # ---- dropped

    def on_dropped(self) -> None:
        """The program has no consumer any more. Perhaps within a collection, with any lock held: it takes none."""
        self._is_dropped = True

    def _look(self) -> None:
        """In the I/O thread, now and then."""
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

    def end(self, deadline_ms: int) -> Unsent | None:  # noqa: ARG002  # each of its questions has a deadline
        """See `OpenClient`. What was handed out last comes again: nobody said that it is dealt with."""
        self._waits.block()
        run_blocking(self.close(handed=False))
        return None
