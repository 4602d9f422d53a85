"""Sends pulls: chooses the replica, and updates the route after a failure. `prefetch` decides what to pull, `broker_pulls`
which pulls wait at the broker one by one and which all together."""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from ...model.errors import UnknownRequest, ZenitError
from ...model.queue import MessageQueue
from ...model.route import MASTER_ID
from ...remoting.commands import ArrivalsReply, AwaitArrivals, PullMessages, PullReply
from ..connection.connection import Connection
from .broker_pulls import SUSPEND_MS, BrokerPulls, Send
from .prefetch import Pull

PULL_GRACE_MS: Final = 5_000  # how long after its suspension a long poll may still be answered
WATCH_SOON_MS: Final = 2  # queues that become idle in this time are watched by one request

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
        self._thread = threading.local()  # `sends`: what this thread is sending
        self._lock = threading.Lock()  # guards what follows
        self._brokers: dict[str, BrokerPulls] = {}
        self._watching_soon: set[str] = set()

    def send(self, pull: Pull) -> None:
        """Sends a pull; it is answered exactly once, perhaps before this returns."""
        queue = pull.queue
        try:
            address = self._connection.routes.address_of(
                queue.topic, queue.broker_name, self._read_from.get(queue, MASTER_ID)
            )
        except ZenitError as error:
            self._answer(pull, None, b"", error)
            return
        with self._lock:
            broker = self._brokers.get(address)
            if broker is None:
                broker = self._brokers[address] = BrokerPulls(_new_name)
            sends = broker.begin(pull)
        self._send_all(address, broker, sends)

    def _send_all(self, address: str, broker: BrokerPulls, sends: list[Send]) -> None:
        """An answer that comes before its send returns lets others be sent: they follow it, not within it, however many."""
        outer: deque[tuple[str, BrokerPulls, Send]] | None = getattr(self._thread, "sends", None)
        if outer is not None:
            outer.extend((address, broker, send) for send in sends)
        else:
            left = self._thread.sends = deque((address, broker, send) for send in sends)
            try:
                while left:
                    place, asked, send = left.popleft()
                    self._send(place, asked, *send)
            finally:
                self._thread.sends = None
        if broker.is_to_ask:
            self._watch_soon(address, broker)

    def _send(self, address: str, broker: BrokerPulls, pull: Pull, suspend_ms: int) -> None:
        def on_reply(reply: PullReply | None, payload: bytes, error: ZenitError | None) -> None:
            with self._lock:
                is_answer, sends = broker.on_reply(pull, suspend_ms, reply)
            if is_answer:
                self._answer(pull, reply, payload, error)
            if sends or not is_answer:
                self._send_all(address, broker, sends)

        queue = pull.queue
        try:
            self._connection.remoting.send_nowait(
                address,
                PullMessages(
                    self._group,
                    queue.topic,
                    queue.queue_id,
                    pull.offset,
                    self._messages_max,
                    pull.max_bytes,
                    suspend_ms,
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

    def _answer(self, pull: Pull, reply: PullReply | None, payload: bytes, error: ZenitError | None) -> None:
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

    def drop(self, queues: Collection[MessageQueue]) -> None:
        """The consumer has given up these queues. Their pulls are answered no more, or in vain."""
        with self._lock:
            brokers = list(self._brokers.items())
            for queue in queues:
                self._read_from.pop(queue, None)
                for _, broker in brokers:
                    broker.drop(queue)
        for address, broker in brokers:
            if broker.is_to_ask:
                self._watch_soon(address, broker)

    def end(self) -> None:
        """The consumer is closed: only pulls that are at a broker are answered still."""
        with self._lock:
            for broker in self._brokers.values():
                broker.end()

    # ---- idle queues

    def _watch_soon(self, address: str, broker: BrokerPulls) -> None:
        with self._lock:
            if address in self._watching_soon:
                return
            self._watching_soon.add(address)
        self._connection.remoting.call_later(WATCH_SOON_MS, lambda: self._watch(address, broker))

    def _watch(self, address: str, broker: BrokerPulls) -> None:
        with self._lock:
            self._watching_soon.discard(address)
            request = broker.next_request()
        if request is not None:
            self._await(address, broker, request)

    def _await(self, address: str, broker: BrokerPulls, request: AwaitArrivals) -> None:
        def on_reply(reply: ArrivalsReply | None, _: bytes, error: ZenitError | None) -> None:
            failed: list[Pull] = []
            with self._lock:
                if reply is not None:
                    sends = broker.on_arrivals(request, reply)
                else:
                    failed, sends = broker.on_watch_error(request, has_watches=not isinstance(error, UnknownRequest))
            for pull in failed:
                self._answer(pull, None, b"", error)
            self._send_all(address, broker, sends)

        try:
            self._connection.remoting.send_nowait(
                address, request, None, timeout_ms=SUSPEND_MS + PULL_GRACE_MS, on_reply=on_reply
            )
        except ZenitError as error:
            on_reply(None, b"", error)


def _new_name() -> str:
    return secrets.token_hex(16)
