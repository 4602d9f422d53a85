"""A producer of a drill numbers on, repeats what was not acknowledged, and never goes past it. No broker is asked."""

from __future__ import annotations

import io
import threading
import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from zenitmq.deploy.drills.ledger import ACKNOWLEDGED, Bodies, queue_number, read_body
from zenitmq.deploy.drills.load import FLUSH_ROWS, Journal, LoadJob, NumberedProducer
from zenitmq.model.errors import MessageTooLarge, RequestTimeout, ZenitError
from zenitmq.model.message import Message, SendReceipt
from zenitmq.model.queue import MessageQueue, PhysicalOffset, QueueOffset

JOB = LoadJob(
    namesrv="",
    topic="t",
    run=9,
    path="",
    producers=1,
    rate=1e9,
    batch=3,
    body_bytes=64,
    groups=("broker-a", "broker-b"),
)
QUEUE = queue_number(1, 5)


class ScriptedProducer:
    """Answers each send with the next line of a script: an error, or None for an acknowledgement. Stops at its end."""

    def __init__(self, script: Sequence[ZenitError | None], stop: threading.Event) -> None:
        self._script = list(script)
        self._stop = stop
        self.sent: list[tuple[str, list[int]]] = []
        self.keys: list[list[str]] = []
        self._offset = 0

    def send_batch(self, messages: Sequence[Message], *, sharding_key: str, timeout: float) -> list[SendReceipt]:
        self.sent.append((sharding_key, [read_body(message.body, JOB.run)[1] for message in messages]))
        self.keys.append([key for message in messages for key in message.keys])
        outcome = self._script.pop(0)
        if not self._script:
            self._stop.set()
        if outcome is not None:
            raise outcome
        first, self._offset = self._offset, self._offset + len(messages)
        queue = MessageQueue("t", "broker-b", 5)
        return [
            SendReceipt("", "", queue, QueueOffset(offset), PhysicalOffset(100 * offset))
            for offset in range(first, self._offset)
        ]


def outcome_of(
    script: Sequence[ZenitError | None], job: LoadJob = JOB
) -> tuple[ScriptedProducer, NumberedProducer, np.ndarray]:
    stop, file = threading.Event(), io.BytesIO()
    scripted, journal = ScriptedProducer(script, stop), Journal(file)
    producer = NumberedProducer(job, 4, scripted, journal, stop)
    producer.run()
    journal.close()
    return scripted, producer, np.frombuffer(file.getvalue(), dtype=ACKNOWLEDGED)


def test_what_was_not_acknowledged_is_sent_again_before_anything_else() -> None:
    lost = RequestTimeout("a reply", 10)
    scripted, producer, rows = outcome_of([None, lost, lost, None, None])
    first, second, third = [0, 1, 2], [3, 4, 5], [6, 7, 8]
    assert [numbers for _, numbers in scripted.sent] == [first, second, second, second, third]
    assert {key for key, _ in scripted.sent} == {"producer-4"}
    assert list(rows["sequence"]) == list(range(9))
    assert producer.tries_failed == 2


def test_for_a_compacted_topic_each_try_has_keys_of_its_own() -> None:
    """So no copy of a message replaces another, and what was acknowledged is found where it was acknowledged."""
    scripted, _, _ = outcome_of([RequestTimeout("x", 1), None], replace(JOB, is_keyed=True))
    keys = [key for sent in scripted.keys for key in sent]
    assert len(set(keys)) == len(keys) == 2 * JOB.batch
    assert outcome_of([None])[0].keys == [[]]


def test_an_acknowledgement_is_written_down_with_where_it_lies_and_what_it_says() -> None:
    _, _, rows = outcome_of([None])
    assert [
        tuple(int(row[name]) for name in ("producer", "queue", "queue_offset", "physical_offset")) for row in rows
    ] == [
        (4, QUEUE, 0, 0),
        (4, QUEUE, 1, 100),
        (4, QUEUE, 2, 200),
    ]
    assert len(set(rows["time_ns"])) == 1  # one reply
    bodies = Bodies(9, 4, 64)
    assert [int(row["checksum"]) for row in rows] == [zlib.crc32(bodies.make(number)) for number in range(3)]


def test_a_send_that_is_under_way_when_the_run_ends_is_not_written_down() -> None:
    scripted, producer, rows = outcome_of([None, RequestTimeout("a reply", 10)])
    assert len(scripted.sent) == 2
    assert len(rows) == 3
    assert producer.sent == 3


def test_what_can_never_be_stored_ends_the_producer_and_is_told() -> None:
    _, producer, rows = outcome_of([None, MessageTooLarge("message body", 10, 5), None])
    assert len(rows) == 3
    assert "message body" in producer.failure


@pytest.mark.parametrize("count", [FLUSH_ROWS - 1, FLUSH_ROWS, FLUSH_ROWS + 1])
def test_rows_are_kept_in_memory_a_few_hundred_at_a_time(count: int) -> None:
    file = io.BytesIO()
    journal = Journal(file)
    for _ in range(count):
        journal.add([b"r"])
    assert len(file.getvalue()) == (FLUSH_ROWS if count >= FLUSH_ROWS else 0)
    journal.close()
    assert len(file.getvalue()) == journal.count == count


@pytest.mark.parametrize("singles", [0, 1, 4])
def test_the_rate_is_kept_whoever_sends_one_at_a_time(singles: int) -> None:
    job = replace(JOB, first_producer=4, producers=4, rate=100.0, batch=16, singles=singles)
    batches = [job.batch_of(number) for number in range(4, 8)]
    assert batches == [1] * singles + [16] * (4 - singles)
    assert sum(batches) * 1e9 / job.interval_ns == pytest.approx(100.0)
