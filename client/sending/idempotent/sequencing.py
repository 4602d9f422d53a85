"""One batch of an idempotent producer on its way into a queue: what is asked next, and what an answer means. Pure.

    first try --refused for certain--> the batch may go to any queue
        |  \\--stored--> done
        | no answer, or one that leaves it open: *in doubt*
        v
    the same sequences to the same queue, until the broker says that it has them, or the time is over: outcome unknown

A broker that has only the first messages of the batch (it crashed in the middle of a try) says so; the batch then goes on
in two parts: those, to learn where they are, and the rest. A broker that has never heard of us, though it should have
(we were silent for longer than it remembers, the topic was made anew), is met under a new id, where nothing is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, Protocol

from ....model.errors import (
    BrokerBusy,
    BufferFull,
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
"""What a try ends with that surely stored nothing. NotMaster is none of them: who was master may have stored it before."""


class Stream:
    """What one producer sends to one queue: its id there, and the sequence of its next message."""

    __slots__ = ("next_sequence", "producer_id")

    def __init__(self, producer_id: str) -> None:
        self.producer_id = producer_id
        self.next_sequence = 0


SequencedRequest = type[SendSequenced] | type[SendDelayedSequenced] | type[SendHalves]


class Streams(Protocol):
    """A producer's streams, one a queue (queue_streams)."""

    def take(self, queue: MessageQueue, attempt: SequencedAttempt) -> bool:
        """Has the batch enter the queue, for itself alone until it is given back. It leaves the one it had.

        False while another one is there. Not for a batch in doubt.
        """

    def give_back(self, attempt: SequencedAttempt) -> None:
        """The batch leaves its queue. Where the queue may have it, the next one begins the queue anew."""

    def new_id(self) -> str:
        """An id that no other producer has."""

    def request_class(self, *, delayed: bool) -> SequencedRequest:
        """What asks to store a batch."""


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
        """`count` records of `sizes()` bytes, which is asked only where the batch must go in parts."""
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
        """Whether the queue may have some of it that nobody has heard of."""
        return self.in_doubt or self._is_asked

    # ---- its queue

    def enter(self, queue: MessageQueue) -> bool:
        """See `SendAttempt`."""
        return self._streams.take(queue, self)

    def leave(self) -> None:
        """See `SendAttempt`."""
        self._streams.give_back(self)

    # ---- asking

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
        """See `SendAttempt`. From here on a caller who is gone leaves it in doubt."""
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
        # Nothing is called from here on: a signal's handler finds the answer taken, or not come yet.
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
        """See `SendAttempt`: whether the messages are stored may not be known."""
        if not self.in_doubt:
            return error
        assert self.queue is not None
        return OutcomeUnknown(
            f"queue {self.queue.queue_id} of {self.queue.topic} at {self.queue.broker_name}", str(error)
        )

    def _split(self, last_sequence: int) -> bool:
        """The queue has some of what was asked: which stays in doubt until all is stored."""
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
        """The answers to the parts as one that says of each message where it is."""
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
