"""ReceiveMessage and PullMessage: streams that begin with a status, then have the messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ...model.clock import monotonic_ms, now_ms
from ...model.errors import CorruptRecordError, ZenitError
from ...model.get_status import GetStatus
from ...record.kernel import decode_batch
from ...remoting.commands import PullMessages
from ..back.client_room import ClientRoom
from ..back.lite_pops import LiteClient
from ..back.method_counts import MethodCounts
from ..back.pops import PoppedMessage, Wanted
from ..recent_attempts import RecentAttempts
from ..schema import message_class
from .calls import Answers, ClientCall
from .limits import POP_MAX, RENEWED_MS, check_batch, check_invisible, duration_ms, wait_ms
from .mapping import fill_message, fill_moment
from .resources import group_of, topic_of
from .routes import ANY_QUEUE
from .sessions import Sessions
from .settings import POLL_MS, subscription_of
from .status import Code

log = logging.getLogger(__name__)

PULL_BYTES_MAX: Final = 4 * 1024 * 1024

Attempt = tuple[str, str, str, str, str]
"""(user, client id, group, topic, as the client names it)."""

_ReceiveResponse: Final = message_class("ReceiveMessageResponse")
_PullResponse: Final = message_class("PullMessageResponse")


class ReceivingMethods:
    """Of one process. `polls_max`: so many receives may wait; what comes above that is answered at once."""

    def __init__(self, sessions: Sessions, counts: MethodCounts, unread: ClientRoom, *, polls_max: int) -> None:
        """`unread`: for answers that their clients have not read."""
        self._unread = unread
        self._sessions = sessions
        self._polls_max = polls_max
        self._counts = counts
        self._attempts = RecentAttempts()

    async def receive_message(self, call: ClientCall, request: Any, answers: Answers) -> None:
        """Pops from all brokers at once; from one where the queue is an assignment's. What cannot be written is released.
        Raises CallRefused, ZenitError before anything is written."""
        back = call.back
        group, topic = group_of(request.group), topic_of(request.message_queue.topic)
        subscription = subscription_of(topic, request.filter_expression)
        count = check_batch(request.batch_size)
        renews = request.auto_renew
        has_time = request.HasField("invisible_duration")
        invisible_ms = check_invisible(duration_ms(request.invisible_duration)) if has_time else RENEWED_MS
        has_wait = request.HasField("long_polling_timeout")
        wanted_ms = duration_ms(request.long_polling_timeout) if has_wait else POLL_MS
        waits_ms = wait_ms(wanted_ms, call.left_ms)
        rules = await back.settings.group(group, deadline_ms=call.deadline_ms)
        await self._sessions.on_receive(call, group, subscription)
        queue = request.message_queue
        wanted = Wanted(
            group,
            subscription,
            await self._sessions.on_renewing(call) if renews else call.caller.client_id,
            renews,
            rules.is_ordered,
            queue.broker.name if queue.id == ANY_QUEUE else "",
        )
        owner = call.caller.address, call.caller.port
        self._unread.check(owner)
        attempt_id = request.attempt_id if rules.is_ordered else ""
        attempt = (back.user, call.caller.client_id, group, topic, attempt_id)
        if attempt_id:
            await self._take_back(call, group, attempt)
        with self._poll(waits_ms) as waits_ms:
            lite = LiteClient(call.caller.client_id, group, topic)
            if back.lite_pops.knows(lite) or self._sessions.of(call).is_lite:
                messages = await back.lite_pops.pop(lite, count, invisible_ms=invisible_ms, wait_ms=waits_ms)
            else:
                messages = await back.pops.pop(wanted, count, invisible_ms=invisible_ms, wait_ms=waits_ms)
        written = size_bytes = 0
        try:
            wanted_bytes = sum(one.message.size_bytes for one in messages)
            self._unread.take(wanted_bytes, owner)
            size_bytes = wanted_bytes
            await answers.write(_status_of(_ReceiveResponse(), len(messages)))
            for one in messages:
                response = self._message(one, call, invisible_ms)
                if response is not None:
                    await answers.write(response)
                written += 1
            if messages:
                response = _ReceiveResponse()
                fill_moment(response.delivery_timestamp, now_ms())
                await answers.write(response)
            if attempt_id and messages:
                self._attempts.on_answered(attempt, [one.handle for one in messages], monotonic_ms())
        finally:
            if size_bytes:
                self._unread.give_back(size_bytes, owner)
            if written < len(messages):  # the client is gone, or there is no room
                back.pops.release(group, messages[written:])

    async def _take_back(self, call: ClientCall, group: str, attempt: Attempt) -> None:
        """What the client did not get when it asked before, or else comes again when its leases are over."""
        handles = self._attempts.take(attempt, monotonic_ms())
        if not handles:
            return
        try:
            await call.back.acks.take_back(group, handles, deadline_ms=call.deadline_ms)
        except ZenitError as error:
            log.info("what a client did not get is not taken back group=%s error=%s", group, error)

    @contextmanager
    def _poll(self, waits_ms: int) -> Iterator[int]:
        """How long this one may wait: not at all where too many do."""
        if self._counts.polls >= self._polls_max:
            yield 0
            return
        self._counts.polls += 1
        try:
            yield waits_ms
        finally:
            self._counts.polls -= 1

    @staticmethod
    def _message(one: PoppedMessage, call: ClientCall, invisible_ms: int) -> Any:
        """None for a message that is damaged: it comes again, and is a dead letter in the end."""
        response = _ReceiveResponse()
        try:
            fill_message(
                response.message, one.message, call.caller.namespace, handle=one.handle, invisible_ms=invisible_ms
            )
        except CorruptRecordError as error:
            log.warning("a message is damaged and not handed out queue=%s error=%s", one.message.queue, error)
            return None
        return response

    async def pull_message(self, call: ClientCall, request: Any, answers: Answers) -> None:
        """Messages of one queue from an offset on, in order; nothing is leased. Raises CallRefused, ZenitError."""
        queue = request.message_queue
        group, topic = group_of(request.group), topic_of(queue.topic)
        subscription = subscription_of(topic, request.filter_expression)
        count = check_batch(request.batch_size)
        waits_ms = wait_ms(duration_ms(request.long_polling_timeout), call.left_ms)
        owner = call.caller.address, call.caller.port
        self._unread.check(owner)
        with self._poll(waits_ms) as waits_ms:
            pull = PullMessages(
                group,
                topic,
                queue.id,
                request.offset,
                min(count, POP_MAX),
                PULL_BYTES_MAX,
                waits_ms,
                subscription.codes(),
                subscription.sql,
            )
            reply, payload = await call.back.backend.call(
                topic, queue.broker.name, pull, deadline_ms=call.deadline_ms, wait_ms=waits_ms
            )
        self._unread.take(len(payload), owner)
        try:
            messages = decode_batch(payload, queue.broker.name) if reply.count else ()
            told = [message for message in messages if subscription.accepts(message.tags)]
            response = _PullResponse()
            if reply.status in _MOVED and not told:
                response.status.code, response.status.message = (
                    Code.ILLEGAL_OFFSET,
                    "the offset is outside of the queue",
                )
            else:
                _status_of(response, len(told))
            await answers.write(response)
            for message in told:
                response = _PullResponse()
                fill_message(response.message, message, call.caller.namespace)
                await answers.write(response)
            response = _PullResponse()
            response.next_offset = reply.next_offset
            await answers.write(response)
        finally:
            self._unread.give_back(len(payload), owner)


_MOVED: Final = frozenset({GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY})


def _status_of(response: Any, count: int) -> Any:
    code = Code.OK if count else Code.MESSAGE_NOT_FOUND
    response.status.code = code
    response.status.message = "OK" if count else "no new message"
    return response
