"""The record of a batch and its unit of 46 bytes, byte for byte."""

from pathlib import Path

import pytest
from store_kit import StillClock, batch, make_store, message, put_batch

from zenitmq.record.kernel import decode_batch, decode_record, encode_record, unwrap_batches, wrap_batch
from zenitmq.store.queues.batches.batch_table import BATCH_FOLDER

SENT = (
    encode_record(topic=b"t", body=b"hi", properties=b"TAGS\x01a\x02k\x012\x02", flag=7, born_timestamp_ms=5),
    encode_record(topic=b"t", body=b"you", properties=b"TAGS\x01a\x02", born_timestamp_ms=5),
)


def test_the_record_of_a_batch() -> None:
    wrapped = wrap_batch(b"".join(SENT), sum(map(len, SENT)), 1 << 20)
    properties = b"INNER_BASE\x01" + b"0" * 19 + b"\x02INNER_NUM\x0100002\x02TAGS\x01a\x02"
    inner = decode_record(wrapped).body_as_stored
    assert wrapped == encode_record(topic=b"t", body=inner, properties=properties, sys_flag=0xC0, born_timestamp_ms=5)
    assert inner == bytes.fromhex(
        "00000023" "00000000" "00000000" "00000007" "00000002" "6869" "000B" "54414753016102" "6B013202"
        "00000020" "00000000" "00000000" "00000000" "00000003" "796F75" "0007" "54414753016102"
    )  # fmt: skip


def test_messages_come_out_as_they_went_in() -> None:
    wrapped = batch(*SENT)
    assert unwrap_batches(wrapped + SENT[0] + wrapped)[: len(SENT[0])] == SENT[0]
    again = b"".join(one.record for one in decode_batch(wrapped))
    offset = len(SENT[0]) + 20
    assert again[:offset] + bytes(8) + again[offset + 8 :] == b"".join(SENT)
    assert [one.queue_offset for one in decode_batch(wrapped)] == [0, 1]


def test_the_unit_and_the_stamped_record(tmp_path: Path) -> None:
    with make_store(tmp_path, StillClock(0x18BCFE56800)) as store:
        put_batch(store, "t", 0, message("t", b"1"), message("t", b"2"))
        placed = put_batch(store, "t", 0, *SENT)
        stored = store.record_at(placed.physical_offset)
    unit = (tmp_path / BATCH_FOLDER / "t" / "0" / ("0" * 20)).read_bytes()[46:92]
    assert unit == bytes.fromhex(
        f"{placed.physical_offset:016X}" f"{len(stored):08X}" "0000000000000061" "0000018BCFE56800"
        "0000000000000002" "0002" "FFFFFFFF" "00000000"
    )  # fmt: skip
    assert b"INNER_BASE\x010000000000000000002\x02INNER_NUM\x0100002\x02" in stored
    assert stored[20:28] == (2).to_bytes(8, "big")


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_body_that_does_not_add_up_is_one_damaged_message(cut: int) -> None:
    whole = decode_record(batch(*SENT))
    wrong = encode_record(
        topic=b"t", body=whole.body_as_stored[:-cut], properties=whole.properties_as_stored, sys_flag=0xC0
    )
    (found,) = decode_batch(wrong)
    assert not found.body_crc_matches
