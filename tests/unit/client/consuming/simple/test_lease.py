"""What a popped message carries, and what a handle says."""

from __future__ import annotations

import pickle

import pytest

from zenitmq.client.consuming.simple.lease import Lease, LeasedPart, lease_of, lease_of_handle, leased_parts
from zenitmq.model.errors import HandleRefused, InvalidParameter
from zenitmq.model.handles.receipt_handle import ReceiptHandle, with_index
from zenitmq.record.kernel import StoredMessage, decode_batch, encode_record

PART = LeasedPart("billing", "broker-a", "trades", "handle.signature", 5_000)


def message() -> StoredMessage:
    record = encode_record(
        topic=b"trades",
        body=b"x",
        properties=b"TAGS\x01buy\x02",
        queue_id=3,
        flag=0,
        queue_offset=7,
        sys_flag=0,
        born_timestamp_ms=1,
        born_host=bytes(8),
        store_timestamp_ms=2,
        store_host=bytes(8),
        reconsume_times=1,
        prepared_transaction_offset=0,
    )
    return decode_batch(record, "broker-a")[0]


def test_a_popped_message_has_its_lease_and_tells_its_attempts() -> None:
    lease = Lease(PART, 4)
    popped = message().leased(2, lease)
    assert popped.lease is lease
    assert popped.reconsume_times == 3
    assert (popped.topic, popped.body, popped.tags, popped.broker_name) == ("trades", b"x", "buy", "broker-a")
    assert lease_of(popped, "billing") is lease
    assert lease.handle == "handle.signature.4"


def test_a_message_that_was_not_popped_by_the_group_is_none_of_its() -> None:
    popped = message().leased(0, Lease(PART, 4))
    for other, group in ((message(), "billing"), (popped, "shipping"), (pickle.loads(pickle.dumps(popped)), "billing")):
        with pytest.raises(InvalidParameter, match="or its handle"):
            lease_of(other, group)
    with pytest.raises(InvalidParameter, match="NoneType"):
        lease_of(None, "billing")


def test_a_handle_says_whose_it_is_and_how_long() -> None:
    named = ReceiptHandle("broker-b", "billing", "trades", 3, 7, 2, 1_000_000, 30_000)
    text = named.sign(b"k" * 32)
    assert ReceiptHandle.read(text) == named
    lease = lease_of_handle(with_index(text, 1), "billing", now_ms=400, since_epoch_ms=1_010_000)
    assert lease.part == LeasedPart("billing", "broker-b", "trades", text, 20_400)
    assert lease.index == 1
    for wrong in ("", "no handle", text, with_index(text, 40), "a.b.c"):
        with pytest.raises(HandleRefused):
            lease_of_handle(wrong, "billing", now_ms=0, since_epoch_ms=0)


def test_leases_of_one_part_are_one_row() -> None:
    other = LeasedPart("billing", "broker-a", "trades", "other", 5_000)
    leases = [Lease(PART, 0), Lease(other, 1), Lease(PART, 5)]
    assert leased_parts(leases) == {PART: 0b100001, other: 0b10}
