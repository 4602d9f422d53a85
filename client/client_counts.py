"""What one client counts: messages sent, failed, handed out; how long sends and handlers took.

Any thread counts, once a batch; a lock keeps the numbers right. A collector reads copies.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from ..metrics.family import Reading
from ..metrics.histogram import Histogram, time_histogram
from ..metrics.table import CLIENT_CONSUMED, CLIENT_FAILED, CLIENT_PROCESS, CLIENT_SEND, CLIENT_SENT

US_PER_MS = 1_000


class ClientCounts:
    """Of one producer or consumer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self._send_times = time_histogram()
        self._consumed: dict[tuple[str, str], int] = {}
        self._handler_times: dict[str, Histogram] = {}

    def on_sent(self, topic: str, count: int, took_ms: int, *, is_ok: bool) -> None:
        """A batch was acknowledged, or given up."""
        with self._lock:
            counts = self._sent if is_ok else self._failed
            counts[topic] = counts.get(topic, 0) + count
            self._send_times.observe(max(0, took_ms) * US_PER_MS)

    def on_consumed(self, topic: str, group: str, count: int) -> None:
        """So many messages were handed to the program."""
        with self._lock:
            self._consumed[topic, group] = self._consumed.get((topic, group), 0) + count

    def on_handled(self, group: str, took_us: int) -> None:
        """The program's handler has ended, one way or the other."""
        with self._lock:
            times = self._handler_times.get(group)
            if times is None:
                times = self._handler_times[group] = time_histogram()
            times.observe(took_us)

    def readings(self) -> Iterator[Reading]:
        """A copy."""
        with self._lock:
            yield CLIENT_SENT, [((topic,), count) for topic, count in self._sent.items()]
            yield CLIENT_FAILED, [((topic,), count) for topic, count in self._failed.items()]
            if sum(self._send_times.counts):
                yield CLIENT_SEND, [((), self._send_times.reading())]
            yield CLIENT_CONSUMED, [(pair, count) for pair, count in self._consumed.items()]
            yield CLIENT_PROCESS, [((group,), times.reading()) for group, times in self._handler_times.items()]
