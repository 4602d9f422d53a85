"""One batch of an idempotent producer on its way into a queue: the next request, and what an answer means. Pure.

    first try --refused for certain--> the batch may go to any queue
        |  \\--stored--> done
        | no answer, or an unclear one: *in doubt*
        v
    the same sequences to the same queue, until the broker confirms them, or the time is over: outcome unknown

A broker that has only the first messages of the batch (it crashed during a try) says so. The batch then continues in two
parts: those messages, to learn their places, and the rest. A broker may no longer know the producer, because the producer
was silent for longer than the broker remembers, or the topic was recreated. Then the producer takes a new id, under which
nothing is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, Protocol

from ....model.errors import (
    BrokerBusy,
    BufferFull,
    EngineLacks,
    InvalidName,
    InvalidParameter,
    MessageIllegal,
    MessageTooLarge,
    NoPermission,
    NoRoute,
    NotEnoughReplicas,
    OutcomeUnknown,
    OutOfOrderSequence,
    SequenceKnownInPart,
    StoreNotWriteable,
    TopicNotFound,
    UnknownRequest,
    ZenitError,
)
from ....model.queue import MessageQueue
from ....remoting.commands import SendDelayedSequenced, SendHalves, SendSequenced
from ....remoting.delayed_places import NOWHERE, Place
from ..delayed_send import Answer, DelayedAnswer

REFUSALS: Final = (
    BrokerBusy,
    BufferFull,
    EngineLacks,
    InvalidName,
    InvalidParameter,
    MessageIllegal,
    MessageTooLarge,
    NoPermission,
    NoRoute,
    NotEnoughReplicas,
    OutOfOrderSequence,
    SequenceKnownInPart,
    StoreNotWriteable,
    TopicNotFound,
    UnknownRequest,
)
"""Errors that mean that nothing was stored. NotMaster is not one: a former master may have stored it before."""


class Stream:
    """One producer's stream to one queue: its id there, and the sequence of its next message."""

    __slots__ = ("next_sequence", "producer_id")

    def __init__(self, producer_id: str) -> None:
        self.producer_id = producer_id
        self.next_sequence = 0


SequencedRequest = type[SendSequenced] | type[SendDelayedSequenced] | type[SendHalves]


class Streams(Protocol):
    """A producer's streams, one per queue (queue_streams)."""

    def take(self, queue: MessageQueue, attempt: SequencedAttempt) -> bool:
        """Lets the batch enter the queue, exclusively until `give_back`. It leaves the one it had.

        False while another batch is there. Not for a batch in doubt.
        """

    def give_back(self, attempt: SequencedAttempt) -> None:
        """Takes the batch out of its queue. If the queue may have stored it, the next batch gets a new stream."""

    def new_id(self) -> str:
        """An id that no other producer has."""

    def request_class(self, *, delayed: bool) -> SequencedRequest:
        """The class of the request that stores a batch."""


