"""The checkpoint file byte by byte: RocketMQ's fields, our slots, files that RocketMQ wrote."""

import dataclasses
import struct
import zlib

import pytest

from zenitmq.model.errors import StoreFormatError
from zenitmq.store.opening.checkpoint import (
    CHECKPOINT_BYTES,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
    plan_update,
    read_checkpoint,
    write_checkpoint,
)

ONE = Checkpoint(
    message_time_ms=0x0123456789ABCDEF,
    queue_time_ms=2,
    index_time_ms=3,
    master_flushed_offset=4,
    confirm_offset=5,
    dispatched_offset=6,
    flushed_offset=7,
)


def test_the_first_forty_bytes_are_rocketmqs():
    data = encode_checkpoint(ONE)
    assert len(data) == CHECKPOINT_BYTES == 4_096
    assert data[:40] == bytes.fromhex(
        "0123456789abcdef 0000000000000002 0000000000000003 0000000000000004 0000000000000005"
    )
    assert not any(data[40:1024])


def test_a_slot_byte_by_byte():
    data = encode_checkpoint(ONE)
    covered = data[1024:1100]
    assert covered == b"ZENITCKP" + bytes.fromhex("00000001 0000000000000000") + data[:40] + bytes.fromhex(
        "0000000000000006 0000000000000007"
    )
    assert data[1100:1104] == struct.pack(">I", zlib.crc32(covered))
    assert data[2048:2060] == data[1024:1036]
    assert data[2060:2068] == struct.pack(">Q", 1)
    assert not any(data[1104:2048])
    assert not any(data[2128:])


def test_what_is_written_is_read_over_many_turns(tmp_path):
    path = str(tmp_path / "checkpoint")
    assert read_checkpoint(path) == Checkpoint()
    for turn in range(5):
        checkpoint = dataclasses.replace(ONE, message_time_ms=turn, flushed_offset=turn)
        write_checkpoint(path, checkpoint)
        assert read_checkpoint(path) == checkpoint
        assert (tmp_path / "checkpoint").read_bytes()[:8] == struct.pack(">Q", turn)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]


def test_an_update_touches_one_slot_only(tmp_path):
    path = tmp_path / "checkpoint"
    write_checkpoint(str(path), ONE)
    before = path.read_bytes()
    write_checkpoint(str(path), dataclasses.replace(ONE, flushed_offset=8))
    after = path.read_bytes()
    assert before[2048:] == after[2048:]
    assert before[1024:2048] != after[1024:2048]


def test_times_that_rocketmq_wrote_since_are_taken_and_our_offsets_are_unknown(tmp_path):
    path = tmp_path / "checkpoint"
    write_checkpoint(str(path), ONE)
    data = bytearray(path.read_bytes())
    data[:40] = struct.pack(">5Q", 91, 92, 93, 94, 95)
    path.write_bytes(data)
    foreign = Checkpoint(
        message_time_ms=91, queue_time_ms=92, index_time_ms=93, master_flushed_offset=94, confirm_offset=95
    )
    assert read_checkpoint(str(path)) == foreign
    write_checkpoint(str(path), ONE)
    assert read_checkpoint(str(path)) == ONE


@pytest.mark.parametrize("data", [b"", b"x", bytes(4095), bytes(4097)])
def test_a_file_of_another_size_means_recover_everything(data):
    assert decode_checkpoint(data) == Checkpoint()


def test_zeros_are_a_checkpoint_of_never():
    assert decode_checkpoint(bytes(4096)) == Checkpoint()
    assert Checkpoint().recover_from_ms == 0


def test_recovery_starts_three_seconds_before_the_older_of_the_two_times():
    assert Checkpoint(message_time_ms=10_000, queue_time_ms=9_000).recover_from_ms == 6_000
    assert Checkpoint(message_time_ms=10_000, queue_time_ms=2_000).recover_from_ms == 0


def test_a_later_version_is_refused_by_name(tmp_path):
    path = tmp_path / "checkpoint"
    data = bytearray(encode_checkpoint(ONE))
    struct.pack_into(">I", data, 1024 + 8, 2)
    struct.pack_into(">I", data, 1024 + 76, zlib.crc32(data[1024:1100]))
    path.write_bytes(data)
    with pytest.raises(StoreFormatError, match="version 2") as caught:
        read_checkpoint(str(path))
    assert caught.value.path == str(path)


def test_a_checkpoint_that_rocketmq_wrote_opens():
    """What RocketMQ 5.5.0 left after `kill -9`: only the time of its last flush is set."""
    data = bytes.fromhex("000001a1fcf4b5e5").ljust(4_096, b"\0")
    assert decode_checkpoint(data) == Checkpoint(message_time_ms=1_795_245_258_213)


def test_a_slot_without_a_number_behind_it_is_none_of_ours():
    data = bytearray(encode_checkpoint(ONE))
    for slot in (1024, 2048):
        struct.pack_into(">Q", data, slot + 12, (1 << 64) - 1)
        struct.pack_into(">I", data, slot + 76, zlib.crc32(data[slot : slot + 76]))
    assert decode_checkpoint(bytes(data)).flushed_offset is None
    assert plan_update(bytes(data), ONE) == ()
