"""A store, its index of what waits, and what delivers from it, turn by turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from store_kit import StillClock, make_store, read_queue

from zenitmq.broker.delay.delays import Delays
from zenitmq.broker.delay.pace import Pace
from zenitmq.broker.delay.timer_index import open_timer_index
from zenitmq.broker.delay.timing import DelayRules
from zenitmq.record.new_record import NewRecord
from zenitmq.remoting.timers import Timer
from zenitmq.store.message_store import MessageStore

Later = tuple[int, Callable[[], None]]


class Loop:
    """Keeps what it is to call later."""

    def __init__(self) -> None:
        self.later: list[Later] = []

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        self.later.append((delay_ms, callback))
        return Call(self.later, self.later[-1])


class Call(Timer):
    """One of the calls that are to come later: one that is cancelled is not among them any more."""

    def __init__(self, later: list[Later], call: Later) -> None:
        super().__init__(call[1], 0)
        self._later, self._call = later, call

    def cancel(self) -> None:
        self._later.remove(self._call)


class Scene:
    """A store, its index and what delivers from it. `turn`: what the loop does."""

    def __init__(self, directory: Path, clock: StillClock, **settings: int) -> None:
        self.clock, self.loop = clock, Loop()
        self.turns = self.damages = 0
        self.leads, self.queues = True, {"t": 4, "u": 1}
        self.made_at: dict[str, int] = {}
        rules = DelayRules((1000,), 1 << 40)
        self.index = open_timer_index(str(directory), rules, clock=clock)
        self.store: MessageStore = make_store(directory, clock, dispatchers=(self.index,), segment_bytes=1 << 16)
        with ExitStack() as failed:
            failed.callback(self.index.close)
            self.store.__enter__()
            failed.pop_all()
        self.index.on_opened(lambda: self.store.written)
        self.delays = Delays(
            self.store,
            self.index,
            self.loop,
            clock,
            rules,
            leads=lambda: self.leads,
            on_damaged=self.on_damaged,
            queues_of=lambda topic: self.queues.get(topic, 0),
            made_at=lambda topic: self.made_at.get(topic, 0),
            pace=Pace(per_second=100_000, per_turn=settings.get("per_turn", 100)),
            store_host_bytes=8,
        )
        self.delays.start()

    def on_damaged(self) -> None:
        """The broker opens its store again then."""
        self.damages += 1

    def turn(self) -> int:
        """Runs what is due on the loop; returns when it wants to be called again."""
        (_, callback), *self.loop.later = self.loop.later
        self.turns += 1
        callback()
        self.store.commit()
        return self.loop.later[0][0] if self.loop.later else -1

    def delay(self, body: bytes, delay_ms: int, topic: str = "t", queue_id: int = 0) -> int:
        placed = self.delays.stage_delayed(
            NewRecord(topic=topic, queue_id=queue_id, body=body, properties={"own": "o", "DELAY": "1"}),
            deliver_at_ms=self.clock.time_ms + delay_ms,
        )
        self.store.commit()
        return placed.physical_offset

    def bodies(self, topic: str = "t", queue_id: int = 0) -> list[bytes]:
        return [message.body for message in read_queue(self.store, topic, queue_id)]

    def close(self) -> None:
        self.store.__exit__(None, None, None)
        self.index.close()
