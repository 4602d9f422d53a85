"""Decides which queues a pull consumer reads, and moves them; the caller does both each time it asks for messages.

It runs at once when the group's members, the routes or the subscriptions have changed, and every 20 s. Before a queue is
given up, what is finished in it is committed. If the caller polls, that is everything handed out. If it only asks for its
queues, perhaps from another thread, the current messages are not included; they come again to the queue's next owner.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from ....model.clock import monotonic_ms
from ....model.errors import InvalidParameter, LocalProtocolError, ZenitError
from ....model.queue import MessageQueue
from ....model.repeated_news import RepeatedNews
from ....model.subscription import Expression, MessageModel, Subscription
from ....model.topics.light_queues import check_queue_topic, lite_topic_of, routed_topic
from ....remoting.commands import OffsetsReset
from ...connection.connection import Connection
from ...connection.membership import Member
from ...connection.waiting import take
from ..assignment import Assignment, by_broker, made_anew
from ..offset_commits import moved_queues
from ..start_from import StartFrom
from .commits import PullCommits
from .work import PullWork

log = logging.getLogger(__name__)

REBALANCE_MS: Final = 20_000
REBALANCE_AGAIN_MS: Final = 200  # after a rebalance that failed


class PullRebalance:
    """The queues of one consumer.

    `look_now` and the callbacks about the group: from any thread; one thread at a time moves queues.
    """

    def __init__(
        self,
        connection: Connection,
        work: PullWork,
        assignment: Assignment,
        commits: PullCommits,
        *,
        group: str,
        client_id: str,
        allocation: str,
        start_from: StartFrom | datetime,
        auto_commit: bool,
        timeout_ms: int,
    ) -> None:
        """`allocation`: its name, sent to the other members."""
        self._work = work
        self._assignment = assignment
        self._commits = commits
        self._group = group
        self._client_id = client_id
        self._allocation = allocation
        self._start_from = start_from
        self._auto_commit = auto_commit
        self._timeout_ms = timeout_ms
        self._members = connection.members
        self._subscriptions: dict[str, Subscription] = {}
        self._assigned: dict[MessageQueue, Subscription] | None = None
        self._lock = threading.Lock()  # guards the subscriptions
        self._moving = threading.Lock()  # held by the thread that moves queues
        self._is_stale = True  # a rebalance is due
        self.is_begun = False
        """Whether `subscribe` or `assign` was ever called."""
        self.look_again_ms = 0
        """When the next rebalance is due by time alone."""
        self._news = RepeatedNews()
        self.waits_for: ZenitError | None = None
        """What made the last rebalance fail, if it is temporary; None once one has succeeded."""

    # ---- what the caller wants

    def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        """Joins the group for their topics."""
        if self._assigned is not None:
            raise LocalProtocolError("subscribe after assign: a consumer does one or the other")
        with self._lock:
            self._subscriptions.update((subscription.topic, subscription) for subscription in subscriptions)
        self.is_begun = True
        self._join()

    def unsubscribe(self, topic: str) -> None:
        """Leaves a topic."""
        with self._lock:
            self._subscriptions.pop(topic, None)
        self._join()

    def _join(self) -> None:
        self._members.join(self._member(), self._on_members_changed, self._on_offsets_reset)
        self._assignment.forget_announcements()
        self.look_now()

    def assign(self, queues: Sequence[MessageQueue], expression: Expression) -> None:
        """Reads exactly these queues."""
        if self._subscriptions:
            raise LocalProtocolError("assign after subscribe: a consumer does one or the other")
        assigned = {queue: Subscription.parse(check_queue_topic(queue.topic), expression) for queue in queues}
        for queue in assigned:
            if self._group and lite_topic_of(queue.topic) is not None:
                needed = "no lite topic's queue: groups receive those with LiteConsumer, PullConsumer(None) only looks"
                raise InvalidParameter("queues", str(queue), needed)
        self.is_begun = True
        self._assigned = assigned
        self.look_now()

    async def begin_topic(self, topic: str) -> None:
        """Makes the brokers record where the group begins; if that fails, the first rebalance does it, or raises why not."""
        is_mine = False
        try:
            is_mine = take(self._moving, blocking=False)
            if not is_mine:
                return  # a rebalance is in progress and does it
            await self._assignment.start(topic, self._start_from, timeout_ms=self._timeout_ms)
        except ZenitError as error:
            log.info("not begun yet group=%s topic=%s error=%s", self._group, topic, error)
        finally:
            if is_mine:
                self._moving.release()

    def _member(self) -> Member:
        subscriptions = tuple(sorted(s.wire() for s in self._subscriptions.values()))
        consumer = (self._group, MessageModel.CLUSTERING.value, subscriptions)
        return Member(self._client_id, consumer=consumer, allocation=self._allocation)

    # ---- notifications

    def look_now(self) -> None:
        """The members, the routes or the subscriptions have changed: the next poll rebalances."""
        self._is_stale = True
        self.look_again_ms = 0
        self._work.tell_change()

    def on_route_changed(self, topic: str) -> None:
        """A broker came, went or changed, or the topic was deleted and created again."""
        if topic in self._subscriptions or any(routed_topic(queue.topic) == topic for queue in self._assigned or ()):
            self.look_now()

    def _on_members_changed(self) -> None:
        """In the I/O thread: a queue may go to another member, which begins at the group's committed offset."""
        self.look_now()
        if self._auto_commit:
            self._commits.send_settled()

    def _on_offsets_reset(self, reset: OffsetsReset) -> None:
        """In the I/O thread: an operator has reset the group's offsets; reading continues there."""
        moved = self._work.move(moved_queues(reset))
        if moved:
            log.warning("an operator moved the group group=%s queues=%s", self._group, sorted(map(str, moved)))

    def on_moved(self, queues: list[MessageQueue]) -> None:
        """A broker refused commits of these queues in the eras given: an operator has reset the group's offsets before."""
        old = self._work.in_era(queues)
        if old:
            log.warning("an operator moved the group, its queues are begun anew group=%s", self._group)
            self._work.revoke(old)
            self.look_now()

    # ---- moving

    async def move_if_due(self) -> None:
        """Rebalances if it is due, in the thread that polls or asks for its queues.

        Raises what makes the first rebalance fail. Later ones log it and are tried again, and so is the first if no broker
        serves a topic at present, or if a broker in the routes does not answer.
        """
        if not self._is_stale and (self._assigned is not None or monotonic_ms() < self.look_again_ms):
            return
        is_mine = is_done = False
        try:
            is_mine = take(self._moving, blocking=False)
            if not is_mine:
                return  # another thread does it
            self._is_stale = False
            await self._move()
            is_done = True
            if self._news.is_over(self._group):
                log.info("queues are known again group=%s", self._group)
            self.waits_for = None
        except ZenitError as error:
            is_first = not self._work.queues()
            self._is_stale = True
            self.look_again_ms = monotonic_ms() + REBALANCE_AGAIN_MS
            topics = self._topics()
            if not error.retriable or (is_first and not self._assignment.may_pass(error, topics)):
                raise
            self._assignment.refresh_soon(topics)
            count = self._news.count_to_tell(self._group, type(error).__name__, monotonic_ms())
            if count:
                log.warning("queues stay as they are group=%s error=%s times=%d", self._group, error, count)
            self.waits_for = error
            self._is_stale = False
            is_done = True
        finally:
            if is_mine:
                if not is_done:
                    self._is_stale = True  # also if cancelled or interrupted halfway
                self._moving.release()

    def _topics(self) -> list[str]:
        if self._assigned is not None:
            return sorted({routed_topic(queue.topic) for queue in self._assigned})
        with self._lock:
            return sorted(self._subscriptions)

    async def _move(self) -> None:
        wanted: dict[MessageQueue, Subscription]
        is_known = True
        if self._assigned is not None:
            routed = await self._assignment.as_routed(self._assigned, timeout_ms=self._timeout_ms)
            wanted = {queue: self._assigned[queue] for queue in routed}
        else:
            with self._lock:
                subscriptions = dict(self._subscriptions)
            mine, is_known = await self._assignment.queues_of(
                sorted(subscriptions), self._member(), timeout_ms=self._timeout_ms
            )
            wanted = {queue: subscriptions[queue.topic] for queue in mine}
        if not is_known:
            self._assignment.forget_announcements()
        self.look_again_ms = monotonic_ms() + (REBALANCE_MS if is_known else REBALANCE_AGAIN_MS)
        anew = made_anew(self._work.queues(), wanted)
        self._work.revoke(anew)  # their messages are not committed: they belong to a topic that is gone
        lost, gained = self._work.resubscribe(wanted)
        if lost:
            await self._give_up(lost)
        if gained and self._assigned is None:
            await self._assignment.wait_for_fellows()
        for part in by_broker(gained):
            await self._begin(part, wanted, anew)
        if lost or gained:
            log.info("queues changed group=%s queues=%s", self._group, sorted(map(str, wanted)))

    async def _give_up(self, lost: set[MessageQueue]) -> None:
        """Commits what is finished in these queues, then drops them."""
        progress = self._work.uncommitted(handed=False).of(lost)
        if self._auto_commit and progress.offsets:
            try:
                await self._commits.commit(progress)
            except ZenitError as error:
                log.warning("not committed before giving up group=%s error=%s", self._group, error)
        self._work.revoke(lost)

    async def _begin(
        self, queues: list[MessageQueue], subscriptions: Mapping[MessageQueue, Subscription], anew: set[MessageQueue]
    ) -> None:
        """Begins queues of one topic and broker.

        Those of a topic created again begin with their first message: the group was there.
        """
        if self._assigned is None:
            begin = await self._assignment.begin_offsets(queues, self._start_from, timeout_ms=self._timeout_ms)
            for queue, offset in begin.items():
                self._work.assign(queue, offset, committed=offset, subscription=subscriptions[queue])
            return
        for queue in queues:
            committed, era = -1, queue.era
            if self._group:
                committed, era = await self._assignment.committed_offset(queue, timeout_ms=self._timeout_ms)
            offset = committed
            if committed < 0:
                start_from = StartFrom.FIRST if queue in anew else self._start_from
                offset = await self._assignment.start_offset(queue, start_from, timeout_ms=self._timeout_ms)
            self._work.assign(replace(queue, era=era), offset, committed=committed, subscription=subscriptions[queue])
