"""Measures filters, in the kernel alone and through pulls from a broker of its own: `python -m zenitmq.bench.filters`.

A topic is filled with messages of which one in a hundred has the tag `rare`, and one in two hundred meets a condition on
two properties. Wall-clock figures depend on what else runs on the machine, so the broker's CPU time, which does not, is
reported as well.
"""

from __future__ import annotations

import argparse
import json
import struct
import tempfile
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ..client.admin import Admin
from ..client.consuming.start_from import FIRST
from ..client.pull_consumer import PullConsumer
from ..model.clock import monotonic_ns, process_cpu_ns
from ..model.errors import ZenitError
from ..model.properties import encode_properties
from ..model.sql92.condition import Condition
from ..model.subscription import Expression, Sql, Subscription
from ..model.tag_hash import java_hash
from ..record.kernel import UnitSelector, encode_record
from ..remoting.client import RemotingClient
from ..remoting.client_socket import ClientContext, Dealer
from ..remoting.commands import GetBrokerStatistics, PullMessages, PullReply, SendMessages, SendReply
from ..remoting.header import decode_reply, encode_request
from .environment import environment
from .own_cluster import LogFiles, OwnCluster, store_settings

TOPIC: Final = "filtered"
QUEUES: Final = 4
BATCH: Final = 1000
ONE_IN: Final = 100
TAG: Final = "rare"
CONDITION: Final = Sql("amount > 990 AND region = 'eu'")
TIMEOUT_MS: Final = 60_000
KERNEL_MESSAGES: Final = 16_384
KERNEL_ROUNDS: Final = 50
PULL_BYTES: Final = 1 << 20
IN_FLIGHT: Final = 16


def message(number: int) -> bytes:
    """The n-th record."""
    properties = {
        "TAGS": "rare" if number % ONE_IN == 0 else "common",
        "amount": str(number % 1000),
        "region": "eu" if number % 2 else "us",
    }
    return encode_record(topic=TOPIC.encode(), body=bytes(64), properties=encode_properties(properties))


def kernel_figures() -> dict[str, int]:
    """Units a second tested by a tag, messages a second by a condition, per CPU time of this thread."""
    records = [message(number) for number in range(KERNEL_MESSAGES)]
    units = bytearray()
    at = 0
    for number, record in enumerate(records):
        units += struct.pack(">qiq", at, len(record), java_hash("common" if number % ONE_IN else TAG))
        at += len(record)
    selector = UnitSelector(4096)
    log, packed = memoryview(b"".join(records)), bytes(units)
    condition = Condition(CONDITION.text)
    codes = Subscription.parse(TOPIC, TAG).codes()

    def by_tag() -> None:
        selector.select(packed, 0, len(packed), codes, 4096, 1 << 40, 1 << 60)

    def by_condition() -> None:
        selector.select_where(
            packed, log, 0, condition.names, condition.needs, condition.test, 4096, 1 << 40, lambda: True
        )

    return {
        "kernel_tag_units_per_second": _per_second(by_tag),
        "kernel_condition_messages_per_second": _per_second(by_condition),
    }


def _per_second(work: Callable[[], None]) -> int:
    best_ns = 1 << 62
    for _ in range(KERNEL_ROUNDS):
        begin_ns = process_cpu_ns()
        work()
        best_ns = min(best_ns, process_cpu_ns() - begin_ns)
    return round(KERNEL_MESSAGES / best_ns * 1e9)


