"""Measures light queues in a store: `python -m zenitmq.bench.scale.light_queues`.

Messages of very many lite topics, mixed in batches as a producer encodes them, are written to one topic of a store; then every
light queue is read. Each step with its CPU time a message: of encoding (the producer's), of writing and reading (the broker's,
without requests and replies).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from typing import Any, Final

from ...broker.service import SWITCH_INTERVAL_S
from ...client.sending.outgoing import COMPRESS_OVER_BYTES, outgoing_batch
from ...model.clock import SystemClock, monotonic_ns, process_cpu_ns
from ...model.ids import HostAddress
from ...model.message import Message
from ...model.topics.light_queues import lite_queue
from ...record.kernel import Accumulator, decode_batch
from ...store.config import StoreConfig
from ...store.message_store import MessageStore
from ..environment import environment

TOPIC: Final = "chats"
BUFFER_BYTES: Final = 1 << 20
STEP: Final = 7919  # from one message's queue to the next one's: a prime, so that all get their turn
READ_MESSAGES: Final = 32


def main() -> None:
    """Prints one JSON document."""
    parser = argparse.ArgumentParser(prog="python -m zenitmq.bench.scale.light_queues", description=__doc__)
    parser.add_argument("--queues", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--engine", choices=("file", "rocksdb", "both"), default="rocksdb")
    parser.add_argument("--batch", type=int, default=256, help="messages in a request")
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with tempfile.TemporaryDirectory() as directory:
        figures = _measure(directory, options)
    print(json.dumps({**vars(options), **figures, "environment": environment(".")}, indent=1))


def _measure(directory: str, options: argparse.Namespace) -> dict[str, Any]:
    config = StoreConfig(
        segment_bytes=256 << 20, consume_queue=options.engine, index_enabled=False, light_queues_max=options.queues
    )
    store = MessageStore(
        directory,
        config,
        store_host=HostAddress.parse("127.0.0.1", 10911),
        clock=SystemClock(),
        on_flushed=_nothing,
        on_poisoned=_end,
    )
    found: dict[str, Any] = {}
    with store:
        written = _Steps(options.messages)
        encoded = _Steps(options.messages)
        accumulator = Accumulator(TOPIC.encode(), BUFFER_BYTES, id_prefix=bytes(10))
        for first in range(0, options.messages, options.batch):
            with encoded:
                records = _batch(accumulator, first, options)
            with written:
                store.arena.view[: len(records)] = records
                store.stage(
                    0, len(records), TOPIC, first // options.batch % 8, min(options.batch, options.messages - first)
                )
                store.commit()
                store.take_arrivals()
        found["light_queues"] = store.statistics().light_queues
        store.flush_all(60_000)
        read = _Steps(options.messages)
        with read:
            messages = sum(_read(store, lite_queue(TOPIC, _name(queue))) for queue in range(options.queues))
        if messages != options.messages:
            raise AssertionError(f"{messages} messages were read")
        for name, steps in (("encode", encoded), ("write", written), ("read", read)):
            found |= steps.figures(name)
    found["queue_disk_bytes_a_queue"] = _disk_bytes(os.path.join(directory, "consumequeue")) // found["light_queues"]
    begun, before = monotonic_ns(), _own_bytes()
    with store:
        found["open_s"] = round((monotonic_ns() - begun) / 1e9, 2)
        found["memory_bytes_a_queue"] = (_own_bytes() - before) // found["light_queues"]
        for queue in range(options.queues):
            store.max_offset(lite_queue(TOPIC, _name(queue)), 0)
        found["memory_bytes_a_queue_in_use"] = (_own_bytes() - before) // found["light_queues"]
    return found


def _name(queue: int) -> str:
    return f"session-{queue}"


def _batch(accumulator: Accumulator, first: int, options: argparse.Namespace) -> memoryview:
    """The records of a producer's request."""
    last = min(first + options.batch, options.messages)
    messages = [
        Message(TOPIC, bytes(options.size), lite_topic=_name(number * STEP % options.queues))
        for number in range(first, last)
    ]
    accumulator.begin(1, 1)
    if not outgoing_batch(messages, COMPRESS_OVER_BYTES).fill(accumulator):
        raise SystemExit("a batch is larger than 1 MiB: give a smaller --batch or --size")
    buffer, used, *_ = accumulator.swap(bytearray(BUFFER_BYTES))
    return memoryview(buffer)[:used]


def _read(store: MessageStore, name: str) -> int:
    """How many messages a light queue has: each is decoded as far as its offset there."""
    count = 0
    first = store.min_offset(name, 0)
    offset: int = first
    while True:
        result = store.get_messages(name, 0, offset, max_messages=READ_MESSAGES, max_bytes=1 << 20)
        if result.untouched:
            store.known_pages.learn(result.untouched)
            continue
        for view in result.slices:
            for message in decode_batch(bytes(view), light_queue=name):
                if message.queue_offset != first + count:
                    raise AssertionError(f"{name} has {message.queue_offset} in the place of {first + count}")
                count += 1
        if result.next_offset == offset:
            return count
        offset = result.next_offset


class _Steps:
    """Adds up wall-clock and CPU time of what is done within it."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self._wall_ns = self._cpu_ns = 0
        self._begun = (0, 0)

    def __enter__(self) -> None:
        self._begun = monotonic_ns(), process_cpu_ns()

    def __exit__(self, *_: object) -> None:
        wall_ns, cpu_ns = self._begun
        self._wall_ns += monotonic_ns() - wall_ns
        self._cpu_ns += process_cpu_ns() - cpu_ns

    def figures(self, name: str) -> dict[str, float]:
        return {
            f"{name}_messages_per_second": round(self._messages / (self._wall_ns / 1e9)),
            f"{name}_cpu_us_a_message": round(self._cpu_ns / 1e3 / self._messages, 2),
        }


def _own_bytes() -> int:
    """Of memory that no file backs."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon:"))


def _disk_bytes(folder: str) -> int:
    found = 0
    for place, _, names in os.walk(folder):
        found += os.stat(place).st_blocks * 512
        found += sum(os.stat(os.path.join(place, name)).st_blocks * 512 for name in names)
    return found


def _nothing() -> None:
    """There are no waiters."""


def _end(error: Exception) -> None:
    sys.exit(f"the disk failed: {error}")


if __name__ == "__main__":
    main()
