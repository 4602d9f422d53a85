"""What a consumer does that leases messages from brokers: receive, acknowledge, ask for more time, give up.

`SimpleConsumer` and `LiteConsumer` add what they subscribe to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar
from weakref import finalize

from ....model.clock import monotonic_ms, monotonic_ns, now_ms
from ....model.errors import ConnectionLost, InvalidParameter, LeaseExpired, RequestTimeout, ZenitError
from ....model.names import check_group
from ....record.kernel import StoredMessage
from ....remoting.commands import ChangeInvisible, ForwardDeadLetter, Reply, RequestFor
from ...client_counts import ClientCounts
from ...connection.argument_checks import check_callback, check_count, milliseconds, wait_milliseconds
from ...connection.connection import Connection, client_repr, connect
from ...connection.retry import RetryPolicy
from ...connection.route_pause import pause
from ...connection.waiting import Waits
from ...tracing.client_telemetry import current
from ...tracing.trace import PopTrace, TraceRecorder, trace_topic
from ...tracing.trace_backlog import TraceStatistics
from ...tracing.trace_format import ConsumeCode
from .ack_sends import Acknowledged, OnAckError
from .end import SimpleEnd
from .lease import Lease, LeasedPart, lease_of, lease_of_handle, leased_parts
from .receiving import Receiving
from .work import PopWork

MESSAGES_MAX: Final = 1024
INVISIBLE_S: Final = 30.0
INVISIBLE_S_MIN: Final = 1.0
INVISIBLE_S_MAX: Final = 12 * 3600.0
WAIT_S_MAX: Final = 30.0
REASON_BYTES_MAX: Final = 1024

_Reply = TypeVar("_Reply", bound=Reply)


@dataclass(frozen=True, slots=True)
class SimpleStatistics:
    """What one consumer did so far, in messages; `acks_waiting`: handles whose acknowledgement is not sent yet."""

    received: int
    acknowledged: int
    refused: int
    acks_waiting: int


class ReceivingCore(ABC):
    """All of such a consumer but what it subscribes to and how it waits; see PullCore."""

    messages_max: ClassVar[int] = MESSAGES_MAX
    _work: PopWork

    def __init__(
        self,
        group: str,
        new_work: Callable[[Connection, Waits, str], PopWork],
        *,
        namesrv: str | None,
        key: str | None,
        invisible: float,
        timeout: float,
        on_ack_error: OnAckError | None,
        trace: bool | str,
    ) -> None:
        """`new_work(connection, waits, client id)`: what it has under way. The others: see SimpleConsumer."""
        self.group = check_group(group)
        traced_in = trace_topic(trace)
        check_callback("on_ack_error", on_ack_error)
        self._invisible_ms = _invisible_ms(invisible)
        self._timeout_ms = milliseconds("timeout", timeout)
        self._retry = RetryPolicy()
        self.counts = ClientCounts()
        connection = self._connection = connect(namesrv, key=key)
        self._waits = self._new_waits(connection)
        self._recorder = TraceRecorder(connection, group, traced_in) if traced_in is not None else None
        self._telemetry = current()
        client_id = connection.new_client_id()
        self._work = new_work(connection, self._waits, client_id)
        self._end = SimpleEnd(
            connection,
            self._waits,
            self._work,
            group=group,
            client_id=client_id,
            timeout_ms=self._timeout_ms,
            trace=self._recorder,
        )
        self._check_usable = self._end.check_usable
        finalize(self, self._end.on_dropped).atexit = False

    def __repr__(self) -> str:
        state = "closed" if self._work.is_closed else ""
        return client_repr(self, state, group=self.group, namesrv=self._connection.name_servers)

    @abstractmethod
    def _new_waits(self, connection: Connection) -> Waits:
        """How it waits."""

    # ---- what came

    @property
    def waits_for(self) -> ZenitError | None:
        """What keeps messages from coming at present and is expected to pass, as the last `receive` saw it; else None."""
        return self._work.waits_for()

    async def _receive(
        self, max_messages: int = 32, *, invisible: float | None = None, wait: float = 10.0
    ) -> list[StoredMessage]:
        """Up to `max_messages` (1 to 1024) messages of any queues, as soon as there are some; [] where none come within `wait`
        seconds (0 to 30).

        Nobody else gets them for `invisible` seconds (None = the consumer's); then each that is not acknowledged comes again,
        and its `reconsume_times` is one higher. While no broker serves the topics or answers, it waits as if none came
        (`waits_for` tells). Raises ClientClosed, TopicNotFound, GroupConsumedOtherwise (a PullConsumer or PushConsumer is a
        member of the group), and CorruptRecordError where an answer cannot be decoded.
        """
        self._check_usable()
        check_count("max_messages", max_messages, 1, self.messages_max)
        invisible_ms = self._invisible_ms if invisible is None else _invisible_ms(invisible)
        wait_ms = wait_milliseconds("wait", wait, WAIT_S_MAX)
        begun_ns = 0 if self._telemetry is None else monotonic_ns()
        messages = await Receiving(self._work, max_messages, invisible_ms, wait_ms).run()
        if self._telemetry is not None and messages:
            self._telemetry.on_received(self.group, messages, begun_ns)
        for topic, count in Counter(message.topic for message in messages).items():
            self.counts.on_consumed(topic, self.group, count)
        if self._recorder is not None:
            for message in messages:
                lease_of(message, self.group).trace = PopTrace(self._recorder, message).on_done
        return messages

    # ---- what became of them

    async def _ack(self, message: StoredMessage | str, *, wait: bool = False, timeout: float | None = None) -> None:
        """The message, or that of a handle, is dealt with: it does not come again.

        Without `wait` it is sent in the background, with others, and tried again until the message's invisible time is over;
        `on_ack_error` hears of those that fail for good. With `wait` this returns once the broker has it, and raises
        LeaseExpired (it came too late, and the message comes again), HandleRefused, RequestTimeout. Acknowledged once more, it
        succeeds. Raises InvalidParameter for a message that did not come from a SimpleConsumer of the group.
        """
        self._check_usable()
        lease = lease_of(message, self.group) if isinstance(message, StoredMessage) else await self._named(message)
        if wait:
            try:
                await self._ack_and_wait({lease.part: 1 << lease.index}, timeout)
            except LeaseExpired:
                lease.on_done(ConsumeCode.TIME_OUT)
                raise
        else:
            self._work.acks.ack(lease.part, 1 << lease.index)
        lease.on_done(ConsumeCode.SUCCESS)

    async def _ack_batch(
        self, messages: Iterable[StoredMessage | str], *, wait: bool = False, timeout: float | None = None
    ) -> None:
        """`ack` of several at once. With `wait` it raises why the first was refused that was; the others are acknowledged."""
        self._check_usable()
        group = self.group
        if isinstance(messages, str | StoredMessage) or not isinstance(messages, Iterable):
            raise InvalidParameter("messages", type(messages).__name__, "a list of messages, or of their handles")
        leases = [
            lease_of(message, group) if isinstance(message, StoredMessage) else await self._named(message)
            for message in messages
        ]
        parts = leased_parts(leases)
        if wait and parts:
            await self._ack_and_wait(parts, timeout)
        else:
            for part, bits in parts.items():
                self._work.acks.ack(part, bits)
        for lease in leases:
            lease.on_done(ConsumeCode.SUCCESS)

    async def _ack_and_wait(self, parts: dict[LeasedPart, int], timeout: float | None) -> None:
        waiter = Acknowledged(self._waits, {part.handle: bits for part, bits in parts.items()})
        for part, bits in parts.items():
            self._work.acks.ack(part, bits, waiter)
        await waiter.wait(self._total_ms(timeout))

    async def _change_invisible(
        self, message: StoredMessage | str, seconds: float, *, timeout: float | None = None
    ) -> str:
        """From now on nobody else gets the message for `seconds` (1 to 12 h; 0 = it comes again at once, as an attempt).

        Returns its new handle, "" with 0 seconds; the one before is of no use any more. Raises LeaseExpired, HandleRefused,
        RequestTimeout or ConnectionLost (it may have happened: the answer was lost), and what else the last try ended with;
        InvalidParameter as `ack` does.
        """
        self._check_usable()
        invisible_ms = 0 if seconds == 0 else _invisible_ms(seconds, name="seconds", also="0, or ")
        lease = lease_of(message, self.group) if isinstance(message, StoredMessage) else await self._named(message)
        part = lease.part
        request = ChangeInvisible(self.group, part.topic, part.handle, lease.index, invisible_ms)
        reply = await self._settle(part, request, "change_invisible", timeout)
        if not reply.handle:
            lease.on_done(ConsumeCode.FAILED)
            return ""
        until_ms = monotonic_ms() + invisible_ms
        lease.part = LeasedPart(self.group, part.broker_name, part.topic, reply.handle, until_ms)
        lease.index = 0
        return lease.handle

    async def _dead_letter(
        self, message: StoredMessage | str, *, reason: str = "", timeout: float | None = None
    ) -> None:
        """Moves the message to the group's dead letters (`zenit dlq`), with a reason of at most 1 KiB; it does not come again.

        Raises as `change_invisible` does.
        """
        self._check_usable()
        if not isinstance(reason, str) or not _is_utf8(reason, REASON_BYTES_MAX):
            raise InvalidParameter("reason", ascii(reason)[:64], f"a text of at most {REASON_BYTES_MAX} bytes of UTF-8")
        lease = lease_of(message, self.group) if isinstance(message, StoredMessage) else await self._named(message)
        request = ForwardDeadLetter(self.group, lease.part.topic, lease.part.handle, lease.index, reason)
        await self._settle(lease.part, request, "dead_letter", timeout)
        lease.on_done(ConsumeCode.FAILED)

    def handle_of(self, message: StoredMessage) -> str:
        """A text by which any consumer of the group, in any process, may `ack` the message, or change its invisible time.

        Raises InvalidParameter as `ack` does."""
        return lease_of(message, self.group).handle

    def statistics(self) -> SimpleStatistics:
        """What it did so far."""
        acks = self._work.acks
        return SimpleStatistics(self._work.received, acks.acknowledged, acks.refused, acks.waiting)

    def trace_statistics(self) -> TraceStatistics | None:
        """How many trace records wait, are stored and were dropped; None if tracing is off."""
        return None if self._recorder is None else self._recorder.statistics()

    # ---- inside

    def _total_ms(self, timeout: float | None) -> int:
        return self._timeout_ms if timeout is None else milliseconds("timeout", timeout)

    async def _named(self, handle: str) -> Lease:
        """Of a handle; its topic's route is known then. Raises InvalidParameter, HandleRefused, TopicNotFound, NoRoute."""
        if not isinstance(handle, str):
            raise InvalidParameter("message", type(handle).__name__, "a message that `receive` returned, or its handle")
        lease = lease_of_handle(handle, self.group, now_ms=monotonic_ms(), since_epoch_ms=now_ms())
        await self._connection.routes.served_route(lease.part.topic, self._waits, timeout_ms=self._timeout_ms)
        return lease

    async def _settle(
        self, part: LeasedPart, request: RequestFor[_Reply], operation: str, timeout: float | None
    ) -> _Reply:
        """As `_ask`, and tells whoever measures."""
        if self._telemetry is None:
            return await self._ask(part, request, timeout)
        begun_ns, error = monotonic_ns(), None
        try:
            return await self._ask(part, request, timeout)
        except ZenitError as raised:
            error = raised
            raise
        finally:
            self._telemetry.on_settled(self.group, part.topic, operation, 1, begun_ns, error)
            del error  # its traceback would keep this frame and all callers alive until a garbage collection

    async def _ask(self, part: LeasedPart, request: RequestFor[_Reply], timeout: float | None) -> _Reply:
        """The answer of the broker that has a part, whoever is its master. Raises what the last try ended with; where the lease
        is over, perhaps by an earlier try that was not answered, what that one ended with."""
        total_ms = self._total_ms(timeout)
        deadline_ms = monotonic_ms() + total_ms
        routes = self._connection.routes
        tries = before_route = 0
        in_doubt: ZenitError | None = None
        while True:
            is_sent = False
            route = routes.cached(part.topic)
            try:
                timeout_ms = self._retry.try_timeout_ms(total_ms, deadline_ms - monotonic_ms())
                route = await routes.route(part.topic, self._waits, timeout_ms=timeout_ms)
                address = routes.address_of(part.topic, part.broker_name)
                is_sent = True
                return (await self._waits.call(address, request, timeout_ms=timeout_ms))[0]
            except ZenitError as error:
                if in_doubt is not None and isinstance(error, LeaseExpired):
                    raise in_doubt from error
                if is_sent and isinstance(error, RequestTimeout | ConnectionLost):
                    in_doubt = error
                tries += 1
                left_ms = deadline_ms - monotonic_ms()
                delay_ms = self._retry.delay_ms(
                    error, tries=tries, left_ms=left_ms, elsewhere=False, before_route=before_route
                )
                if delay_ms is None:
                    raise
                if error.route_stale:
                    routes.refresh_soon(part.topic)
            if await pause(routes, part.topic, route, self._waits, delay_ms):
                before_route = tries

    async def _close(self, timeout: float | None = None) -> None:
        """Sends the acknowledgements, gives back what came and nobody got, and leaves the group, in `timeout` seconds (None =
        the consumer's). Idempotent. What was handed out stays invisible for its time. Does nothing in a forked child."""
        await self._end.close(self._total_ms(timeout))


def _is_utf8(text: str, bytes_max: int) -> bool:
    try:
        return len(text.encode()) <= bytes_max
    except UnicodeEncodeError:
        return False


def _invisible_ms(seconds: float, *, name: str = "invisible", also: str = "") -> int:
    """`also`: what else the parameter may be, for the error. Raises InvalidParameter."""
    is_time = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_time or not INVISIBLE_S_MIN <= seconds <= INVISIBLE_S_MAX:
        limits = f"seconds, {also}{INVISIBLE_S_MIN:.0f} to {INVISIBLE_S_MAX:.0f}"
        raise InvalidParameter(name, str(seconds)[:64], limits)
    return round(seconds * 1000)
