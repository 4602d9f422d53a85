"""Decides which queues a push consumer has, and moves them, in its own thread or task: it asks brokers and waits for
handlers.

It runs at once when the group's members, the routes or the subscriptions have changed, and every 20 s. What could not be
done is tried again soon; a topic whose brokers cannot be asked keeps its queues meanwhile.

Before a queue moves, nothing more is handed out of it and its handlers have a second to finish. What they did is then
committed and the queue dropped. If queues are locked, a queue with a running handler stays locked, and its lease is
renewed, until the handler has ended: the next owner must not begin before.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from ....model.clock import monotonic_ms
from ....model.errors import TopicNotFound, ZenitError
from ....model.queue import MessageQueue
from ....model.repeated_news import RepeatedNews
from ....model.subscription import Subscription
from ...connection.membership import Member
from ...connection.retry import RetryPolicy
from ...connection.waiting import Signal, Signals, Waits
from ..assignment import Assignment, by_broker, made_anew
from .positions import Positions
from .queue_locks import QueueLocks
from .work import PushWork

log = logging.getLogger(__name__)

LOOK_MS: Final = 20_000
LOOK_AGAIN_MS: Final = 200  # after an incomplete rebalance; doubles each time
LOOK_AGAIN_MS_MAX: Final = 2_000
START_RETRIES: Final = RetryPolicy()
HANDOVER_MS: Final = 1_000  # how long a moving queue waits for its handlers


class Rebalance:
    """The queues of one consumer. `look_now` from any thread; the rest by one at a time."""

    def __init__(
        self,
        waits: Waits,
        work: PushWork,
        assignment: Assignment,
        positions: Positions,
        locks: QueueLocks | None,
        *,
        group: str,
        member: Callable[[], Member],
        subscriptions: Callable[[], Mapping[str, Subscription]],
        timeout_ms: int,
        save_ms: int | None,
    ) -> None:
        """`locks`: if queues are consumed in order. `save_ms`: how often this saves offsets; None = another part does."""
        self._waits = waits
        self._work = work
        self._assignment = assignment
        self._positions = positions
        self._locks = locks
        self._group = group
        self._member = member
        self._subscriptions = subscriptions
        self._timeout_ms = timeout_ms
        self._save_ms = save_ms
        self._asking = waits.new_lock()  # positions and assignment are used by one at a time
        self._lock = threading.Lock()
        self._news = RepeatedNews()  # by topic: why its queues are unknown
        self._is_due = False  # something has changed since the last rebalance began; under the lock
        self._changed = Signals()  # under the lock
        self._is_stopping = False
        self._ended: Signal | None = None

    def start(self) -> None:
        """Begins to rebalance."""
        self._ended = self._waits.new_signal()
        self._waits.start(self._run, f"zenit-moves-{self._group}")

    def look_now(self) -> None:
        """Something has changed."""
        with self._lock:
            self._is_due = True
            self._changed.set_all()

    def end(self) -> None:
        """Stops, after a rebalance in progress."""
        self._is_stopping = True
        self.look_now()

    async def stop(self, deadline_ms: int) -> None:
        """Stops and waits for the end, but not beyond the deadline."""
        self.end()
        if self._ended is not None:
            await self._ended.wait(max(0, deadline_ms - monotonic_ms()))

    async def begin_topic(self, topic: str, check_usable: Callable[[], None]) -> None:
        """Makes sure that nothing sent to the topic from now on is skipped. Waits up to `timeout_ms` for an unreachable
        broker.

        Raises why not; between tries, what `check_usable` raises.
        """
        deadline_ms = monotonic_ms() + self._timeout_ms
        tries = 0
        while True:
            try_ms = START_RETRIES.try_timeout_ms(self._timeout_ms, deadline_ms - monotonic_ms())
            try:
                async with self._asking:
                    await self._positions.start(topic, timeout_ms=try_ms)
                return
            except ZenitError as error:
                check_usable()
                tries += 1
                left_ms = deadline_ms - monotonic_ms()
                delay_ms = START_RETRIES.delay_ms(error, tries=tries, left_ms=left_ms, elsewhere=False)
                if delay_ms is None or not self._assignment.may_pass(error, [topic]):
                    raise
            self._assignment.refresh_soon([topic])
            await self._waits.sleep(delay_ms)

    async def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Saves offsets and waits for it. Logs a failure."""
        if not offsets:
            return
        try:
            async with self._asking:
                await self._positions.commit(offsets, self.on_committed, timeout_ms=self._timeout_ms)
        except ZenitError as error:
            log.warning("offsets not committed group=%s error=%s", self._group, error)

    def on_committed(self, part: list[tuple[MessageQueue, int]], error: ZenitError | None) -> None:
        """Called for each part of a commit."""
        if error is None:
            self._work.on_committed(part)

    # ---- in its own thread or task

    async def _run(self) -> None:
        try:
            await self._look_again_and_again()
        finally:
            if self._ended is not None:
                self._ended.set()

    async def _look_again_and_again(self) -> None:
        look_ms = incomplete = 0
        save_ms = monotonic_ms() + (self._save_ms or 0)
        while not self._is_stopping:
            now = monotonic_ms()
            with self._lock:
                is_due, self._is_due = self._is_due or now >= look_ms, False
            if is_due:
                incomplete = 0 if await self._looked() else incomplete + 1
                again_ms = min(LOOK_AGAIN_MS << min(incomplete - 1, 8), LOOK_AGAIN_MS_MAX) if incomplete else LOOK_MS
                look_ms = monotonic_ms() + again_ms
            if self._save_ms is not None and now >= save_ms:
                await self.save(self._work.uncommitted())
                save_ms = now + self._save_ms
            await self._wait_changed(look_ms if self._save_ms is None else min(look_ms, save_ms))

    async def _wait_changed(self, until_ms: int) -> None:
        with self._lock:
            if self._is_due:
                return
            changed = self._changed.add(self._waits.new_signal())
        try:
            await changed.wait(max(0, until_ms - monotonic_ms()))
        finally:
            with self._lock:
                self._changed.discard(changed)

    async def _looked(self) -> bool:
        """Catches and logs every error. True if the rebalance is complete."""
        try:
            return await self._look()
        except ZenitError as error:
            log.warning("queues stay as they are group=%s error=%s", self._group, error)
        except Exception:
            log.exception("a look at the queues failed group=%s", self._group)
        return False

    async def _look(self) -> bool:
        subscriptions = dict(self._subscriptions())
        ours, leaving = self._work.queues()
        wanted: dict[MessageQueue, Subscription] = {}
        is_done = True
        for topic, subscription in subscriptions.items():
            try:
                queues, is_known = await self._queues_of(topic)
            except TopicNotFound:
                is_done = False  # not created yet, or deleted
                continue
            except ZenitError as error:
                queues, is_known = [queue for queue in ours if queue.topic == topic], False
                count = self._news.count_to_tell(topic, type(error).__name__, monotonic_ms())
                if count:
                    log.warning(
                        "queues of a topic stay as they are group=%s topic=%s error=%s times=%d",
                        *(self._group, topic, error, count),
                    )
            else:
                if self._news.is_over(topic):
                    log.info("queues of a topic are known again group=%s topic=%s", self._group, topic)
            is_done = is_done and is_known
            wanted |= dict.fromkeys(queues, subscription)
        anew = made_anew(ours | leaving, wanted)
        if anew:  # their messages are not committed: they belong to a topic that is gone
            self._work.revoke(anew)
            ours, leaving = ours - anew, leaving - anew
        self._work.resubscribe(wanted)
        back = leaving & wanted.keys()
        if back:
            self._work.stay(back)
        given_up = await self._give_up((ours | leaving) - wanted.keys())
        begun = await self._begin({queue: wanted[queue] for queue in sorted(wanted.keys() - ours - back)})
        return is_done and given_up and begun

    async def _queues_of(self, topic: str) -> tuple[list[MessageQueue], bool]:
        async with self._asking:
            queues, is_known = await self._assignment.queues_of([topic], self._member(), timeout_ms=self._timeout_ms)
            if not is_known:
                self._assignment.forget_announcements()
        return queues, is_known

    async def _give_up(self, lost: set[MessageQueue]) -> bool:
        """False if the handler of a locked queue is still running."""
        if not lost:
            return True
        calm, offsets = await self._work.leave(lost, monotonic_ms() + HANDOVER_MS)
        await self.save(offsets)
        if self._locks is None:
            self._work.revoke(lost)
            calm = lost
        else:
            self._work.revoke(calm)
            await self._locks.unlock(sorted(calm), timeout_ms=self._timeout_ms)
        log.info("queues given up group=%s queues=%s", self._group, sorted(map(str, calm)))
        return calm == lost

    async def _begin(self, fresh: Mapping[MessageQueue, Subscription]) -> bool:
        """False if a queue could not begin: another member still has its lock, or its broker does not answer."""
        if not fresh:
            return True
        leases = dict.fromkeys(fresh, 0)
        if self._locks is None:
            await self._assignment.wait_for_fellows()
        else:
            leases = await self._locks.lock(fresh, timeout_ms=self._timeout_ms)
        begun = []
        for part in by_broker(leases):
            if self._is_stopping:
                break
            try:
                async with self._asking:
                    positions = await self._positions.begin(part, timeout_ms=self._timeout_ms)
            except ZenitError as error:
                log.warning("queues are not begun yet group=%s queues=%s error=%s", self._group, part, error)
                continue
            for queue, (offset, committed) in positions.items():
                self._work.assign(
                    queue, offset, committed=committed, subscription=fresh[queue], leased_until_ms=leases[queue]
                )
            begun += part
        if begun:
            log.info("queues begun group=%s queues=%s", self._group, sorted(map(str, begun)))
        return len(begun) == len(fresh)
