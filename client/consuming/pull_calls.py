"""Sends pulls: chooses the replica, and updates the route after a failure. `prefetch` decides what to pull."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...model.errors import ZenitError
from ...model.queue import MessageQueue
from ...model.route import MASTER_ID
from ...remoting.commands import PullMessages, PullReply
from ..connection.connection import Connection
from .prefetch import Pull

SUSPEND_MS: Final = 15_000
PULL_GRACE_MS: Final = 5_000  # how long after its suspension a long poll may still be answered

LOST_MS: Final = SUSPEND_MS + 2 * PULL_GRACE_MS
"""After this time, a pull without an answer or a timeout will never get one."""

OnAnswer = Callable[[Pull, PullReply | None, bytes, ZenitError | None], None]
"""(pull, reply, payload, None) or (pull, None, b"", error), in the thread that received the answer; must not block."""


class PullCalls:
    """The pulls of one consumer. Thread-safe."""

    def __init__(self, connection: Connection, group: str, messages_max: int, on_answer: OnAnswer) -> None:
        """`messages_max`: the largest number in one answer; the broker's own limit may be lower."""
        self._connection = connection
        self._group = group
        self._messages_max = messages_max
        self._on_answer = on_answer
        self._read_from: dict[MessageQueue, int] = {}  # broker ids of the slaves from which queues are read

    def send(self, pull: Pull) -> None:
        """Sends a pull; it is answered exactly once, perhaps before this returns."""

        def on_reply(reply: PullReply | None, payload: bytes, error: ZenitError | None) -> None:
            self._on_reply(pull, reply, payload, error)

        queue = pull.queue
        try:
            self._connection.remoting.send_nowait(
                self._connection.routes.address_of(
                    queue.topic, queue.broker_name, self._read_from.get(queue, MASTER_ID)
                ),
                PullMessages(
                    self._group,
                    queue.topic,
                    queue.queue_id,
                    pull.offset,
                    self._messages_max,
                    pull.max_bytes,
                    SUSPEND_MS,
                    pull.tag_codes,
                    pull.sql,
                    queue.incarnation,
                    pull.is_doubted,
                ),
                None,
                timeout_ms=SUSPEND_MS + PULL_GRACE_MS,
                on_reply=on_reply,
            )
        except ZenitError as error:
            on_reply(None, b"", error)

    def _on_reply(self, pull: Pull, reply: PullReply | None, payload: bytes, error: ZenitError | None) -> None:
        if reply is not None:
            self._note_where_to_read(pull.queue, reply.suggested_broker_id)
        self._on_answer(pull, reply, payload, error)
        if error is not None:
            self._read_from.pop(pull.queue, None)
            if error.route_stale:
                self._connection.routes.refresh_soon(pull.queue.topic)

    def _note_where_to_read(self, queue: MessageQueue, broker_id: int) -> None:
        """The broker directs a reader that is far behind to a slave, and back once it has caught up."""
        if broker_id != MASTER_ID:
            self._read_from[queue] = broker_id
        elif self._read_from:
            self._read_from.pop(queue, None)
