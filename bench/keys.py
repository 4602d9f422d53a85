"""Measures queries by key over many index files: `python -m zenitmq.bench.keys [--keys N] [--queries N]`.

Starts a name server and a broker, each in a process, and sends messages of 100 keys each; the index files are full-sized, and
lie in the page cache, since they were just written. Prints JSON: how long it took to send, and the latency of

- `one`: a key that one message has, any of all, through `Admin.query_by_key` (which asks the name server for the route, too);
- `none`: a key that no message has;
- `page`: the newest 64 messages of a key that every message has, and `deep_page`: the same 1,000 pages further on;
- `send` and `send_beside_text`: single sends, before and while all messages are searched for a text, and how fast that goes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from collections.abc import Callable
from random import Random
from typing import Any, Final

import numpy as np

from ..client.admin import Admin
from ..client.producer import Producer
from ..model.clock import datetime_of_ms, monotonic_ns, sleep_ms
from ..model.errors import SystemFault
from ..model.message import Message
from .environment import environment
from .own_cluster import LogFiles, OwnCluster, store_settings
from .percentiles import latency_us

TOPIC: Final = "bench-keys"
OTHER_TOPIC: Final = "bench-others"
PROBE_MS: Final = 5
QUIET_SECONDS: Final = 3.0
KEYS_A_MESSAGE: Final = 100
SENT_AT_ONCE: Final = 128
PAGE_MESSAGES: Final = 64
DEEP_PAGES: Final = 1000
COMMON: Final = "common"


def key_of(number: int) -> str:
    """The n-th key."""
    return f"order-{number:08d}"


def message_of(number: int) -> Message:
    """The message with keys [100 n, 100 n + 100)."""
    begin = number * KEYS_A_MESSAGE
    return Message(TOPIC, b"%d" % number, keys=[COMMON, *map(key_of, range(begin, begin + KEYS_A_MESSAGE))])


def send(producer: Producer, messages: int) -> float:
    """Returns how many seconds it took."""
    begun_ns = monotonic_ns()
    for begin in range(0, messages, SENT_AT_ONCE):
        producer.send_batch([message_of(number) for number in range(begin, min(messages, begin + SENT_AT_ONCE))])
    return (monotonic_ns() - begun_ns) / 1e9


def measure(admin: Admin, messages: int, queries: int) -> dict[str, Any]:
    """The latencies. Raises SystemFault if an answer is wrong."""
    draw = Random(1)
    keys = [draw.randrange(messages * KEYS_A_MESSAGE) for _ in range(queries)]

    def one(number: int) -> bool:
        found = admin.query_by_key(TOPIC, key_of(number))
        return [message.body for message in found] == [b"%d" % (number // KEYS_A_MESSAGE)]

    cursor = None
    for _ in range(min(DEEP_PAGES, messages // PAGE_MESSAGES // 2)):
        cursor = admin.query(TOPIC, key=COMMON, max_messages=PAGE_MESSAGES, cursor=cursor).cursor

    def page(_: int, at: str | None = None) -> bool:
        return len(admin.query(TOPIC, key=COMMON, max_messages=PAGE_MESSAGES, cursor=at).messages) == PAGE_MESSAGES

    return {
        "one": _latency_ms(one, keys),
        "none": _latency_ms(lambda number: not admin.query_by_key(TOPIC, f"none-{number}"), keys),
        "page": _latency_ms(page, keys[: queries // 10]),
        "deep_page": _latency_ms(lambda number: page(number, cursor), keys[: queries // 10]),
    }


def search_text(admin: Admin, producer: Producer, seconds: float) -> dict[str, Any]:
    """The latency of sends for so long, then while a search by text reads every message."""
    message = Message(OTHER_TOPIC, b"x" * 128)

    def sends_while(goes_on: Callable[[], bool]) -> dict[str, float]:
        values_ns = []
        while goes_on():
            begun_ns = monotonic_ns()
            producer.send(message)
            values_ns.append(monotonic_ns() - begun_ns)
            sleep_ms(PROBE_MS)
        return _percentiles_ms(values_ns)

    until_ns = monotonic_ns() + int(seconds * 1e9)
    before = sends_while(lambda: monotonic_ns() < until_ns)
    examined: list[int] = []

    def search() -> None:
        cursor = None
        while True:
            page = admin.query(TOPIC, text="no such text", since=datetime_of_ms(1), cursor=cursor)
            examined.append(page.examined)
            cursor = page.cursor
            if cursor is None:
                return

    searching = threading.Thread(target=search, name="bench-search")
    begun_ns = monotonic_ns()
    searching.start()
    beside = sends_while(searching.is_alive)
    rate = sum(examined) / max(1e-9, (monotonic_ns() - begun_ns) / 1e9)
    return {"text_messages_per_second": round(rate), "send": before, "send_beside_text": beside}


def _latency_ms(query: Callable[[int], bool], numbers: list[int]) -> dict[str, float]:
    values_ns = []
    for number in numbers:
        begun_ns = monotonic_ns()
        is_right = query(number)
        values_ns.append(monotonic_ns() - begun_ns)
        if not is_right:
            raise SystemFault(f"bench keys: a wrong answer for number {number}")
    return _percentiles_ms(values_ns)


def _percentiles_ms(values_ns: list[int]) -> dict[str, float]:
    found = latency_us(np.array(values_ns, dtype=np.int64)) or {}
    return {name: round(value / 1000, 3) for name, value in found.items()}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m zenitmq.bench.keys", description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=50_000_000, metavar="N")
    parser.add_argument("--queries", type=int, default=5_000, metavar="N")
    options = parser.parse_args()
    messages = max(2 * PAGE_MESSAGES, options.keys // KEYS_A_MESSAGE)
    files = LogFiles()
    with tempfile.TemporaryDirectory(prefix="zenit-bench-") as directory, OwnCluster(directory, files) as cluster:
        cluster.start_broker(store_settings(files, flush="async", index=True, pages="fresh"))
        with Admin(cluster.namesrv) as admin, Producer("bench", namesrv=cluster.namesrv, timeout=60) as producer:
            for topic in (TOPIC, OTHER_TOPIC):
                admin.create_topic(topic, queues=8)
            seconds = send(producer, messages)
            statistics = admin.broker_statistics()
            latency_ms = measure(admin, messages, options.queries)
            text = search_text(admin, producer, QUIET_SECONDS)
        store = statistics["store"]
        document = {
            "environment": environment(directory),
            "index_entries": store["index_entries"],
            "index_files": store["index_files"],
            "send_seconds": round(seconds, 1),
            "latency_ms": latency_ms,
            "text": text,
        }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
