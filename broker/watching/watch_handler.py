"""AwaitArrivals: one request waits for messages in any of a consumer's idle queues (queue_watch). Loop thread."""

from __future__ import annotations

from typing import Final

from ...model.errors import InvalidParameter, ZenitError
from ...remoting.commands import WATCHED_MAX, ArrivalsReply, AwaitArrivals
from ...remoting.server import Call
from ..handlers.parts import Parts
from ..state.admission import readable_queue
from .queue_watch import QueueKey, QueueWatches

NAME_LENGTH_MAX: Final = 64
CLEARED_AT_ONCE: Final = 2_000  # queues of forgotten watches, some 0.5 us each
CLEAR_PAUSE_MS: Final = 1
NOT_KNOWN: Final = ArrivalsReply(False, (), ())
NOTHING: Final = ArrivalsReply(True, (), ())


class WatchHandler:
    """AwaitArrivals, and those that wait."""

    def __init__(self, parts: Parts) -> None:
        self._store, self._loop, self._clock = parts.store, parts.loop, parts.clock
        self._topics = parts.state.topic_table
        self._suspend_ms_max = parts.config.suspend_ms_max
        self._is_clearing = False
        self.watches: QueueWatches[Call[AwaitArrivals]] = QueueWatches(queues_max=parts.config.watched_queues_max)

    def on_await(self, call: Call[AwaitArrivals]) -> ArrivalsReply | None:
        """Answers with the queues in which there is something, or waits for the first. Raises InvalidParameter, BrokerBusy."""
        request = call.request
        if not 1 <= len(request.watch) <= NAME_LENGTH_MAX or request.number < 1:
            raise InvalidParameter("watch", request.watch[:NAME_LENGTH_MAX], "a name, and numbers from 1 on")
        if len(request.queues) > WATCHED_MAX:
            raise InvalidParameter("queues", f"{len(request.queues)} queues", f"at most {WATCHED_MAX}")
        if any(not 0 <= at < len(request.topics) for at, _, _ in request.queues):
            raise InvalidParameter("queues", "a topic that is not named", f"places in {len(request.topics)} topics")
        now_ms = self._clock.monotonic_ms()
        before = self.watches.unpark(request.watch)
        if before is not None:
            self._loop.reply(before, NOTHING)
        if not self.watches.follow(request.watch, request.number, now_ms):
            return NOT_KNOWN
        for at, queue_id, offset in request.queues:
            topic = request.topics[at]
            if offset < 0:
                self.watches.remove(request.watch, (topic, queue_id))
                continue
            self.watches.add(request.watch, (topic, queue_id), is_ready=self._is_ready(topic, queue_id, offset))
        keys = self.watches.take_ready(request.watch, WATCHED_MAX)
        wait_ms = min(request.wait_ms, self._suspend_ms_max)
        if keys or wait_ms <= 0:
            return _told(keys)
        self.watches.park(request.watch, call, min(now_ms + wait_ms, call.deadline_ms))
        return None

    def _is_ready(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a pull from there would be answered at once, with messages or with an error."""
        try:
            readable_queue(self._topics, topic, queue_id, self._store.has_light_queue)
        except ZenitError:
            return True
        return self._store.max_offset(topic, queue_id) != offset

    def on_arrivals(self, queues: list[tuple[str, int]]) -> None:
        """More may be read in these queues."""
        if self.watches.count:
            self._tell(self.watches.on_arrivals(queues))

    def on_topic_deleted(self, topic: str) -> None:
        """Who watches its queues pulls, and hears it."""
        self._tell(self.watches.on_topic_deleted(topic))

    def answer_waiting(self) -> None:
        """Answers all that wait."""
        for call in self.watches.unpark_all(self._clock.monotonic_ms()):
            self._loop.reply(call, NOTHING)

    def on_tick(self, now_ms: int) -> None:
        """Answers those whose time is over. `now_ms`: monotonic."""
        for call in self.watches.expired(now_ms):
            self._loop.reply(call, NOTHING)
        if not self._is_clearing:
            self._clear()

    def _clear(self) -> None:
        self._is_clearing = self.watches.clear(CLEARED_AT_ONCE)
        if self._is_clearing:
            self._loop.call_later(CLEAR_PAUSE_MS, self._clear)

    def _tell(self, names: list[str]) -> None:
        for name in names:
            call = self.watches.unpark(name)
            if call is not None:
                self._loop.reply(call, _told(self.watches.take_ready(name, WATCHED_MAX)))


def _told(keys: list[QueueKey]) -> ArrivalsReply:
    topics: dict[str, int] = {}
    queues = tuple((topics.setdefault(topic, len(topics)), queue_id) for topic, queue_id in keys)
    return ArrivalsReply(True, tuple(topics), queues)
