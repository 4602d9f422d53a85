"""Futures of a batch: what they tell, and when."""

import threading

import pytest

from zenitmq.client.sending.send_future import (
    BatchOutcome,
    BatchReceipts,
    SealedFacts,
    SendFuture,
    record_begins,
    record_position,
    run_callbacks,
)
from zenitmq.model.errors import ConnectionLost, RequestTimeout
from zenitmq.model.queue import MessageQueue
from zenitmq.remoting.commands import SendReply

QUEUE = MessageQueue("t", "a", 2)
HOST = bytes((10, 0, 0, 1)) + (10911).to_bytes(4, "big")
REPLY = SendReply(2, 100, 5000, 1, HOST)
FACTS = SealedFacts(bytes(range(10)), 0x01020304, 0xFFFE, [150, 160, 170])


def settled(reply: SendReply | None, error: ConnectionLost | None = None) -> BatchOutcome:
    outcome = BatchOutcome()
    outcome.facts = FACTS
    outcome.settle(QUEUE, reply, error)
    return outcome


def test_receipts_are_made_of_the_batch_and_the_place() -> None:
    outcome = settled(REPLY)
    receipts = [SendFuture(outcome, index).result() for index in range(3)]
    assert [receipt.queue_offset for receipt in receipts] == [100, 101, 102]
    assert [receipt.physical_offset for receipt in receipts] == [5000, 5150, 5310]
    assert [receipt.message_id[-4:] for receipt in receipts] == ["FFFE", "FFFF", "0000"]
    assert receipts[0].message_id == "0001020304050607080901020304FFFE"
    assert receipts[1].offset_message_id == "0A00000100002A9F000000000000141E"
    assert list(BatchReceipts(FACTS, QUEUE, REPLY)) == receipts
    assert BatchReceipts(FACTS, QUEUE, REPLY)[-1] == receipts[-1]
    assert BatchReceipts(FACTS, QUEUE, REPLY)[1:] == receipts[1:]


def test_batch_that_was_split_has_records_in_its_pieces() -> None:
    reply = SendReply(0, 0, 1000, 1, HOST, pieces=((2, 1000), (2, 9000)))
    begins = record_begins([10, 20, 30, 40])
    assert [record_position(reply, begins, index) for index in range(4)] == [1000, 1010, 9000, 9030]


def test_failed_batch_fails_all_its_futures() -> None:
    error = ConnectionLost("a:1")
    future = SendFuture(settled(None, error), 0)
    assert future.done()
    assert future.exception() is error
    with pytest.raises(ConnectionLost):
        future.result()


def test_waiting_is_bounded() -> None:
    future = SendFuture(BatchOutcome(), 0)
    assert not future.done()
    with pytest.raises(RequestTimeout):
        future.result(timeout=0.01)


def test_who_waits_is_woken() -> None:
    outcome = BatchOutcome()
    outcome.facts = FACTS
    future = SendFuture(outcome, 1)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(future.result(5).queue_offset))
    thread.start()
    outcome.settle(QUEUE, REPLY, None)
    thread.join(5)
    assert found == [101]


def test_callbacks_are_called_once_before_or_after(caplog) -> None:
    outcome = BatchOutcome()
    outcome.facts = FACTS
    first, second = SendFuture(outcome, 0), SendFuture(outcome, 1)
    called: list[SendFuture] = []
    first.add_done_callback(lambda future: 1 // 0)  # the others are called all the same
    first.add_done_callback(called.append)
    second.add_done_callback(called.append)
    assert called == []
    assert outcome.settle(QUEUE, REPLY, None)
    run_callbacks(outcome.take_callbacks())
    assert called == [first, second]
    second.add_done_callback(called.append)
    assert called == [first, second, second]
    assert "a send callback failed" in caplog.text
