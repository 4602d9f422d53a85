"""Three replicas whose master is killed in the middle of pops and acknowledgements: leases end at their time, what was
acknowledged never comes again, nothing is lost."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client_kit import remoting_of

from zenitmq import Message, Producer
from zenitmq.model.errors import ZenitError
from zenitmq.record.kernel import decode_batch
from zenitmq.remoting import commands
from zenitmq.remoting.client import RemotingClient
from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(180)

COUNT = 600
INVISIBLE_MS = 3000
PAUSE = 0.1  # so that masters are killed in the middle
LATE_MAX = 1.0 + 6.0  # an election on a machine under load is among it


class Receiver:
    """One member of a group. Each third message it leaves alone the first time; `late`: by how much those came late."""

    def __init__(self, ask: Callable[[commands.Request], Any], group: str, topic: str, is_ordered: bool) -> None:
        self.acked: set[bytes] = set()
        self.unsure: set[bytes] = set()  # whose acknowledgement a killed master may have taken without an answer
        self.late: list[float] = []
        self._ask, self._group, self._topic, self._is_ordered = ask, group, topic, is_ordered
        self._held: dict[bytes, tuple[float, float]] = {}  # asked for, and got
        self._times: defaultdict[bytes, int] = defaultdict(int)

    def run(self) -> None:
        deadline = time.monotonic() + 90
        while (count := len(self.acked | self.unsure)) < COUNT:
            assert time.monotonic() < deadline, f"{self._group}: {COUNT - count} are missing"
            self._pop()
            threading.Event().wait(PAUSE)

    def _pop(self) -> None:
        request = commands.PopMessages(
            *(self._group, self._topic, 8, INVISIBLE_MS), wait_ms=300, is_ordered=self._is_ordered
        )
        asked = time.monotonic()
        answer = self._ask(request)
        if answer is None:
            return
        (reply, payload), got = answer, time.monotonic()
        bodies = iter(bytes(message.body) for message in decode_batch(payload))
        acks = {}
        for _, count, handle, _ in reply.parts:
            for index in range(count):
                body = next(bodies)
                self._on_message(body, asked, got)
                if int(body) % 3 or self._times[body] > 1:
                    acks.setdefault(handle, []).append((index, body))
        if acks:
            rows = [(handle, sum(1 << index for index, _ in which)) for handle, which in acks.items()]
            done = self._ask(commands.AckMessages(self._group, self._topic, tuple(rows)))
            if done is None:
                self.unsure.update(body for which in acks.values() for _, body in which)
            for (code, _), which in zip(done[0].rows if done else (), acks.values(), strict=False):
                if code == 0:
                    self.acked.update(body for _, body in which)

    def _on_message(self, body: bytes, asked: float, got: float) -> None:
        assert body not in self.acked, f"{self._group}: {body!r} was acknowledged"
        self.unsure.discard(body)
        self._times[body] += 1
        if body in self._held:
            asked_before, got_before = self._held[body]
            assert got - asked_before >= INVISIBLE_MS / 1000, f"{self._group}: {body!r} comes early"
            if int(body) % 3 == 0:
                self.late.append(got - got_before - INVISIBLE_MS / 1000)
        self._held[body] = asked, got


def send(cluster: LocalCluster, topic: str) -> None:
    with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(COUNT):
            producer.send(Message(topic, b"%d" % number), sharding_key=f"k{number % 50}")


def asking(cluster: LocalCluster, client: RemotingClient) -> Callable[[commands.Request], Any]:
    known: list[str] = []  # the master's address, until somebody hears nothing from there

    def ask(request: commands.Request) -> Any:
        """Of the master; None if it does not answer."""
        try:
            address = known[0] if known else cluster.process(cluster.master).address
            answer = client.call(address, request, timeout_ms=2_000)
            known[:] = [address]
            return answer
        except (ZenitError, KeyError, TypeError):
            known.clear()
            threading.Event().wait(0.05)
            return None

    return ask


def test_leases_outlive_the_master(three_replicas: LocalCluster) -> None:
    topic = three_replicas.create_topic("popped-over", queues=4)
    send(three_replicas, topic)
    with remoting_of(three_replicas.namesrv) as client, ThreadPoolExecutor(4) as threads:
        ask = asking(three_replicas, client)
        receivers = [Receiver(ask, f"over-{number}", topic, is_ordered=number == 2) for number in range(3)]
        running = [threads.submit(receiver.run) for receiver in receivers]
        for _ in range(2):
            threading.Event().wait(1.5)
            three_replicas.wait_healthy()
            three_replicas.kill(three_replicas.master)
            threading.Event().wait(4.0)
            three_replicas.restart()
        for future in running:
            future.result()
    late = sorted(moment for receiver in receivers[:2] for moment in receiver.late)
    middle, most = late[len(late) // 2], late[len(late) * 99 // 100]
    print(f"late: {len(late)}, median {middle:.2f} s, p99 {most:.2f} s, max {late[-1]:.2f} s")
    assert late[-1] < LATE_MAX
