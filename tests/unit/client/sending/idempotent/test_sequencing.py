"""What an idempotent producer asks next, and what an answer means for its batch."""

from __future__ import annotations

import pytest

from zenitmq.client.sending.delayed_send import DelayedAnswer
from zenitmq.client.sending.idempotent.sequencing import REFUSALS, SequencedAttempt, SequencedRequest, Stream
from zenitmq.model.errors import (
    BrokerBusy,
    ConnectionLost,
    MessageIllegal,
    NoRoute,
    NotMaster,
    OutcomeUnknown,
    OutOfOrderSequence,
    RequestTimeout,
    SequenceKnownInPart,
    ZenitError,
)
from zenitmq.model.queue import MessageQueue
from zenitmq.remoting.commands import SendDelayedSequenced, SendReply, SendSequenced
from zenitmq.remoting.delayed_places import NOWHERE, Place

QUEUE = MessageQueue("trades", "broker-a", 3)
HOST = bytes(8)
PAYLOAD = memoryview(bytes(range(50)))  # of the batch's five records


class FreshStreams:
    """Where each queue is free."""

    def take(self, queue: MessageQueue, attempt: SequencedAttempt) -> bool:
        attempt.queue = queue
        return True

    def give_back(self, attempt: SequencedAttempt) -> None:
        attempt.queue = None

    def new_id(self) -> str:
        return "fresh"

    def request_class(self, *, delayed: bool) -> SequencedRequest:
        return SendDelayedSequenced if delayed else SendSequenced


@pytest.fixture
def stream() -> Stream:
    stream = Stream("p")
    stream.next_sequence = 100
    return stream


@pytest.fixture
def batch(stream: Stream) -> SequencedAttempt:
    """Five records of ten bytes, on their way to QUEUE."""
    batch = SequencedAttempt(5, lambda: [10] * 5, FreshStreams())
    batch.queue, batch.stream = QUEUE, stream
    return batch


def stored(offset: int, position: int = 0) -> SendReply:
    return SendReply(3, offset, position, 1, HOST)


def test_a_batch_that_is_stored_moves_the_stream_on(batch: SequencedAttempt, stream: Stream) -> None:
    assert batch.request("g", delayed=False) == SendSequenced("trades", 3, 5, "g", "p", 100)
    assert batch.request("g", delayed=True) == SendDelayedSequenced("trades", 3, 5, "g", "p", 100)
    assert batch.part_of(PAYLOAD) == PAYLOAD
    assert batch.on_answer(stored(7)) == stored(7)
    assert stream.next_sequence == 105
    assert not batch.in_doubt


@pytest.mark.parametrize("error", [BrokerBusy(1), NoRoute("t", "r"), MessageIllegal("x")])
def test_what_was_refused_may_go_anywhere(batch: SequencedAttempt, stream: Stream, error: ZenitError) -> None:
    assert not batch.on_error(error)
    assert not batch.in_doubt
    assert batch.failure(error) is error
    assert (stream.producer_id, stream.next_sequence) == ("p", 100)


@pytest.mark.parametrize("error", [RequestTimeout("x", 1), ConnectionLost("a"), NotMaster("b", 1)])
def test_what_has_no_answer_is_in_doubt_until_it_has_one(
    batch: SequencedAttempt, stream: Stream, error: ZenitError
) -> None:
    assert not batch.on_error(error)
    assert batch.in_doubt
    assert not batch.on_error(BrokerBusy(1))
    assert batch.in_doubt, "a refusal now says nothing of the try before"
    assert batch.request("g", delayed=False).first_sequence == 100
    assert batch.on_answer(stored(7)) is not None
    assert not batch.in_doubt


def test_a_batch_given_up_in_doubt_ends_its_stream(batch: SequencedAttempt) -> None:
    error = RequestTimeout("a send", 5)
    batch.on_error(error)
    failure = batch.failure(error)
    assert isinstance(failure, OutcomeUnknown)
    assert str(failure).startswith("it is unknown whether queue 3 of trades at broker-a has the messages")
    assert batch.in_doubt


