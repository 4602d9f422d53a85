"""Throughput over the number of queues of one broker: `python -m zenitmq.bench.scale.queue_curve [--engine E] [--counts N,N]`.

For each count a broker is started anew, with topics of ten queues. One process sends ready batches, as `zenit bench produce
--prebuilt` does, each to the next queue in an order drawn by lot, so every queue gets its turn before one gets its second. Then
the broker is stopped and started again. Prints JSON, and draws the curve with `--plot`. For each count:

- `messages_per_second` and the broker's CPU a message, of the whole time;
- the same of each tenth of it, or of each 30 s of a longer time (`stretches`), with the broker's memory without file pages,
  and the disk that its store takes at the end of each;
- `drift`: how much faster the last stretch is than the first, as a share, by the straight line that fits all of them best;
- `memory_bytes` after it made the topics and after the sends;
- `start_seconds`: from its start after a clean stop until it answers, and its memory then.

The log keeps `--log-gib`; older segments expire, and their queue units with them, while batches are sent.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import log10
from typing import Any, Final

import numpy as np

from ...model.clock import monotonic_ns
from ...model.errors import RequestTimeout, ZenitError
from ...model.route import PERMISSION_READ_WRITE
from ...remoting.client import RemotingClient
from ...remoting.client_socket import ClientContext, Dealer
from ...remoting.commands import CreateTopic, SendMessages, SendReply
from ...remoting.header import decode_reply, encode_request
from ..environment import environment
from ..own_cluster import LogFiles, OwnCluster, store_settings
from ..plot import Panel, render
from ..works.frames import ready_batches

QUEUES_OF_TOPIC: Final = 10
STRETCHES_MIN: Final = 10
STRETCH_S_MAX: Final = 30.0
IN_FLIGHT: Final = 16
READY_BATCHES: Final = 64
TIMEOUT_MS: Final = 30_000
START_S: Final = 300.0
CREATED_IN_FLIGHT: Final = 64


def topic_name(number: int) -> str:
    """All names are equally long, so that one ready batch serves all topics."""
    return f"queue-curve-{number:07d}"


class TopicBatches:
    """Ready batches, of which each can be made one of any topic: its name is written over the one in each record."""

    def __init__(self, *, size: int, batch: int) -> None:
        name = topic_name(0).encode()
        self._batches = [
            np.frombuffer(bytearray(each), np.uint8)
            for each in ready_batches(topic_name(0), size=size, batch=batch, count=READY_BATCHES)
        ]
        places = [_places_of(each.tobytes(), name) for each in self._batches]
        if any(len(found) != batch for found in places):
            raise ValueError("a topic's name is to be in each record once")
        self._places = [np.array(found)[:, None] + np.arange(len(name)) for found in places]
        self._turn = 0

    def of(self, topic: str) -> bytes:
        """The next batch, for this topic."""
        self._turn = (self._turn + 1) % len(self._batches)
        batch = self._batches[self._turn]
        batch[self._places[self._turn]] = np.frombuffer(topic.encode(), np.uint8)
        return batch.tobytes()


def _places_of(text: bytes, name: bytes) -> list[int]:
    found, at = [], text.find(name)
    while at >= 0:
        found.append(at)
        at = text.find(name, at + len(name))
    return found


class CurveLoad:
    """One connection to the broker, with IN_FLIGHT requests on it."""

    def __init__(self, dealer: Dealer, batches: TopicBatches, *, queues: int, batch: int) -> None:
        self._dealer, self._batches, self._batch = dealer, batches, batch
        self._order = list(range(queues))
        random.shuffle(self._order)
        self._sent = 0
        self._waiting: deque[int] = deque()

    def run(self, seconds: float, usage: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Sends for so long; `usage()`: see `usage_of`. {messages, seconds, messages_per_second, stretches, drift}."""
        begin_ns, before = monotonic_ns(), usage()
        stretches: list[dict[str, float]] = []
        count = max(STRETCHES_MIN, round(seconds / STRETCH_S_MAX))
        for number in range(1, count + 1):
            from_ns, sent_before = monotonic_ns(), self._sent
            self._send_until(begin_ns + round(seconds * 1e9 * number / count))
            took, messages, after = (monotonic_ns() - from_ns) / 1e9, (self._sent - sent_before) * self._batch, usage()
            stretches.append(
                {
                    "messages_per_second": round(messages / took),
                    "broker_cpu_us_a_message": _cpu_us(before, after, messages),
                    "memory_bytes": after["memory_bytes"],
                    "disk_bytes": after["disk_bytes"],
                }
            )
            before = after
        while self._waiting:
            self._take()
        took, messages = (monotonic_ns() - begin_ns) / 1e9, self._sent * self._batch
        return {
            "messages": messages,
            "seconds": round(took, 2),
            "messages_per_second": round(messages / took),
            "stretches": stretches,
            "drift": round(drift([each["messages_per_second"] for each in stretches]), 3),
        }

    def _send_until(self, until_ns: int) -> None:
        """Sends one request at least."""
        while True:
            while len(self._waiting) < IN_FLIGHT:
                self._send()
            self._take()
            if monotonic_ns() >= until_ns:
                return

    def _send(self) -> None:
        topic, queue_id = divmod(self._order[self._sent % len(self._order)], QUEUES_OF_TOPIC)
        name = topic_name(topic)
        header = encode_request(
            SendMessages(name, queue_id, self._batch, "bench-producers"), self._sent, timeout_ms=TIMEOUT_MS
        )
        if not self._dealer.send(header, self._batches.of(name)):
            raise RequestTimeout("bench queue curve", 0)
        self._waiting.append(self._sent)
        self._sent += 1

    def _take(self) -> None:
        received = self._dealer.receive(TIMEOUT_MS)
        if received is None:
            raise RequestTimeout("bench queue curve", TIMEOUT_MS)
        while received is not None:
            _, reply = decode_reply(received[0], SendReply)
            if isinstance(reply, ZenitError):
                raise reply
            self._waiting.popleft()
            received = self._dealer.receive_nowait()


