"""The simple consumer asks for messages, deals with them and acknowledges each; the broker keeps who has which until when.

There are no queues to share out: any number of consumers of a group get messages of any queue, and one that is slow holds up
only what it has. A message that is not acknowledged in its invisible time comes again, to any of them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from ..model.errors import ZenitError
from ..model.names import check_topic
from ..model.subscription import Expression, subscriptions_of
from .connection.argument_checks import milliseconds
from .connection.connection import Connection
from .connection.waiting import Blocking, Waits, blocking, run_blocking
from .consuming.simple.ack_sends import OnAckError
from .consuming.simple.consumer_core import INVISIBLE_S, ReceivingCore
from .consuming.simple.consumer_core import SimpleStatistics as SimpleStatistics
from .consuming.simple.work import PopWork
from .consuming.start_from import FIRST, StartFrom, check_start_from

log = logging.getLogger(__name__)


class SimpleCore(ReceivingCore):
    """All of a simple consumer but how it waits; see PullCore."""

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        key: str | None = None,
        start_from: StartFrom | datetime = FIRST,
        invisible: float = INVISIBLE_S,
        auto_renew: bool = False,
        ordered: bool = False,
        timeout: float = 3.0,
        on_ack_error: OnAckError | None = None,
        trace: bool | str = False,
    ) -> None:
        """`invisible`: for so many seconds (1 to 12 h) nobody else gets what `receive` returned, unless it says otherwise.
        `auto_renew`: the broker extends that by itself while this consumer's heartbeats come, for 3 h at most. `ordered`: of
        the messages of one sharding key one at a time is out, in the order of their queue; all consumers of the group are to
        say the same.

        `start_from`: FIRST, LAST or a datetime with a time zone, where a group begins in a topic that it never received from.
        `timeout`: seconds for each question to a broker, over all tries. `on_ack_error(handle, error)`: called for each message
        whose acknowledgement in the background failed for good, in the I/O thread; it must not block. `trace`: write a record
        of each message to the trace topic, or to the topic named. `namesrv`, `key`: as a Producer has them.

        Raises InvalidName or InvalidParameter. Connects at the first `receive`.
        """
        start = check_start_from(start_from)

        def new_work(connection: Connection, waits: Waits, client_id: str) -> PopWork:
            return PopWork(
                connection,
                waits,
                group,
                client_id=client_id,
                start_from=start,
                renews=auto_renew,
                is_ordered=ordered,
                timeout_ms=milliseconds("timeout", timeout),
                on_ack_error=on_ack_error,
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

    def subscribe(self, topic: str | Sequence[str], expression: Expression = None) -> None:
        """Joins the group for a topic, or several.

        `expression`: tags as "a || b", None = all, or Sql("..."), evaluated at the broker; of several topics the same for
        each. Raises InvalidName, InvalidParameter.
        """
        self._check_usable()
        self._work.subscribe(subscriptions_of(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Receives no more of a topic."""
        self._check_usable()
        self._work.unsubscribe(check_topic(topic))


class SimpleConsumer(SimpleCore):
    """Receives messages as a member of a group that pops. One object serves all threads of a process; a forked child makes its
    own."""

    receive = blocking(SimpleCore._receive)
    ack = blocking(SimpleCore._ack)
    ack_batch = blocking(SimpleCore._ack_batch)
    change_invisible = blocking(SimpleCore._change_invisible)
    dead_letter = blocking(SimpleCore._dead_letter)
    close = blocking(SimpleCore._close)

    def _new_waits(self, connection: Connection) -> Waits:
        return Blocking(connection.remoting)

    def subscribe(self, topic: str | Sequence[str], expression: Expression = None) -> None:
        """Joins the group for a topic, or several.

        `expression`: tags as "a || b", None = all, or Sql("..."), evaluated at the broker; of several topics the same for
        each. Where a group begins that does not begin with the first message is recorded now, so that nothing sent after this
        is skipped; where that cannot be done within `timeout`, the first `receive` does it. Raises InvalidName,
        InvalidParameter.
        """
        super().subscribe(topic, expression)
        for each in [topic] if isinstance(topic, str) else topic:
            try:
                run_blocking(self._work.begin_topic(each))
            except ZenitError as error:
                log.info("not begun yet group=%s topic=%s error=%s", self.group, each, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
