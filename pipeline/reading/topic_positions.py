"""The offset ranges of topics' queues, requested from name servers and brokers. The driver's side of a reader; any thread.

Every request has a deadline over all its tries. Masters answer: the end of a queue is what its replica group has confirmed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

from ...client.connection.connection import Connection
from ...client.connection.retry import RetryPolicy
from ...client.connection.waiting import Blocking, run_blocking
from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import NoRoute, OffsetsIncomplete, RemoteProtocolError, RequestTimeout, TopicNotFound, ZenitError
from ...model.names import is_system_topic
from ...model.route import TopicRoute
from ...remoting.commands import (
    GetTopicStatistics,
    OffsetReply,
    PullMessages,
    PullReply,
    Reply,
    RequestFor,
    SearchOffset,
)
from ..options.options import ReadOptions, matches
from ..session.connections import connection
from .boundaries import Held
from .offsets import Lives, Offsets, QueueKey

_Reply = TypeVar("_Reply", bound=Reply)

log = logging.getLogger(__name__)

SAMPLE_ROWS: Final = 32
SAMPLE_BYTES: Final = 64 * 1024
AWAY_MS: Final = 500  # for a broker or topic without an answer the last time
BACKOFF_MS: Final = 50
BACKOFF_MS_MAX: Final = 1000

_R = TypeVar("_R")


class TopicPositions:
    """The requests of one reader.

    Has no connection of its own: a process shares one (connections). All requests go to one cluster, the first one that
    answered or the one that `mean` named, even if it is away for a long time.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.cluster_id = ""  # of the cluster in use; "" = none has answered yet
        self._options = options
        self._seen: set[str] = set()  # topics that existed
        self._away: set[str] = set()  # brokers and topics without an answer the last time
        self._policy = RetryPolicy(
            tries_max=options.retries + 1, backoff_ms=BACKOFF_MS, backoff_ms_max=BACKOFF_MS_MAX, try_ms_max=10_000
        )

    def mean(self, cluster_id: str) -> None:
        """Makes this cluster the only one in use; "" = no change."""
        self.cluster_id = cluster_id or self.cluster_id

    @contextmanager
    def cluster(self) -> Iterator[Connection]:
        """A connection to the cluster. Raises WrongCluster if another one answers at its addresses."""
        with connection(self._options.namesrv, self.cluster_id, key=self._options.key) as shared:
            yield shared
            self.mean(self.cluster_id or shared.remoting.cluster_id)

    def look(self, known: Collection[QueueKey] = ()) -> Held:
        """The present ranges of the queues to read. `known`: queues that existed before; their brokers are asked too, even
        if no name server lists them any more.

        Queues whose broker does not answer are left out if that is tolerated. Raises TopicNotFound, OffsetsIncomplete for
        an assigned queue that does not exist, and the error of a broker or of all name servers.
        """
        minimum: Offsets = {}
        end: Offsets = {}
        lives: Lives = {}
        compacted: set[QueueKey] = set()
        for topic in self._topics():
            before = {key.broker for key in known if key.topic == topic and self._options.reads(key)}
            for broker in self._tolerated(topic, partial(self._brokers_of, topic, before)):
                rows = partial(self._rows, topic, broker)
                for key, first, behind, life, is_compacted in self._tolerated(_place(topic, broker), rows):
                    minimum[key], end[key] = first, behind
                    if is_compacted:
                        compacted.add(key)
                    if life:
                        lives[topic, broker] = life
        return Held(minimum, end, lives, frozenset(compacted))

    def at_times(self, times_ms: Mapping[QueueKey, int]) -> Offsets:
        """For each queue its first offset stored at or after a time; the end if there is none."""
        return {
            key: self._ask(key.topic, key.broker, SearchOffset(key.topic, key.queue_id, at_ms), _offset)
            for key, at_ms in times_ms.items()
        }

    def row_bytes(self, start: Mapping[QueueKey, int], end: Mapping[QueueKey, int]) -> Offsets:
        """The size of a row of each queue with new rows, by its first few from `start` on."""
        sizes: Offsets = {}
        for key, offset in end.items():
            at = start.get(key, 0)
            if at < offset:
                request = PullMessages(
                    self._options.reading_group, key.topic, key.queue_id, at, SAMPLE_ROWS, SAMPLE_BYTES
                )
                sizes[key] = self._ask(key.topic, key.broker, request, _mean_bytes)
        return sizes

    # ---- topics and brokers

    def _topics(self) -> Iterable[str]:
        options = self._options
        if options.pattern is not None:
            return sorted(
                topic for topic in self._all_topics() if not is_system_topic(topic) and matches(options.pattern, topic)
            )
        return sorted({key.topic for key in options.assigned}) or options.topics

    def _brokers_of(self, topic: str, before: Collection[str]) -> list[str]:
        if self._options.assigned:
            return sorted({key.broker for key in self._options.assigned if key.topic == topic})
        return sorted({*before, *(data.broker_name for data in self._route(topic).queues)})

    def _rows(self, topic: str, broker: str) -> list[tuple[QueueKey, int, int, int, bool]]:
        """[(queue, minimum, end, incarnation of the topic, whether it is compacted)] of the queues there to be read."""
        life, is_compacted, rows = self._ask(topic, broker, GetTopicStatistics(topic), _queue_rows)
        found = [
            (QueueKey(topic, broker, queue_id), first, behind, life, is_compacted) for queue_id, first, behind in rows
        ]
        there = {row[0] for row in found}
        for key in self._options.assigned:
            if (key.topic, key.broker) == (topic, broker) and key not in there:
                raise OffsetsIncomplete("assign", str(key), "does not exist")
        return [row for row in found if self._options.reads(row[0])]

    def _tolerated(self, what: str, ask: Callable[[], list[_R]]) -> list[_R]:
        """Returns [] if the answer fails and that is tolerated; the next time it waits only briefly."""
        try:
            rows = ask()
        except ZenitError as error:
            if not (self._options.tolerate_unavailable and error.retriable):
                raise
            if what not in self._away:
                log.warning("not served now, its queues wait what=%s error=%s", what, error)
            self._away.add(what)
            return []
        self._away.discard(what)
        return rows

    # ---- requests

    def _route(self, topic: str) -> TopicRoute:
        return self._until_answered(lambda timeout_ms: self._refreshed(topic, timeout_ms), on_stale=None, what=topic)

    def _refreshed(self, topic: str, timeout_ms: int) -> TopicRoute:
        """Raises TopicNotFound for a topic that never existed, NoRoute for one that did: a name server may have lost it."""
        try:
            with self.cluster() as shared:
                route = run_blocking(shared.routes.refresh(topic, Blocking(shared.remoting), timeout_ms=timeout_ms))
        except TopicNotFound:
            if topic in self._seen:
                raise NoRoute(topic, "no name server knows it now") from None
            raise
        self._seen.add(topic)
        return route

    def _all_topics(self) -> list[str]:
        def once(timeout_ms: int) -> list[str]:
            with self.cluster() as shared:
                return run_blocking(shared.servers.topics(Blocking(shared.remoting), timeout_ms=timeout_ms))

        return self._until_answered(once, on_stale=None, what="the list of topics")

    def _ask(self, topic: str, broker: str, request: RequestFor[_Reply], decode: Callable[[_Reply, bytes], _R]) -> _R:
        """Asks a broker's master, wherever it is at that time."""

        def once(timeout_ms: int) -> _R:
            with self.cluster() as shared:
                if shared.routes.cached(topic) is None:
                    self._refreshed(topic, timeout_ms)
                address = shared.routes.address_of(topic, broker)
                answer = shared.remoting.call(address, request, None, timeout_ms=timeout_ms)
            return decode(*answer)

        return self._until_answered(
            once,
            on_stale=lambda timeout_ms: self._refreshed(topic, timeout_ms),
            what=_place(topic, broker),
        )

    def _until_answered(self, once: Callable[[int], _R], *, on_stale: Callable[[int], object] | None, what: str) -> _R:
        total_ms = self._options.request_timeout_ms
        if what in self._away:
            total_ms = min(total_ms, AWAY_MS)
        deadline_ms = monotonic_ms() + total_ms
        tries = 0
        failure: ZenitError | None = None
        while (left_ms := deadline_ms - monotonic_ms()) > 0:
            tries += 1
            try:
                if failure is not None and failure.route_stale and on_stale is not None:
                    on_stale(self._policy.try_timeout_ms(total_ms, left_ms))
                return once(self._policy.try_timeout_ms(total_ms, left_ms))
            except ZenitError as error:
                left_ms = deadline_ms - monotonic_ms()
                delay_ms = self._policy.delay_ms(error, tries=tries, left_ms=left_ms, elsewhere=False)
                if delay_ms is None:
                    if failure is None or not isinstance(error, RequestTimeout):
                        raise
                    raise failure from error  # the last try had little time; what an earlier one found says more
                failure = error
                log.info("asked again soon what=%s error=%s", what, error)
                sleep_ms(delay_ms)
        raise failure or RequestTimeout(what, total_ms)


def _place(topic: str, broker: str) -> str:
    return f"{topic} at {broker}"


# ---- answers


def _offset(reply: OffsetReply, _payload: bytes) -> int:
    return reply.offset


def _mean_bytes(reply: PullReply, payload: bytes) -> int:
    return max(1, len(payload) // reply.count) if reply.count else 1


def _queue_rows(_reply: Reply, payload: bytes) -> tuple[int, bool, list[tuple[int, int, int]]]:
    """(incarnation of the topic, whether it is compacted, [(queue id, minimum, end)])."""
    try:
        document = json.loads(payload)
        rows = [(int(row["queue_id"]), int(row["min_offset"]), int(row["max_offset"])) for row in document["queues"]]
        return int(document.get("incarnation", 0)), document.get("compacted") is True, rows
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RemoteProtocolError(f"the statistics of a topic: {error}") from error