def drift(rates: Sequence[float]) -> float:
    """How much more the last is than the first, by the straight line that fits best, as a share of their mean."""
    places = np.arange(len(rates))
    slope = float(np.polyfit(places, rates, 1)[0])
    return slope * (len(rates) - 1) / (sum(rates) / len(rates))


def usage_of(cluster: OwnCluster) -> dict[str, Any]:
    """Of the broker, and how much of the disk its store has."""
    taken = 0
    for folder, _, names in os.walk(cluster.store_directory):
        for name in names:
            with suppress(FileNotFoundError):  # it has expired
                taken += os.stat(os.path.join(folder, name)).st_blocks * 512
    return {**cluster.usage(), "disk_bytes": taken}


def _cpu_us(before: dict[str, Any], after: dict[str, Any], messages: int) -> float:
    return round(float(after["cpu_seconds"] - before["cpu_seconds"]) / messages * 1e6, 3)


def make_topics(address: str, count: int) -> None:
    """Raises the first refusal."""
    free = threading.Semaphore(CREATED_IN_FLIGHT)
    errors: list[ZenitError] = []

    def on_reply(_reply: object, _payload: bytes, error: ZenitError | None) -> None:
        if error is not None:
            errors.append(error)
        free.release()

    def take() -> None:
        if not free.acquire(timeout=TIMEOUT_MS / 1000):
            raise RequestTimeout("bench topics", TIMEOUT_MS)
        if errors:
            raise errors[0]

    with RemotingClient() as client:
        for number in range(count):
            take()
            request = CreateTopic(topic_name(number), QUEUES_OF_TOPIC, QUEUES_OF_TOPIC, PERMISSION_READ_WRITE)
            client.send_nowait(address, request, None, timeout_ms=TIMEOUT_MS, on_reply=on_reply)
        for _ in range(CREATED_IN_FLIGHT):
            take()


def measure(directory: str, engine: str, queues: int, options: argparse.Namespace) -> dict[str, Any]:
    """One point of the curve."""
    files = replace(
        LogFiles(), segment_bytes=options.segment_mib << 20, retained_bytes=int(options.log_gib * (1 << 30))
    )
    store = store_settings(files, flush="async", index=True, pages="filling", engine=engine)
    store |= {"retention_bytes": files.retained_bytes, "recycle_segments": 4}
    with OwnCluster(directory, files) as cluster:
        cluster.start_broker(store)
        begin_ns = monotonic_ns()
        make_topics(cluster.address, queues // QUEUES_OF_TOPIC)
        made_s = (monotonic_ns() - begin_ns) / 1e9
        before = cluster.usage()
        context = ClientContext()
        dealer = context.dealer(cluster.address)
        try:
            load = CurveLoad(
                dealer, TopicBatches(size=options.size, batch=options.batch), queues=queues, batch=options.batch
            )
            sent = load.run(options.seconds, lambda: usage_of(cluster))
        finally:
            dealer.close()
            context.close()
        after = cluster.usage()
        cluster.stop_broker()
        begin_ns = monotonic_ns()
        cluster.start_broker(store, seconds=START_S)
        started_s = (monotonic_ns() - begin_ns) / 1e9
        restarted = cluster.usage()
    return {
        "queues": queues,
        "engine": engine,
        "topics_made_seconds": round(made_s, 2),
        **sent,
        "broker_cpu_us_a_message": _cpu_us(before, after, sent["messages"]),
        "memory_bytes": {"topics": before["memory_bytes"], "sent": after["memory_bytes"]},
        "start_seconds": round(started_s, 2),
        "start_cpu_seconds": round(restarted["cpu_seconds"], 2),
        "start_memory_bytes": restarted["memory_bytes"],
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m zenitmq.bench.scale.queue_curve",
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--counts", default="10,1000,10000,100000,1000000", help="numbers of queues, multiples of 10")
    parser.add_argument("--engine", default="rocksdb", choices=("file", "rocksdb"), help="what keeps the queues")
    parser.add_argument("--seconds", type=float, default=20.0, help="of sending, for each count")
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--batch", type=int, default=256, help="messages in a request")
    parser.add_argument("--log-gib", type=float, default=8.0, help="what the log keeps")
    parser.add_argument("--segment-mib", type=int, default=1024, help="size of a segment")
    parser.add_argument("--dir", default=None, help="where the stores are; they are deleted")
    parser.add_argument("--plot", default=None, metavar="FILE.svg", help="draw the curve")
    options = parser.parse_args()
    points = []
    for queues in [int(text) for text in options.counts.split(",")]:
        with tempfile.TemporaryDirectory(dir=options.dir) as directory:
            points.append(measure(directory, options.engine, queues, options))
            place = environment(directory)
    if options.plot:
        curve = [(log10(point["queues"]), float(point["messages_per_second"])) for point in points]
        panel = Panel(
            title=f"{options.engine}: messages of {options.size} B, {options.batch} in a request",
            x_label="number of queues, as a power of ten",
            y_label="messages/s",
            points=curve,
        )
        with open(options.plot, "w", encoding="utf-8") as file:
            file.write(render("Throughput over the number of queues", [panel]))
    print(json.dumps({"points": points, "environment": place}, indent=1))


if __name__ == "__main__":
    main()
