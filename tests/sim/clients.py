"""Producers with the client's own retry policy, and a consumer that follows what may be read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from zenitmq.client.connection.retry import RetryPolicy
from zenitmq.model.errors import RequestTimeout, ZenitError

from .ledger import Violation
from .schedule import Host

if TYPE_CHECKING:
    from .simulation import Simulation

SEND_TIMEOUT_MS: Final = 3000


class Producer(Host):
    """Sends one message after the other to one queue; the next once the last was acknowledged or given up."""

    def __init__(self, simulation: Simulation, number: int, *, pause_ms: int) -> None:
        super().__init__(simulation.schedule, f"producer-{number}")
        self.number = number
        self.acknowledged = self.given_up = 0
        self.stopping = False
        self._simulation = simulation
        self._pause_ms = pause_ms
        self._retry = RetryPolicy(try_ms_min=400)
        self._sequence = 0
        self._tries = 0
        self._try = 0  # answers of earlier tries are late
        self._deadline_ms = 0
        self.next()

    def next(self) -> None:
        """The next message."""
        if self.stopping:
            return
        self._sequence += 1
        self._tries = 0
        self._deadline_ms = self.monotonic_ms() + SEND_TIMEOUT_MS
        self._send()

    def _send(self) -> None:
        self._tries += 1
        self._try += 1
        left_ms = self._deadline_ms - self.monotonic_ms()
        timeout_ms = self._retry.try_timeout_ms(SEND_TIMEOUT_MS, left_ms)
        on_answer = partial(self._on_answer, self._try)
        self._simulation.send_message(self, self.number % 2, self._sequence, on_answer)
        self.after_ms(timeout_ms, partial(on_answer, RequestTimeout("send", timeout_ms)))

    def _on_answer(self, number: int, answer: int | ZenitError) -> None:
        if number != self._try:
            return
        self._try += 1
        if not isinstance(answer, ZenitError):
            self.acknowledged += 1
            self._simulation.ledger.on_answered(self.number, self.number % 2, answer)
            self._simulation.told.append((self.number, self._sequence, answer))
            self.after_ms(self._pause_ms * (0.5 + self.schedule.rng.random()), self.next)
            return
        left_ms = self._deadline_ms - self.monotonic_ms()
        delay_ms = self._retry.delay_ms(answer, tries=self._tries, left_ms=left_ms, elsewhere=False)
        if delay_ms is None:
            self.given_up += 1
            self.after_ms(1, self.next)
            return
        self.after_ms(delay_ms, self._send)


class Consumer(Host):
    """Reads on from where it was, at any replica, below its confirm offset: gets each byte once, and always the same."""

    def __init__(self, simulation: Simulation, *, pause_ms: int) -> None:
        super().__init__(simulation.schedule, "consumer")
        self.read = bytearray()
        self._simulation = simulation
        self.every(pause_ms, self.pull)

    def pull(self) -> None:
        """One pull: what is below the confirm offset now, at somebody who lives."""
        living = list(self._simulation.brokers.values())
        if not living:
            return
        broker = self.schedule.rng.choice(living)
        log, disk, begin = broker.replica.log, broker.disk, len(self.read)
        end = min(log.confirm, log.end, len(disk.log))
        if disk.begin <= begin < end:
            self.read += disk.log[begin:end]
        elif begin < disk.begin and end > disk.begin:
            self.read += self._simulation.ledger.seen.data[begin : disk.begin]  # expired: it goes on further behind
        if self.read != self._simulation.ledger.seen.data[: len(self.read)]:
            raise Violation("I3: a consumer was shown what nobody may rely on")
