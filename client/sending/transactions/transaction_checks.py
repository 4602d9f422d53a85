"""Brokers' checks of transactions: of this producer, or of one of its group that is gone.

The user's `check` runs in threads of its own, or as tasks of the event loop: at most `workers` at a time. One that hangs
blocks only its worker. While all are blocked, further checks wait; beyond WAITING_BYTES_MAX they are dropped. An exception of
`check` decides nothing. In all these cases the broker asks again.

A broker asks about everything that is due at once, perhaps a hundred thousand messages, and only `transaction_checks_max`
times. A message that is dropped each time is parked in the end. So the limit is one of memory.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ....model.errors import CorruptRecordError, ZenitError
from ....model.handles.transaction import Resolution
from ....record.kernel import StoredMessage, decode_batch
from ....remoting.commands import CheckTransaction, GetClusterInfo, JsonReply
from ...connection.connection import Connection
from ...connection.waiting import Waits

log = logging.getLogger(__name__)

WAITING_BYTES_MAX: Final = 64 << 20
QUESTION_BYTES: Final = 1_000  # about what a question takes besides its message
LOOK_MS: Final = 10_000
LOOK_TIMEOUT_MS: Final = 3_000

Check = Callable[[StoredMessage], Awaitable[object]]
"""The user's `check` of a message."""

Decide = Callable[[CheckTransaction, StoredMessage, Resolution], Awaitable[object]]
"""Sends the decision to the broker. Raises ZenitError."""


class TransactionChecks:
    """The checks of one producer. `on_check` runs in the I/O thread."""

    def __init__(self, connection: Connection, waits: Waits, check: Check, decide: Decide, *, workers: int) -> None:
        self._connection = connection
        self._waits = waits
        self._check = check
        self._decide = decide
        self._workers_max = workers
        self._workers = 0
        self._waiting: deque[tuple[CheckTransaction, StoredMessage]] = deque()
        self._waiting_bytes = 0
        self._is_dropping = False
        self._asked: set[str] = set()  # ids of transactions that wait for our answer
        self._under_way: set[str] = set()  # sends in progress
        self._lock = threading.Lock()
        self._is_closed = False
        self._timer = connection.remoting.every(LOOK_MS, self.look)

    # ---- who may ask

    def look(self) -> None:
        """Announces this producer to all masters of the cluster: any of them may have half messages of its group."""

        def on_reply(reply: JsonReply | None, payload: bytes, error: ZenitError | None) -> None:
            if reply is None:
                log.info("the cluster's brokers are not known error=%s", error)
                return
            try:
                document = self._connection.routes.document_of_ours(json.loads(payload))
                brokers = document["brokers"]
                self._connection.members.reach(one["address"] for one in brokers if one["broker_id"] == 0)
            except (ZenitError, ValueError, KeyError, TypeError) as wrong:
                log.warning("the cluster's brokers are not known error=%s", wrong)

        try:
            self._connection.remoting.send_nowait(
                self._connection.servers.preferred,
                GetClusterInfo(),
                None,
                timeout_ms=LOOK_TIMEOUT_MS,
                on_reply=on_reply,
            )
        except ZenitError as error:
            on_reply(None, b"", error)

    # ---- being asked

    def on_check(self, request: CheckTransaction, payload: bytes) -> None:
        """Takes a broker's check."""
        try:
            messages = decode_batch(payload)
        except CorruptRecordError as error:
            log.warning("a question about a transaction that cannot be decoded error=%s", error)
            return
        if len(messages) != 1:
            log.warning("a question about %d messages where one is expected", len(messages))
            return
        with self._lock:
            if self._is_closed or request.transaction_id in self._asked or request.sender in self._under_way:
                return
            size = QUESTION_BYTES + messages[0].size_bytes
            if self._waiting and self._waiting_bytes + size > WAITING_BYTES_MAX:
                if not self._is_dropping:
                    self._is_dropping = True
                    log.warning(
                        "questions about transactions are dropped, %d wait already: is check stuck?", len(self._waiting)
                    )
                return
            self._is_dropping = False
            self._asked.add(request.transaction_id)
            self._waiting.append((request, messages[0]))
            self._waiting_bytes += size
            is_fresh = self._workers < self._workers_max
            self._workers += is_fresh
        if is_fresh:
            try:
                self._waits.start(self._work, "zenit-check")
            except Exception:
                with self._lock:
                    self._workers -= 1
                log.exception("a question about a transaction cannot be answered now")

    @contextmanager
    def under_way(self, sender: str) -> Iterator[None]:
        """Marks a send of this producer as in progress: until it ends nobody knows the decision, so `check` is not called."""
        self._under_way.add(sender)
        try:
            yield
        finally:
            self._under_way.discard(sender)

    async def _work(self) -> None:
        while True:
            with self._lock:
                if self._is_closed or not self._waiting:
                    self._workers -= 1
                    return
                request, message = self._waiting.popleft()
                self._waiting_bytes -= QUESTION_BYTES + message.size_bytes
            try:
                await self._answer(request, message)
            finally:
                with self._lock:
                    self._asked.discard(request.transaction_id)

    async def _answer(self, request: CheckTransaction, message: StoredMessage) -> None:
        resolution: object = Resolution.UNKNOWN
        try:
            resolution = await self._check(message)
        except Exception:
            log.exception("check failed, the broker asks again message=%s", message.message_id)
        if not isinstance(resolution, Resolution):
            log.error("check returned %r, not a Resolution: the broker asks again", resolution)
            resolution = Resolution.UNKNOWN
        if self._is_closed:
            return
        try:
            await self._decide(request, message, resolution)
        except ZenitError as error:
            log.warning("a transaction was not decided message=%s error=%s", message.message_id, error)

    def close(self) -> None:
        """Answers no further check. Does not wait for a running `check`."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            self._waiting_bytes = 0
        self._timer.cancel()
