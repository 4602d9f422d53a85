"""Those who run a push consumer's handler: threads, or tasks of an event loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ...connection.waiting import Waits
from .push_queues import Delivery

log = logging.getLogger(__name__)

GIVEN_UP_MAX: Final = 64


class Worker:
    """One of them. `delivery`: what its handler has now, set by the worker itself. `is_given_up`: it ends after that."""

    __slots__ = ("delivery", "is_given_up")

    def __init__(self) -> None:
        self.delivery: Delivery | None = None
        self.is_given_up = False


class HandlerPool:
    """As many workers as there may be handlers at a time. The owner's lock guards all but `start`."""

    def __init__(self, waits: Waits, name: str, size: int, work: Callable[[Worker], Coroutine[Any, Any, None]]) -> None:
        """`work` is a worker's whole life: it takes deliveries until the owner ends or the worker is given up."""
        self._waits = waits
        self._name = name
        self._size = size
        self._work = work
        self._workers: set[Worker] = set()
        self._given_up = 0
        self._serial = 0

    def start(self) -> None:
        """Starts the workers."""
        for _ in range(self._size):
            self._start_one()

    def give_up(self, delivery: Delivery) -> None:
        """The handler that has this delivery took too long: another worker takes its place, however long it goes on.

        Of workers that hang for good only so many are replaced; then the pool shrinks.
        """
        for worker in self._workers:
            if worker.delivery is delivery and not worker.is_given_up:
                worker.is_given_up = True
                self._given_up += 1
                if self._given_up <= GIVEN_UP_MAX:
                    self._start_one()
                else:
                    log.error(
                        "a handler hangs and is not replaced any more pool=%s hanging=%d", self._name, self._given_up
                    )
                return

    def on_end(self, worker: Worker) -> None:
        """The worker ends."""
        self._workers.discard(worker)
        self._given_up -= worker.is_given_up

    def _start_one(self) -> None:
        worker = Worker()
        self._workers.add(worker)
        self._serial += 1
        self._waits.start(lambda: self._work(worker), f"{self._name}-{self._serial}")
