"""Measures how fast an offset is found by its time in a long queue: `python -m zenitmq.bench.scale.offset_times [--engine E]`.

Starts a name server and a broker, each in a process, sends messages into one queue for `--messages` of them, and asks for the
offset at random times between the first and the last, one after the other. Prints JSON: the latency at the client, and how long
the same way takes for a question that needs no search (`max_offset`). Each tenth answer is compared with the messages there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from random import Random
from typing import Any, Final

import numpy as np

from ...client.admin import Admin
from ...client.producer import Producer
from ...model.clock import monotonic_ns
from ...model.errors import SystemFault
from ...record.kernel import decode_batch
from ...remoting.client import RemotingClient
from ...remoting.commands import GetMaxOffset, PullMessages, SearchOffset
from ..environment import environment
from ..own_cluster import LogFiles, OwnCluster, store_settings
from ..percentiles import latency_us

TOPIC: Final = "bench-times"
SENT_AT_ONCE: Final = 1024
BODY_BYTES: Final = 64
TIMEOUT_MS: Final = 30_000
CHECKED: Final = 10


class TimesLoad:
    """The questions. One thread."""

    def __init__(self, client: RemotingClient, address: str) -> None:
        self._client = client
        self._address = address

    def max_offset(self) -> int:
        """The offset behind the last message."""
        return self._client.call(self._address, GetMaxOffset(TOPIC, 0), timeout_ms=TIMEOUT_MS)[0].offset

    def search(self, timestamp_ms: int) -> int:
        """The first message stored at that time or later."""
        return self._client.call(self._address, SearchOffset(TOPIC, 0, timestamp_ms), timeout_ms=TIMEOUT_MS)[0].offset

    def stored_ms(self, offset: int) -> int:
        """When that message was stored."""
        request = PullMessages("", TOPIC, 0, offset, 1, 1 << 20)
        _, payload = self._client.call(self._address, request, timeout_ms=TIMEOUT_MS)
        return int(decode_batch(payload)[0].stored_at.timestamp() * 1000 + 0.5)

    def measure(self, messages: int, queries: int) -> dict[str, Any]:
        """{search, max_offset}: latencies in us. Raises SystemFault if an answer is wrong."""
        draw = Random(1)
        first, last = self.stored_ms(0), self.stored_ms(messages - 1)
        searched, asked = [], []
        for number in range(queries):
            timestamp_ms = draw.randint(first, last)
            begun_ns = monotonic_ns()
            offset = self.search(timestamp_ms)
            searched.append(monotonic_ns() - begun_ns)
            begun_ns = monotonic_ns()
            self.max_offset()
            asked.append(monotonic_ns() - begun_ns)
            if number % CHECKED == 0 and not (
                self.stored_ms(offset) >= timestamp_ms and (offset == 0 or self.stored_ms(offset - 1) < timestamp_ms)
            ):
                raise SystemFault(f"bench offset times: {offset} is not the first at {timestamp_ms}")
        return {"search": _latency(searched), "max_offset": _latency(asked)}


def _latency(took_ns: list[int]) -> dict[str, float] | None:
    return latency_us(np.array(took_ns, dtype=np.int64))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m zenitmq.bench.scale.offset_times",
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--messages", type=int, default=10_000_000, metavar="N", help="in the queue")
    parser.add_argument("--queries", type=int, default=5_000, metavar="N", help="that are measured")
    parser.add_argument("--engine", default="rocksdb", choices=("file", "rocksdb"), help="what keeps the queue")
    options = parser.parse_args()
    files = LogFiles()
    with tempfile.TemporaryDirectory() as directory, OwnCluster(directory, files) as cluster:
        cluster.start_broker(store_settings(files, flush="async", index=True, pages="fresh", engine=options.engine))
        with RemotingClient() as client:
            with Admin(cluster.namesrv) as admin:
                admin.create_topic(TOPIC, queues=1)
            bodies = [b"x" * BODY_BYTES] * SENT_AT_ONCE
            with Producer("bench-times", namesrv=cluster.namesrv) as producer:
                for begin in range(0, options.messages, SENT_AT_ONCE):
                    producer.send_bodies(TOPIC, bodies[: options.messages - begin])
            figures = TimesLoad(client, cluster.address).measure(options.messages, options.queries)
        document = {"environment": environment(directory), "engine": options.engine, "messages": options.messages}
    print(json.dumps(document | figures, indent=1))


if __name__ == "__main__":
    main()
