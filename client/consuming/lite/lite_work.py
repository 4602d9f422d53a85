"""What a lite consumer has under way: the work of a simple consumer, and telling brokers what it subscribes to. Any thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from ....model.clock import monotonic_ms
from ....model.errors import LiteSubscriptionUnknown, RemoteProtocolError, TopicNotFound, ZenitError
from ....model.subscription import Subscription, subscriptions_of
from ....remoting.commands import LitePopReply, LiteSubscribedReply, PopLite, PopMessages, SubscribeLite
from ...connection.retry import RetryPolicy
from ..simple.division import Demand, PopTarget
from ..simple.receiving import AnyPopReply, Receiving
from ..simple.work import ROUTE_MS_MIN, PopWork
from .lite_names import LiteChange, LiteNames

log = logging.getLogger(__name__)

OnEvicted = Callable[[str, list[str]], object]
"""(parent, lite topics that another member of the group has now). In the thread that got the answer; must not block."""

POP_LITE_MAX: Final = 4096


class LiteWork(PopWork):
    """One consumer's."""

    pop_max: ClassVar[int] = POP_LITE_MAX

    def __init__(self, *args: Any, on_evicted: OnEvicted | None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._on_evicted = on_evicted
        self._wanted = LiteNames()
        self._tell_retry = RetryPolicy()

    # ---- subscriptions

    def subscription(self) -> Mapping[str, frozenset[str]]:
        """{parent: lite topics}."""
        with self._lock:
            return self._wanted.subscription()

    async def subscribe_lite(self, topic: str, names: Iterable[str]) -> None:
        """Wants these, too, and tells the brokers. Where that cannot be now, the next `receive` does it. Raises what refuses
        it; then nothing changes."""
        with self._lock:
            is_first = topic not in self._subscriptions
            fresh = self._wanted.add(topic, names)
        if is_first:
            self.subscribe(subscriptions_of(topic, None))
        try:
            await self._tell_all(topic)
        except ZenitError as error:
            if (error.retriable or error.route_stale) and not isinstance(error, TopicNotFound):
                log.info("not told yet group=%s topic=%s error=%s", self._group, topic, error)
                return
            with self._lock:
                self._wanted.remove(topic, fresh)
                is_empty = not self._wanted.subscription().get(topic)
            if is_first and is_empty:
                self.unsubscribe(topic)
            raise

    async def unsubscribe_lite(self, topic: str, names: Iterable[str] | None) -> None:
        """Wants these no more (None: nothing of the parent), and tells the brokers, or the next `receive` does."""
        with self._lock:
            self._wanted.remove(topic, names)
        try:
            await self._tell_all(topic)
        except ZenitError as error:
            log.info("not told yet group=%s topic=%s error=%s", self._group, topic, error)

    async def _tell_all(self, topic: str) -> None:
        """All brokers of a parent. Raises why one was not told."""
        deadline_ms = monotonic_ms() + self._timeout_ms
        _, targets = await super().targets(deadline_ms)
        self._keep(targets)
        failure: ZenitError | None = None
        for target in targets:
            if target.topic == topic:
                try:
                    await self._tell(target, deadline_ms)
                except ZenitError as error:
                    if not error.retriable and not error.route_stale:
                        raise
                    failure = error
        if failure is not None:
            raise failure

    async def targets(self, deadline_ms: int) -> tuple[Mapping[str, Subscription], Sequence[PopTarget]]:
        """See PopWork; of the brokers those that know what this consumer subscribes to."""
        subscriptions, targets = await super().targets(deadline_ms)
        self._keep(targets)
        told = []
        for target in targets:
            try:
                await self._tell(target, max(deadline_ms, monotonic_ms() + ROUTE_MS_MIN))
            except ZenitError as error:
                if not error.retriable and not error.route_stale:
                    raise
                self._note_failure(target, error)
            if self._confirmed(target)[0]:
                told.append(target)
        return subscriptions, told

    def _keep(self, targets: Sequence[PopTarget]) -> None:
        with self._lock:
            self._wanted.keep(targets)

    def _confirmed(self, target: PopTarget) -> tuple[int, int]:
        with self._lock:
            return self._wanted.confirmed(target)

    async def _tell(self, target: PopTarget, deadline_ms: int) -> None:
        """Until the broker knows all, or somebody else is telling it. Raises why it does not."""
        while True:
            with self._lock:
                change = self._wanted.next_change(target)
            if change is None:
                return
            await self._tell_one(target, change, deadline_ms)

    async def _tell_one(self, target: PopTarget, change: LiteChange, deadline_ms: int) -> None:
        request = SubscribeLite(
            self._group, target.topic, self._client_id, change.action, change.names, change.before, change.version
        )
        settle = self._wanted.on_failure
        try:
            address = self._connection.routes.address_of(target.topic, target.broker_name)
            timeout_ms = self._tell_retry.try_timeout_ms(self._timeout_ms, deadline_ms - monotonic_ms())
            reply, _ = await self._waits.call(address, request, timeout_ms=timeout_ms)
            if not isinstance(reply, LiteSubscribedReply):
                raise RemoteProtocolError("a subscription was not answered with one")
            with self._lock:
                self._wanted.on_answer(target, change, is_known=reply.is_known)
        except ZenitError as error:
            if error.route_stale:
                self._connection.routes.refresh_soon(target.topic)
            if not error.retriable and not error.route_stale:
                settle = self._wanted.on_refused
            raise
        finally:
            with self._lock:
                settle(target, change)  # nothing, where it is answered

    # ---- pops

    def _request(
        self,
        receiving: Receiving,
        demand: Demand,
        subscription: Subscription,  # noqa: ARG002  # all of a lite topic
        pop_id: int,
        wait_ms: int,
    ) -> PopMessages | PopLite:
        version, evictions = self._confirmed(demand.target)
        return PopLite(
            self._group,
            demand.target.topic,
            demand.max_messages,
            receiving.invisible_ms,
            wait_ms,
            self._client_id,
            version,
            pop_id,
            renews=self._renews,
            evictions=evictions,
        )

    def _on_heard(self, target: PopTarget, reply: AnyPopReply | None, error: ZenitError | None) -> None:
        if isinstance(error, LiteSubscriptionUnknown):
            with self._lock:
                self._wanted.on_unknown(target)
        if isinstance(reply, LitePopReply) and reply.evictions:
            with self._lock:
                lost = self._wanted.on_evicted(target, reply.evicted, reply.evictions)
            if lost:
                self._tell_evicted(target.topic, lost)

    def _tell_evicted(self, topic: str, names: list[str]) -> None:
        log.warning("evicted from lite topics group=%s topic=%s names=%s", self._group, topic, names[:10])
        if self._on_evicted is not None:
            try:
                self._on_evicted(topic, names)
            except Exception:
                log.exception("on_evicted failed")
