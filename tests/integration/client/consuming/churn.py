"""Members that join and leave a group at random while messages come in: is one lost, and which are handled twice?

As a script it starts a cluster of its own and prints what happened; the same seed draws the same joins and leaves:

    python tests/integration/client/consuming/churn.py --seconds 60 --members 20 --seed 1 --fails 0.5 --push 0.5

Members are pull consumers and push consumers, side by side. One leaves by closing, or (pulling) by an exception, which
leaves uncommitted what it had in hand. A message that is handled
twice must have been in flight when its queue moved: another member handled it first, and had no time to commit it before
the second began. How long before is reported; it is bounded by the interval of commits and how late threads may run.
"""

from __future__ import annotations

import argparse
import json
import random
import threading
from collections import defaultdict
from dataclasses import asdict, dataclass, field

from zenitmq import FIRST, MessageQueue, Producer, PullConsumer, PushConsumer
from zenitmq.model.clock import monotonic_ms
from zenitmq.testing import LocalCluster

COMMIT_MS = 500
GROUP = "churn"


@dataclass(frozen=True)
class Handling:
    """`member`: one stay of one member in the group."""

    member: int
    offset: int
    body: bytes
    at_ms: int


@dataclass(frozen=True)
class Report:
    """What happened. `unexplained`: messages that one member handled twice. `age_ms_max`: how long before the queue's new
    owner began the former one had handled what both did."""

    sent: int
    lost: int
    joins: int
    failures: int
    moves: int
    duplicates: int
    unexplained: int
    age_ms_max: int


@dataclass
class Ledger:
    """Who handled what, in the order of time. Any thread."""

    by_queue: dict[MessageQueue, list[Handling]] = field(default_factory=lambda: defaultdict(list))
    bodies: set[bytes] = field(default_factory=set)
    joins: int = 0
    failures: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def join(self) -> int:
        with self._lock:
            self.joins += 1
            return self.joins

    def fail(self) -> None:
        with self._lock:
            self.failures += 1

    def add(self, member: int, batch: object) -> None:
        now = monotonic_ms()
        with self._lock:
            for message in batch:  # type: ignore[attr-defined]
                self.by_queue[message.queue].append(Handling(member, message.queue_offset, message.body, now))
                self.bodies.add(message.body)

    def report(self, sent: set[bytes]) -> Report:
        duplicates = unexplained = moves = age_ms_max = 0
        for handlings in self.by_queue.values():
            began_ms: dict[int, int] = {}
            seen: dict[int, Handling] = {}
            for handling in handlings:
                moves += handling.member not in began_ms
                began_ms.setdefault(handling.member, handling.at_ms)
                first = seen.setdefault(handling.offset, handling)
                if first is not handling:
                    duplicates += 1
                    unexplained += first.member == handling.member
                    age_ms_max = max(age_ms_max, began_ms[handling.member] - first.at_ms)
        lost = len(sent - self.bodies)
        return Report(len(sent), lost, self.joins, self.failures, moves, duplicates, unexplained, age_ms_max)


class Leaves(Exception):
    """A member's way out with messages in hand."""


def push(namesrv: str, topic: str, ledger: Ledger, stay_ms: int) -> None:
    """One stay of one member whose handler is called."""
    member = ledger.join()
    consumer = PushConsumer(
        GROUP, namesrv=namesrv, start_from=FIRST, concurrency=2, batch_size=8, commit_interval=COMMIT_MS / 1000
    )
    consumer.on_message(lambda messages: ledger.add(member, messages))
    consumer.subscribe(topic)
    with consumer:
        threading.Event().wait(stay_ms / 1000)


def pull(namesrv: str, topic: str, ledger: Ledger, stay_ms: int, *, fails: bool) -> None:
    """One stay of one member that polls."""
    member = ledger.join()
    until_ms = monotonic_ms() + stay_ms
    consumer = PullConsumer(GROUP, namesrv=namesrv, start_from=FIRST, auto_commit_interval=COMMIT_MS / 1000)
    try:
        with consumer:
            consumer.subscribe(topic)
            while monotonic_ms() < until_ms:
                ledger.add(member, consumer.poll(64, timeout=0.1))
            if fails:
                raise Leaves
    except Leaves:
        ledger.fail()


def come_and_go(namesrv: str, topic: str, ledger: Ledger, seed: str, fails: float, pushes: bool, until_ms: int) -> None:
    """One member's life: out for a while, in for a while, out again."""
    draw = random.Random(seed)
    while monotonic_ms() < until_ms:
        threading.Event().wait(draw.uniform(0, 2))
        stay_ms, does_fail = draw.randint(300, 4000), draw.random() < fails
        stay_ms = min(stay_ms, max(1, until_ms - monotonic_ms()))
        if pushes:
            push(namesrv, topic, ledger, stay_ms)
        else:
            pull(namesrv, topic, ledger, stay_ms, fails=does_fail)


def send(namesrv: str, topic: str, rate: int, until_ms: int) -> set[bytes]:
    """Numbered messages at a steady rate, each acknowledged."""
    sent: set[bytes] = set()
    with Producer("churn", namesrv=namesrv) as producer:
        while monotonic_ms() < until_ms:
            bodies = [b"%08d" % (len(sent) + number) for number in range(max(1, rate // 20))]
            producer.send_bodies(topic, bodies)
            sent.update(bodies)
            threading.Event().wait(0.05)
    return sent


def churn(
    namesrv: str, topic: str, *, seconds: float, members: int, rate: int, seed: int, fails: float, pushing: float
) -> Report:
    """Runs it: members come and go while messages are sent, then one stays until it has seen to the rest."""
    ledger = Ledger()
    until_ms = monotonic_ms() + round(seconds * 1000)
    threads = [
        threading.Thread(
            target=come_and_go,
            args=(namesrv, topic, ledger, f"{seed}.{number}", fails, number < members * pushing, until_ms),
        )
        for number in range(members)
    ]
    for thread in threads:
        thread.start()
    sent = send(namesrv, topic, rate, until_ms)
    for thread in threads:
        thread.join()
    deadline_ms = monotonic_ms() + 30_000
    while not sent <= ledger.bodies and monotonic_ms() < deadline_ms:
        pull(namesrv, topic, ledger, 1000, fails=False)
    return ledger.report(sent)


def main() -> None:
    """The script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--rate", type=int, default=1000, help="messages a second")
    parser.add_argument("--queues", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fails", type=float, default=0.5, help="share of the pullers' leaves that are exceptions")
    parser.add_argument("--push", type=float, default=0.5, help="share of the members that are push consumers")
    given = parser.parse_args()
    with LocalCluster() as cluster:
        topic = cluster.create_topic("churn", queues=given.queues)
        report = churn(
            cluster.namesrv,
            topic,
            seconds=given.seconds,
            members=given.members,
            rate=given.rate,
            seed=given.seed,
            fails=given.fails,
            pushing=given.push,
        )
    print(json.dumps(asdict(report)))


if __name__ == "__main__":
    main()
