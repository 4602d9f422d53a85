"""Sends under a producer id and with sequences that the caller chooses: the lower seam of idempotent producers.

For callers that can send the same batch again after a crash, under the same name. The caller chooses the id; its sequences
must grow (they may leave out some); a batch that was stored before changes nothing. One batch at a time for each id and
queue, in the order of the sequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from ....model.clock import monotonic_ms
from ....model.errors import OutcomeUnknown, RemoteProtocolError, SequenceKnownInPart, ZenitError
from ....model.queue import MessageQueue
from ....model.sequence import check_producer_id, check_sequences, sequence_room
from ....record.kernel import batch_sizes
from ....remoting.commands import SendSequenced, SequencedReply
from ...connection.connection import Connection
from ...connection.retry import RetryPolicy
from ...connection.route_pause import pause
from ...connection.waiting import Blocking, run_blocking
from .sequencing import REFUSALS

TOTAL_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class SequencedResult:
    """The result of a send. `last_sequence`: the batch's last one, which the queue has now.

    `duplicate_messages`: how many of the batch the queue had already. `known_sequence`: the newest one in the queue if it
    had the whole batch; -1: it had not, or the broker does not say.
    """

    last_sequence: int
    duplicate_messages: int
    known_sequence: int = -1


class SequencedSends:
    """One sender's; one thread at a time. `room`: encoded properties that each record must have, besides others.

    An accumulator takes it as its `own_properties`.
    """

    def __init__(
        self, connection: Connection, producer_id: str, *, group: str = "SEQUENCED", total_ms: int = TOTAL_MS
    ) -> None:
        """`total_ms`: over all tries of a batch. Raises InvalidParameter."""
        self.producer_id = check_producer_id(producer_id)
        self.room = sequence_room(len(producer_id))
        self._connection = connection
        self._waits = Blocking(connection.remoting)
        self._group = group
        self._total_ms = total_ms
        self._retry = RetryPolicy()

    def send(
        self, queue: MessageQueue, payload: bytes | bytearray | memoryview, count: int, first_sequence: int
    ) -> SequencedResult:
        """Stores `count` contiguous records, each with `room`, once, as sequences `first_sequence` and so on.

        Raises OutcomeUnknown if no broker answered in time, else the error of the last try. Sending the same batch again
        under this id finds out what became of it.
        """
        check_sequences(first_sequence, count)
        return run_blocking(self._send(queue, memoryview(payload), count, first_sequence))

    async def _send(self, queue: MessageQueue, payload: memoryview, count: int, first: int) -> SequencedResult:
        deadline_ms = monotonic_ms() + self._total_ms
        routes = self._connection.routes
        await routes.served_route(queue.topic, self._waits, timeout_ms=self._total_ms)
        last = first + count - 1
        duplicates = tries = before_route = 0
        in_doubt = False
        while True:
            request = SendSequenced(
                queue.topic, queue.queue_id, last - first + 1, self._group, self.producer_id, first, has_gaps=True
            )
            timeout_ms = self._retry.try_timeout_ms(self._total_ms, deadline_ms - monotonic_ms())
            route = routes.cached(queue.topic)
            try:
                address = routes.address_of(queue.topic, queue.broker_name)
                reply, _ = await self._waits.call(address, request, payload, timeout_ms=timeout_ms)
                if not isinstance(reply, SequencedReply):
                    raise RemoteProtocolError(f"a send was answered with {type(reply).__name__}")
                if reply.is_duplicate:
                    return SequencedResult(last, duplicates + last - first + 1, reply.last_sequence)
                return SequencedResult(last, duplicates)
            except SequenceKnownInPart as error:
                known = error.last_sequence + 1 - first
                if not 0 < known <= last - first:
                    raise RemoteProtocolError(f"of {last - first + 1} messages {known} are said to be known") from error
                payload = payload[_end_of(payload, known) :]
                first += known
                duplicates += known
            except ZenitError as error:
                in_doubt = in_doubt or not isinstance(error, REFUSALS)
                tries += 1
                delay_ms = self._retry.delay_ms(
                    error,
                    tries=tries,
                    left_ms=deadline_ms - monotonic_ms(),
                    elsewhere=False,
                    before_route=before_route,
                )
                if delay_ms is None:
                    if in_doubt:
                        name = f"queue {queue.queue_id} of {queue.topic} at {queue.broker_name}"
                        raise OutcomeUnknown(name, str(error)) from error
                    raise
                if error.route_stale:
                    routes.refresh_soon(queue.topic)
                if await pause(routes, queue.topic, route, self._waits, delay_ms):
                    before_route = tries


def _end_of(payload: memoryview, count: int) -> int:
    """The byte position at which the first `count` records of a batch end."""
    return list(accumulate(batch_sizes(bytearray(payload), len(payload))))[count - 1]