def test_a_wait_for_a_queue_leaves_nothing_in_doubt() -> None:
    batch = SequencedAttempt(1, lambda: [1], FreshStreams())
    assert not batch.on_error(RequestTimeout("a queue", 5))
    assert not batch.in_doubt


def test_a_broker_that_forgot_us_is_met_under_a_new_id_once(batch: SequencedAttempt, stream: Stream) -> None:
    forgot = OutOfOrderSequence(100, -1)
    assert batch.on_error(forgot)
    assert batch.request("g", delayed=False) == SendSequenced("trades", 3, 5, "g", "fresh", 0)
    assert not batch.on_error(forgot)
    assert batch.failure(forgot) is forgot


def test_not_where_an_earlier_try_may_have_been_stored(batch: SequencedAttempt) -> None:
    batch.on_error(ConnectionLost("a"))
    forgot = OutOfOrderSequence(100, -1)
    assert not batch.on_error(forgot)
    assert isinstance(batch.failure(forgot), OutcomeUnknown)


def test_a_batch_known_in_part_goes_on_in_two(batch: SequencedAttempt, stream: Stream) -> None:
    assert batch.on_error(SequenceKnownInPart(100, 101))
    assert batch.in_doubt
    assert batch.part_of(PAYLOAD) == PAYLOAD[:20]
    assert batch.request("g", delayed=False) == SendSequenced("trades", 3, 2, "g", "p", 100)
    assert batch.on_answer(stored(50, 1000)) is None
    assert batch.part_of(PAYLOAD) == PAYLOAD[20:]
    assert batch.request("g", delayed=False) == SendSequenced("trades", 3, 3, "g", "p", 102)
    assert batch.on_error(SequenceKnownInPart(102, 103)), "torn once more"
    assert batch.part_count == 2
    assert batch.on_answer(stored(60, 2000)) is None
    assert batch.on_answer(stored(-1, -1)) == DelayedAnswer(
        HOST,
        [
            Place(NOWHERE, 50, 1000),
            Place(NOWHERE, 51, 1010),
            Place(NOWHERE, 60, 2000),
            Place(NOWHERE, 61, 2010),
            Place(NOWHERE, NOWHERE, NOWHERE),
        ],
    )
    assert stream.next_sequence == 105
    assert not batch.in_doubt


def test_parts_of_delayed_messages_are_joined(batch: SequencedAttempt) -> None:
    places = [Place(99, NOWHERE, at) for at in range(5)]
    assert batch.on_error(SequenceKnownInPart(100, 100))
    assert batch.on_answer(DelayedAnswer(HOST, places[:1])) is None
    assert batch.on_answer(DelayedAnswer(HOST, places[1:])) == DelayedAnswer(HOST, places)


@pytest.mark.parametrize("last", [99, 104, 1000])
def test_a_part_that_is_none_leaves_it_in_doubt(batch: SequencedAttempt, last: int) -> None:
    assert not batch.on_error(SequenceKnownInPart(100, last))
    assert batch.in_doubt


def test_whoever_was_deposed_may_have_stored_it() -> None:
    assert NotMaster not in REFUSALS


def test_a_batch_whose_sender_is_gone_may_be_stored(batch: SequencedAttempt) -> None:
    assert not batch.may_be_stored
    batch.request("g", delayed=False)
    assert batch.may_be_stored
    batch.on_error(BrokerBusy(1))
    assert not batch.may_be_stored
    batch.request("g", delayed=False)
    batch.on_answer(stored(7))
    assert not batch.may_be_stored


def test_a_batch_enters_and_leaves_queues_by_its_streams(batch: SequencedAttempt) -> None:
    batch.leave()
    assert batch.queue is None
    assert batch.enter(QUEUE)
    assert batch.queue == QUEUE
