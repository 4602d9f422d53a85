"""A canary: a message through each replica group each second, and how long it takes to come back.

It is a user's producer and consumer, of a topic for each group, `zenit-canary-GROUP`, with one queue. One thread sends and
polls in turn; a send that waits for a group without a master waits in the background. Several canaries may run: each knows
its own probes.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, Self

from ..client.admin import Admin
from ..client.producer import Producer
from ..client.pull_consumer import PullConsumer
from ..metrics.family import Labels, Reading
from ..metrics.readiness import Readiness
from ..model.clock import monotonic_ms, monotonic_ns, sleep_ms
from ..model.errors import ZenitError
from ..model.message import Message
from ..model.queue import MessageQueue
from .probes import Probes

log = logging.getLogger(__name__)

TOPIC: Final = "zenit-canary-{}"
INTERVAL_MS: Final = 1_000
LOOK_MS: Final = 10_000
"""How often it is looked which groups there are."""
SEND_S: Final = 9.0
NO_GROUPS: Final = "no groups: no name server answers, or no broker is registered"


class Canary:
    """A context manager and a Subject of the metrics' port. `run` sends until `stop`; one thread."""

    def __init__(self, namesrv: str | None, *, interval_ms: int = INTERVAL_MS) -> None:
        """`namesrv`: as for a Producer."""
        self.turned_ms = monotonic_ms()
        self._interval_ms = interval_ms
        self._run = secrets.token_hex(4)
        self._number = 0
        self._probes = Probes()
        self._groups: dict[str, str] = {}  # {group: its topic}
        self._of_topic: dict[str, str] = {}
        self._unsent: deque[tuple[str, int]] = deque()  # from the client's thread
        self._cluster = ""
        self._look_ms = 0
        self._stopping = False
        with ExitStack() as opened:
            self._admin = opened.enter_context(Admin(namesrv))
            self._producer = opened.enter_context(
                Producer("zenit-canary", namesrv=namesrv, batch_timeout=SEND_S, timeout=1.0)
            )
            self._consumer = opened.enter_context(PullConsumer(None, namesrv=namesrv))
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def stop(self) -> None:
        """Makes `run` return soon. From any thread or a signal handler."""
        self._stopping = True

    def run(self) -> None:
        """Sends a probe to each group at each interval, and takes what comes back between."""
        log.info("canary started run=%s", self._run)
        next_ms = monotonic_ms()
        while not self._stopping:
            self.turned_ms = now_ms = monotonic_ms()
            if now_ms >= self._look_ms:
                self._look()
            if now_ms >= next_ms:
                next_ms = max(next_ms + self._interval_ms, now_ms)
                self._send()
            self._receive(max(1, next_ms - monotonic_ms()))

    def _look(self) -> None:
        """Which groups there are, each with its topic. What cannot be asked now stays as it was."""
        self._look_ms = monotonic_ms() + LOOK_MS
        try:
            document = self._admin.cluster(timeout=1.0)
            names = sorted(name for names in document["clusters"].values() for name in names)
            self._cluster = next(iter(document["clusters"]), "")
            for name in names:
                if name not in self._groups:
                    topic = TOPIC.format(name)
                    self._admin.create_topic(topic, queues=1, brokers=[name], timeout=2.0)
                    self._groups[name] = topic
                    log.info("a group is watched group=%s topic=%s", name, topic)
        except ZenitError as error:
            log.warning("the cluster's groups cannot all be asked: %s", error)
        else:
            for name in self._groups.keys() - set(names):
                del self._groups[name]
        if self._of_topic != {topic: name for name, topic in self._groups.items()}:
            self._of_topic = {topic: name for name, topic in self._groups.items()}
            self._consumer.assign([MessageQueue(topic, name, 0) for name, topic in self._groups.items()])
            self._begin()
        self._probes.keep(self._groups)

    def _begin(self) -> None:
        """Where the reading begins is known before a probe is sent: else the first one might be before it."""
        try:
            self._consumer.assignment()
        except ZenitError as error:
            log.warning("probes cannot be received yet: %s", error)

    def _send(self) -> None:
        for name, topic in self._groups.items():
            self._number += 1
            number = self._number
            self._probes.on_sent(name, number, monotonic_ns())
            try:
                future = self._producer.send_async(Message(topic, f"{self._run} {number}".encode()))
            except ZenitError as error:
                log.warning("a probe cannot be sent group=%s error=%s", name, error)
                self._unsent.append((name, number))
            else:
                future.add_done_callback(partial(self._on_sent, name, number))

    def _on_sent(self, name: str, number: int, future: Any) -> None:
        """The client's thread."""
        if future.exception() is not None:
            self._unsent.append((name, number))

    def _receive(self, wait_ms: int) -> None:
        try:
            messages = self._consumer.poll(timeout=wait_ms / 1000) if self._groups else self._wait(wait_ms)
        except ZenitError as error:
            log.warning("probes cannot be received now: %s", error)
            messages = self._wait(wait_ms)
        now_ns = monotonic_ns()
        for message in messages:
            run, _, number = bytes(message.body).decode("ascii", "replace").partition(" ")
            if run == self._run and number.isdecimal() and message.topic in self._of_topic:
                self._probes.on_received(self._of_topic[message.topic], int(number), now_ns)
        while self._unsent:
            self._probes.on_unsent(*self._unsent.popleft())
        self._probes.on_tick(now_ns)

    def _wait(self, wait_ms: int) -> list[Any]:
        sleep_ms(wait_ms)
        return []

    # ---- for the metrics' port, in its thread

    @property
    def labels(self) -> Labels:
        """Of every series."""
        return ("cluster", self._cluster), ("node_type", "canary"), ("node_id", self._run)

    def readiness(self) -> Readiness:
        """It knows a group."""
        return Readiness("canary", () if self._groups else (NO_GROUPS,))

    def readings(self) -> Iterator[Reading]:
        """What the probes tell."""
        yield from self._probes.readings(monotonic_ns())

    def detail(self, _: str) -> None:
        """It has no queues."""
