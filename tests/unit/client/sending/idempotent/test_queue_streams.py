"""Queues of an idempotent producer whose batches are gone: they are free again."""

from __future__ import annotations

import gc

from interrupt_kit import Interrupted, Interrupter

from zenitmq.client.sending.idempotent.queue_streams import QueueStreams
from zenitmq.model.errors import RequestTimeout
from zenitmq.model.queue import MessageQueue

QUEUE = MessageQueue("trades", "broker-a", 3)


def leave_in_doubt(streams: QueueStreams, interrupter: Interrupter) -> None:
    """A batch whose answer was lost leaves its queue, interrupted."""
    attempt = streams.begin(5, lambda: [10] * 5)
    assert attempt.enter(QUEUE)
    attempt.request("g", delayed=False)
    assert not attempt.on_error(RequestTimeout("a send", 1))
    with interrupter.at_work():
        attempt.leave()


def test_a_queue_is_free_again_wherever_its_batch_was_interrupted_when_it_left() -> None:
    at = 1
    while True:
        streams, interrupter = QueueStreams(), Interrupter(at)
        first = streams.begin(1, lambda: [10])
        assert first.enter(QUEUE)
        assert first.stream is not None
        before = first.stream.producer_id
        first.leave()
        try:
            leave_in_doubt(streams, interrupter)
        except Interrupted:
            at += 1
        else:
            break
        gc.collect()
        streams.look_after()
        assert not streams.is_taken(QUEUE), interrupter.where
        second = streams.begin(1, lambda: [10])
        assert second.enter(QUEUE)
        assert second.stream is not None
        assert second.stream.producer_id != before, f"{interrupter.where}: its sequences go on behind what is in doubt"
    assert at > 3
