"""The end of one simple consumer: closed by its program, dropped without that, or left open when the program ends.

It outlives the `SimpleConsumer` object, which nothing in here refers to. What was handed out and not acknowledged stays
invisible until its time is over.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from ....model.clock import monotonic_ms
from ....model.errors import ClientClosed, ZenitError
from ...connection import program_end
from ...connection.connection import Connection, Use, release
from ...connection.program_end import Unsent
from ...connection.waiting import Blocking, Waits, run_blocking
from ...tracing.trace import TraceRecorder
from .work import PopWork

log = logging.getLogger(__name__)

LOOK_MS: Final = 500


class SimpleEnd:
    """Any thread may call."""

    def __init__(
        self,
        connection: Connection,
        waits: Waits,
        work: PopWork,
        *,
        group: str,
        client_id: str,
        timeout_ms: int,
        trace: TraceRecorder | None,
    ) -> None:
        self._connection = connection
        self._waits = waits
        self._work = work
        self._group = group
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._trace = trace
        self._is_dropped = False
        self._is_done = self._is_closing = False
        self._use = Use()
        self._lock = threading.Lock()
        self._timer = connection.remoting.every(LOOK_MS, self._look)
        self._key = program_end.add(self)

    def __repr__(self) -> str:
        return f"SimpleConsumer(group={self._group!r}, namesrv={self._connection.name_servers!r})"

    def check_usable(self) -> None:
        """Raises ClientClosed, in a forked child too."""
        if self._work.is_closed:
            raise ClientClosed("consumer")
        self._connection.check_process("consumer")

    async def close(self, timeout_ms: int | None = None) -> None:
        """Sends the acknowledgements, gives back what nobody got, and leaves the group, once; where that was interrupted the
        next call goes on."""
        if self._connection.is_forked:
            return
        is_mine = False
        try:
            with self._lock:
                if self._is_done or self._is_closing:
                    return
                self._is_closing = is_mine = True
            self._work.close()
            deadline_ms = monotonic_ms() + (self._timeout_ms if timeout_ms is None else timeout_ms)
            await self._work.wait_settled(deadline_ms)
        except ZenitError as error:
            log.warning("not settled at close group=%s error=%s", self._group, error)
        finally:
            try:
                if is_mine:
                    await self._let_go()
            finally:
                if is_mine:
                    self._is_closing = False

    async def _let_go(self) -> None:
        self._timer.cancel()
        self._work.acks.drop_all()
        try:
            if self._trace is not None:
                await self._trace.close(self._waits)
            await self._connection.members.leave(self._client_id, self._waits)
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
        self._work.acks.look_after()
        if not self._is_dropped:
            return
        self._timer.cancel()
        if self._is_done:
            return
        self._waits.block()
        Blocking(self._connection.remoting).start(self.close, "zenit-dropped")

    # ---- the end of the program

    def unsent(self) -> int:
        """See `OpenClient`: a consumer sends no messages."""
        return 0

    def send_rest(self, deadline_ms: int) -> None:
        """See `OpenClient`."""

    def end(self, deadline_ms: int) -> Unsent | None:
        """See `OpenClient`."""
        self._waits.block()
        run_blocking(self.close(max(1, min(self._timeout_ms, deadline_ms - monotonic_ms()))))
        return None
