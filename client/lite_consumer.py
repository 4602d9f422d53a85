"""The lite consumer receives lite topics: very many small ordered queues of a parent topic, which it subscribes to by name.

One request waits at each broker of the parent for any of them. Of each lite topic the messages come in their order; what is
handed out of it is to be acknowledged before more of it comes, to any member of the group.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import ClassVar, Final, Self

from ..model.errors import InvalidParameter
from ..model.names import check_topic
from ..model.topics.light_queues import check_lite_topic
from ..record.kernel import StoredMessage
from ..remoting.commands import SuspendLite
from .connection.argument_checks import check_callback, milliseconds
from .connection.connection import Connection
from .connection.waiting import Blocking, Waits, blocking
from .consuming.lite.lite_work import POP_LITE_MAX, LiteWork, OnEvicted
from .consuming.simple.ack_sends import OnAckError
from .consuming.simple.consumer_core import INVISIBLE_S, INVISIBLE_S_MAX, ReceivingCore
from .consuming.simple.lease import lease_of
from .consuming.start_from import FIRST
from .tracing.trace_format import ConsumeCode

DELAY_S_MAX: Final = INVISIBLE_S_MAX


class LiteCore(ReceivingCore, ABC):
    """All of a lite consumer but how it waits; see PullCore."""

    messages_max: ClassVar[int] = POP_LITE_MAX
    _work: LiteWork

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        key: str | None = None,
        invisible: float = INVISIBLE_S,
        auto_renew: bool = False,
        timeout: float = 3.0,
        on_ack_error: OnAckError | None = None,
        on_evicted: OnEvicted | None = None,
        trace: bool | str = False,
    ) -> None:
        """`invisible`: for so many seconds (1 to 12 h) nothing more of a lite topic is handed out, unless what was is
        acknowledged before. `auto_renew`: the broker extends that by itself while this consumer's heartbeats come, for 3 h at
        most.

        `on_evicted(parent, lite topics)`: called when another member of an exclusive group has taken over lite topics, which
        this consumer does not subscribe to any more; in the thread that got the answer, it must not block. `timeout`,
        `on_ack_error`, `trace`, `namesrv`, `key`: as a SimpleConsumer has them.

        Raises InvalidName or InvalidParameter. Connects at the first `subscribe`.
        """
        check_callback("on_evicted", on_evicted)

        def new_work(connection: Connection, waits: Waits, client_id: str) -> LiteWork:
            return LiteWork(
                connection,
                waits,
                group,
                client_id=client_id,
                start_from=FIRST,
                renews=auto_renew,
                is_ordered=False,
                timeout_ms=milliseconds("timeout", timeout),
                on_ack_error=on_ack_error,
                on_evicted=on_evicted,
            )

        super().__init__(
            group,
            new_work,
            namesrv=namesrv,
            key=key,
            invisible=invisible,
            timeout=timeout,
            on_ack_error=on_ack_error,
            trace=trace,
        )

    # ---- what to receive

    @property
    def subscription(self) -> Mapping[str, frozenset[str]]:
        """{parent: the lite topics that it subscribes to}."""
        return self._work.subscription()

    async def _subscribe(self, topic: str, lite_topics: str | Iterable[str]) -> None:
        """Adds lite topics of a parent to what it receives: one, or many. They need not exist.

        A group begins with a lite topic's first message. Brokers that cannot be told now are told by the next `receive`.
        Raises InvalidName, TopicNotFound, NotLiteParent, LiteQuotaExceeded (`zenit group create GROUP --attr
        lite.sub.client.quota=N` allows more), InvalidParameter; then nothing is added.
        """
        self._check_usable()
        await self._work.subscribe_lite(check_topic(topic), _names(lite_topics))

    async def _unsubscribe(self, topic: str, lite_topics: str | Iterable[str] | None = None) -> None:
        """Receives no more of these lite topics of a parent; None = of none of them. What was handed out may still be
        acknowledged."""
        self._check_usable()
        names = None if lite_topics is None else _names(lite_topics)
        await self._work.unsubscribe_lite(check_topic(topic), names)

    # ---- what became of them

    async def _extend(self, message: StoredMessage, seconds: float, *, timeout: float | None = None) -> None:
        """From now on its lite topic waits for this message for `seconds` (1 to 12 h). Raises as `ack` with `wait` does."""
        await self._change_invisible(message, seconds, timeout=timeout)

    async def _refuse(self, message: StoredMessage, delay: float = 0.0, *, timeout: float | None = None) -> None:
        """Not now: this message, and those of its lite topic that came with it behind it, come again after `delay` seconds (0
        to 12 h), in their order. That is no attempt. Until then nothing of the lite topic comes. Raises as `ack` with `wait`
        does."""
        self._check_usable()
        if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay <= DELAY_S_MAX:
            raise InvalidParameter("delay", str(delay)[:64], f"seconds, 0 to {DELAY_S_MAX:.0f}")
        lease = lease_of(message, self.group)
        part = lease.part
        request = SuspendLite(self.group, part.topic, part.handle, lease.index, round(delay * 1000))
        await self._ask(part, request, timeout)
        lease.on_done(ConsumeCode.FAILED)


class LiteConsumer(LiteCore):
    """Receives lite topics as a member of a group. One object serves all threads of a process; a forked child makes its own."""

    subscribe = blocking(LiteCore._subscribe)
    unsubscribe = blocking(LiteCore._unsubscribe)
    receive = blocking(LiteCore._receive)
    ack = blocking(LiteCore._ack)
    ack_batch = blocking(LiteCore._ack_batch)
    extend = blocking(LiteCore._extend)
    refuse = blocking(LiteCore._refuse)
    dead_letter = blocking(LiteCore._dead_letter)
    close = blocking(LiteCore._close)

    def _new_waits(self, connection: Connection) -> Waits:
        return Blocking(connection.remoting)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _names(lite_topics: str | Iterable[str]) -> list[str]:
    """Raises InvalidName, InvalidParameter."""
    if isinstance(lite_topics, str):
        lite_topics = (lite_topics,)
    if not isinstance(lite_topics, Iterable):
        raise InvalidParameter("lite_topics", type(lite_topics).__name__, "a name, or several")
    return [check_lite_topic(name) for name in lite_topics]
