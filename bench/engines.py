"""Measures an engine in this process: `python -m zenitmq.bench.engines [ENGINE] [--batch N] [--messages N] [--sends N]`.

ENGINE is `memory://NAME` (by default), `embedded:///DIRECTORY` or `local:///DIRECTORY`. Prints JSON:

- `send_batch_and_poll`: one thread sends batches while another one polls, until it has all of them; `cpu_us`: what the whole
  process used for a message, which says more than the clock where others use the machine, too;
- `send_bodies_and_poll`: the same without an object for each message;
- `send`: the latency of single sends, nobody consuming, in another thread than the main one, and in that.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..client.admin import Admin
from ..client.consuming.start_from import FIRST
from ..client.producer import Producer
from ..client.pull_consumer import PullConsumer
from ..model.clock import monotonic_ns, process_cpu_ns
from ..model.errors import SystemFault
from ..model.message import Message
from .environment import environment
from .percentiles import latency_us

BODY: Final = bytes(128)
QUEUES: Final = 4
POLL_MESSAGES: Final = 4096
POLL_S: Final = 10.0
SEND_S: Final = 600.0


def move(namesrv: str, topic: str, send: Callable[[Producer], object], batches: int, batch: int) -> dict[str, float]:
    """Sends so many batches to a new topic while another thread polls. Raises SystemFault if not all come out."""
    with Admin(namesrv) as admin:
        admin.create_topic(topic, queues=QUEUES)
    wanted, polled = batches * batch, 0
    with Producer(namesrv=namesrv) as producer, PullConsumer(topic, namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        consumer.poll(timeout=0.01)

        def poll() -> None:
            nonlocal polled
            while polled < wanted:
                count = len(consumer.poll(max_messages=POLL_MESSAGES, timeout=POLL_S))
                if not count:
                    return
                polled += count

        polling = threading.Thread(target=poll, name="bench-poll")
        sending = threading.Thread(target=lambda: [send(producer) for _ in range(batches)], name="bench-send")
        begun_ns, cpu_ns = monotonic_ns(), process_cpu_ns()
        polling.start()
        sending.start()
        sending.join(SEND_S)
        polling.join(2 * POLL_S)
        seconds, cpu_us = (monotonic_ns() - begun_ns) / 1e9, (process_cpu_ns() - cpu_ns) / 1e3
    if polled != wanted:
        raise SystemFault(f"bench engines: {wanted} messages were sent, {polled} came")
    return {"messages_per_second": round(wanted / seconds), "cpu_us": round(cpu_us / wanted, 2)}


def measure(namesrv: str, *, messages: int, batch: int, sends: int) -> dict[str, Any]:
    """All figures of one engine."""
    batches = max(1, messages // batch)
    topic = "bench-messages"
    together = [Message(topic, BODY) for _ in range(batch)]
    bodies = [BODY] * batch
    found: dict[str, Any] = {
        "send_batch_and_poll": move(namesrv, topic, lambda producer: producer.send_batch(together), batches, batch),
        "send_bodies_and_poll": move(
            namesrv, "bench-bodies", lambda producer: producer.send_bodies("bench-bodies", bodies), batches, batch
        ),
    }
    one = Message(topic, BODY)

    def send_one_by_one(values_ns: list[int]) -> None:
        for _ in range(sends):
            begun_ns = monotonic_ns()
            producer.send(one)
            values_ns.append(monotonic_ns() - begun_ns)

    mains: list[int] = []
    others: list[int] = []
    with Producer(namesrv=namesrv) as producer:
        send_one_by_one(mains)
        sending = threading.Thread(target=send_one_by_one, args=(others,), name="bench-send")
        sending.start()
        sending.join(SEND_S)
    return found | {
        "send_us": latency_us(np.array(others, dtype=np.int64)),
        "send_in_main_thread_us": latency_us(np.array(mains, dtype=np.int64)),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m zenitmq.bench.engines", description=__doc__.partition("\n")[0])
    parser.add_argument("engine", nargs="?", default="memory://bench")
    parser.add_argument("--messages", type=int, default=4_000_000, metavar="N")
    parser.add_argument("--batch", type=int, default=256, metavar="N")
    parser.add_argument("--sends", type=int, default=20_000, metavar="N")
    options = parser.parse_args()
    document: dict[str, Any] = {
        "environment": environment(os.getcwd()),
        "engine": options.engine,
        "batch": options.batch,
    }
    document |= measure(options.engine, messages=options.messages, batch=options.batch, sends=options.sends)
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
