"""The end of one producer: closed by its program, dropped without that, or left open when the program ends.

It outlives the `Producer` object, to which nothing here refers. The messages of a dropped producer are sent nevertheless;
when they are answered, a thread closes it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from ...model.clock import monotonic_ms
from ...model.errors import ClientClosed, SendFailed, ZenitError
from ..connection import program_end
from ..connection.connection import Connection, Use, release
from ..connection.program_end import Unsent
from ..connection.waiting import Blocking, Waits, run_blocking
from ..tracing.trace import TraceRecorder
from .background_sends import BackgroundSends
from .request_reply import RequestReply

if TYPE_CHECKING:
    from .backlog import Backlog

LOOK_MS: Final = 500


class ProducerEnd:
    """Any thread may call. `begin` comes before everything except `check_usable`."""

    def __init__(self, connection: Connection, waits: Waits, group: str) -> None:
        self.is_closed = False
        self.is_done = False
        """True when everything is closed."""
        self._is_closing = False
        self._use = Use()
        self._connection = connection
        self._waits = waits
        self._group = group
        self._lock = threading.Lock()
        self._is_dropped = False
        self._lost = 0  # messages lost at the end of the program
        self._reason = ""

    def __repr__(self) -> str:
        return f"Producer(group={self._group!r}, namesrv={self._connection.name_servers!r})"

    def begin(
        self,
        background: BackgroundSends,
        requests: RequestReply,
        trace: TraceRecorder | None,
        client_id: str,
        backlog: Backlog | None,
    ) -> None:
        """Sets the parts of a new producer, which end with it."""
        self._background = background
        self._requests = requests
        self._trace = trace
        self._client_id = client_id
        self._backlog = backlog
        self._timer = self._connection.remoting.every(LOOK_MS, self._look)
        self._key = program_end.add(self)

    def check_usable(self) -> None:
        """Raises ClientClosed, in a forked child too."""
        if self.is_closed:
            raise ClientClosed("producer")
        self._connection.check_process("producer")

    async def close(self) -> None:
        """Closes everything, once; after an interruption the next call continues.

        Unacknowledged messages fail with ClientClosed.
        """
        self.is_closed = True
        self._background.refuse()
        is_mine = False
        try:
            with self._lock:
                if self.is_done or self._is_closing:
                    return
                self._is_closing = is_mine = True
            self._timer.cancel()
            self._background.close()
            self._requests.close()
            try:
                if self._trace is not None:
                    await self._trace.close(self._waits)
                await self._connection.members.leave(self._client_id, self._waits)
            finally:
                await release(self._connection, self._waits, self._use)
            program_end.remove(self._key)
            self.is_done = True
        finally:
            if is_mine:
                self._is_closing = False

    # ---- dropped

    def on_dropped(self) -> None:
        """The program has dropped the producer. May run within a garbage collection, while any lock is held: it takes none."""
        if self.is_done or self._connection.is_forked:
            return
        self._is_dropped = True
        waiting = self.unsent()
        if waiting:
            program_end.warn_unsent(repr(self), waiting)

    def _look(self) -> None:
        """Called by the I/O thread now and then."""
        if self._is_dropped and not self.unsent():
            self._timer.cancel()
            self._waits.block()
            Blocking(self._connection.remoting).start(self.close, "zenit-dropped")

    # ---- the end of the program

    def unsent(self) -> int:
        """See `OpenClient`."""
        left = 0 if self._backlog is None else self._backlog.waiting_messages()
        return left + self._background.waiting_messages()

    def send_rest(self, deadline_ms: int) -> None:
        """See `OpenClient`."""
        goes_on = self._waits.block()
        failed_before = self._background.failed_futures
        try:
            if self._backlog is not None and not goes_on:
                self._backlog.send_rest(deadline_ms)
            run_blocking(self._background.flush(max(1, deadline_ms - monotonic_ms())))
        except ZenitError as error:
            self._count(error)
        self._lost += self._background.failed_futures - failed_before

    def end(self, deadline_ms: int) -> Unsent | None:
        """See `OpenClient`. Messages posted since `send_rest` are sent as well."""
        if self.unsent():
            self.send_rest(deadline_ms)
        self._waits.block()
        self._lost += 0 if self._backlog is None else self._backlog.waiting_messages()
        failed_before = self._background.failed_futures
        run_blocking(self.close())
        self._lost += self._background.failed_futures - failed_before
        self._count(self._background.take_failed())
        return Unsent(self._lost, self._reason or "the time was over") if self._lost else None

    def _count(self, error: ZenitError | None) -> None:
        if error is None:
            return
        if isinstance(error, SendFailed):
            self._lost += error.count
        self._reason = self._reason or (error.reason if isinstance(error, SendFailed) else str(error))