class SequencedAttempt:
    """The `SendAttempt` of an idempotent producer."""

    __slots__ = (
        "__weakref__",
        "_answers",
        "_begins",
        "_count",
        "_is_asked",
        "_parts",
        "_sizes",
        "_streams",
        "_was_renewed",
        "in_doubt",
        "queue",
        "result",
        "stream",
    )

    def __init__(self, count: int, sizes: Callable[[], Sequence[int]], streams: Streams) -> None:
        """`count` records of `sizes()` bytes, which is called only if the batch must be sent in parts."""
        self.queue: MessageQueue | None = None
        self.stream: Stream | None = None
        self.in_doubt = False
        self.result: Answer | None = None
        self._is_asked = False
        self._sizes = sizes
        self._streams = streams
        self._count = count
        self._parts = [(0, count)]
        self._answers: list[tuple[int, Answer]] = []
        self._begins: list[int] | None = None
        self._was_renewed = False

    @property
    def may_be_stored(self) -> bool:
        """Whether the queue may have stored some of it without our knowledge."""
        return self.in_doubt or self._is_asked

    # ---- its queue

    def enter(self, queue: MessageQueue) -> bool:
        """See `SendAttempt`."""
        return self._streams.take(queue, self)

    def leave(self) -> None:
        """See `SendAttempt`."""
        self._streams.give_back(self)

    # ---- requests

    @property
    def part_count(self) -> int:
        """See `SendAttempt`."""
        begin, end = self._parts[0]
        return end - begin

    def part_of(self, payload: memoryview) -> memoryview:
        """See `SendAttempt`."""
        if self._begins is None:
            return payload
        begin, end = self._parts[0]
        return payload[self._begins[begin] : self._begins[end]]

    def request(self, group: str, *, delayed: bool) -> SendSequenced | SendDelayedSequenced | SendHalves:
        """See `SendAttempt`. From here on an interrupted caller leaves the batch in doubt."""
        assert self.queue is not None
        assert self.stream is not None
        self._is_asked = True
        queue, begin = self.queue, self._parts[0][0]
        request = self._streams.request_class(delayed=delayed)
        first = self.stream.next_sequence + begin
        return request(queue.topic, queue.queue_id, self.part_count, group, self.stream.producer_id, first)

    # ---- answers

    def on_answer(self, answer: Answer) -> Answer | None:
        """See `SendAttempt`."""
        assert self.stream is not None
        answers, parts = [*self._answers, (self.part_count, answer)], self._parts[1:]
        whole = None if parts else answer if len(answers) == 1 else self._joined(answers)
        # No call from here on: a signal handler finds the answer taken completely, or not at all.
        self._answers = answers
        self._is_asked = False
        if parts:
            self._parts = parts
        else:
            self.stream.next_sequence += self._count
            self.in_doubt = False
            self.result = whole
        return whole

    def on_error(self, error: ZenitError) -> bool:
        """See `SendAttempt`."""
        if isinstance(error, SequenceKnownInPart):
            return self._split(error.last_sequence)
        in_doubt = self.in_doubt or (self.queue is not None and not isinstance(error, REFUSALS))
        self.in_doubt, self._is_asked = in_doubt, False
        if isinstance(error, OutOfOrderSequence):
            if self.in_doubt or self._was_renewed:
                return False
            assert self.stream is not None
            self.stream.producer_id, self.stream.next_sequence = self._streams.new_id(), 0
            self._was_renewed = True
            return True
        return False

    def failure(self, error: ZenitError) -> ZenitError:
        """See `SendAttempt`: it may be unknown whether the messages are stored."""
        if not self.in_doubt:
            return error
        assert self.queue is not None
        return OutcomeUnknown(
            f"queue {self.queue.queue_id} of {self.queue.topic} at {self.queue.broker_name}", str(error)
        )

    def _split(self, last_sequence: int) -> bool:
        """Splits the batch: the queue has the first part. It stays in doubt until all is stored."""
        assert self.stream is not None
        begin, end = self._parts[0]
        cut = last_sequence + 1 - self.stream.next_sequence
        self.in_doubt = True
        if not begin < cut < end:
            return False
        if self._begins is None:
            self._begins = list(accumulate(self._sizes(), initial=0))
        self._parts[0:1] = [(begin, cut), (cut, end)]
        return True

    def _joined(self, answers: list[tuple[int, Answer]]) -> DelayedAnswer:
        """Joins the answers to the parts into one with the place of each message."""
        assert self._begins is not None
        places: list[Place] = []
        for count, answer in answers:
            if isinstance(answer, DelayedAnswer):
                places += answer.places
                continue
            first = self._begins[len(places)]
            for index in range(count):
                behind = self._begins[len(places)] - first
                at = NOWHERE if answer.physical_offset < 0 else answer.physical_offset + behind
                offset = NOWHERE if answer.queue_offset < 0 else answer.queue_offset + index
                places.append(Place(NOWHERE, offset, at))
        return DelayedAnswer(answers[0][1].store_host, places)