def fill(dealer: Dealer, messages: int) -> None:
    """Puts this many messages into the topic's queues, batch by batch in turn."""
    payload = b"".join(message(number) for number in range(BATCH))
    waiting = 0
    for sent in range(messages // BATCH):
        if waiting == IN_FLIGHT:
            _take(dealer, SendReply)
            waiting -= 1
        request = SendMessages(TOPIC, sent % QUEUES, BATCH)
        dealer.send(encode_request(request, sent, timeout_ms=TIMEOUT_MS), payload)
        waiting += 1
    for _ in range(waiting):
        _take(dealer, SendReply)


def _take(dealer: Dealer, reply_class: type[Any]) -> tuple[int, Any, list[bytes]]:
    received = dealer.receive(TIMEOUT_MS)
    if received is None:
        raise SystemExit("the broker does not answer")
    opaque, reply = decode_reply(received[0], reply_class)
    if isinstance(reply, ZenitError):
        raise reply
    return opaque, reply, list(received[1:])


def pull_all(dealer: Dealer, expression: Expression, messages: int) -> int:
    """Reads the topic through bare pulls, one in flight per queue; returns how many messages passed."""
    wanted = Subscription.parse(TOPIC, expression)
    passed = 0
    due = deque((queue_id, 0) for queue_id in range(QUEUES))
    in_flight = 0
    while due or in_flight:
        while due:
            queue_id, offset = due.popleft()
            request = PullMessages("bench", TOPIC, queue_id, offset, 4096, PULL_BYTES, 1000, wanted.codes(), wanted.sql)
            dealer.send(encode_request(request, queue_id, timeout_ms=TIMEOUT_MS), None)
            in_flight += 1
        queue_id, reply, _ = _take(dealer, PullReply)
        in_flight -= 1
        passed += reply.count
        if reply.next_offset < messages // QUEUES:
            due.append((queue_id, reply.next_offset))
    return passed


def consume_all(namesrv: str, expression: Expression, wanted: int) -> int:
    """Reads the topic with a PullConsumer until this many messages came."""
    count = 0
    with PullConsumer("bench-filters", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(TOPIC, expression)
        while count < wanted:
            count += len(consumer.poll(4096, timeout=60.0))
    return count


def pull_figures(messages: int) -> dict[str, dict[str, float]]:
    """Messages examined a second through a broker's pulls, by the wall clock and by the broker's CPU time."""
    files = LogFiles()
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="zenit-filters-") as directory, OwnCluster(directory, files) as cluster:
        cluster.start_broker(store_settings(files, flush="async", index=False, pages="fresh"))
        with Admin(cluster.namesrv) as admin:
            admin.create_topic(TOPIC, queues=QUEUES)
        context = ClientContext()
        dealer = context.dealer(cluster.address)
        with RemotingClient() as client:

            def cpu_seconds() -> float:
                _, payload = client.call(cluster.address, GetBrokerStatistics(), timeout_ms=TIMEOUT_MS)
                return float(json.loads(payload)["cpu_seconds"])

            def measured(name: str, read: Callable[[], int], passing: int) -> None:
                cpu_begin, begin_ns = cpu_seconds(), monotonic_ns()
                if read() != passing:
                    raise SystemExit(f"{name}: not {passing} messages passed")
                seconds, cpu = (monotonic_ns() - begin_ns) / 1e9, cpu_seconds() - cpu_begin
                figures[name] = {
                    "messages_per_second": round(messages / seconds),
                    "messages_per_broker_cpu_second": round(messages / cpu),
                }

            fill(dealer, messages)
            rare, met = messages // ONE_IN, messages // 1000 * 5
            measured("pulls_by_tag", lambda: pull_all(dealer, TAG, messages), rare)
            measured("consumer_by_tag", lambda: consume_all(cluster.namesrv, TAG, rare), rare)
            measured("pulls_by_condition", lambda: pull_all(dealer, CONDITION, messages), met)
        dealer.close()
        context.close()
    return figures


def main() -> None:
    """Prints one JSON document."""
    parser = argparse.ArgumentParser(prog="python -m zenitmq.bench.filters", description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000_000, help="in the topic; a multiple of 4,000")
    messages = parser.parse_args().messages // (QUEUES * BATCH) * QUEUES * BATCH
    document = {"messages": messages, **kernel_figures(), **pull_figures(messages), "environment": environment(".")}
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
