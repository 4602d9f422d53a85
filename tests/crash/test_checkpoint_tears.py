"""A checkpoint write that is killed at any byte, or torn in any way, leaves the old or the new one."""

import dataclasses
import itertools
import random

import pytest

from zenitmq.store.opening.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint, plan_update

OLD = Checkpoint(
    message_time_ms=0x00FF_FFFF_FFFF,
    queue_time_ms=0xFFFF,
    index_time_ms=0xFF,
    master_flushed_offset=0,
    confirm_offset=0xFFFFFFFF,
    dispatched_offset=0xFFFF,
    flushed_offset=0xFFFF,
)
NEW = Checkpoint(
    message_time_ms=0x0100_0000_0000,
    queue_time_ms=0x10000,
    index_time_ms=0x100,
    master_flushed_offset=1,
    confirm_offset=0x100000000,
    dispatched_offset=0x10001,
    flushed_offset=0x10002,
)


def apply(data: bytes, *writes: tuple[int, bytes]) -> bytes:
    changed = bytearray(data)
    for at, piece in writes:
        changed[at : at + len(piece)] = piece
    return bytes(changed)


def after_turns(turns: int) -> bytes:
    """A file whose newest slot is the first or the second in turn."""
    data = encode_checkpoint(OLD)
    for turn in range(turns):
        data = apply(data, *plan_update(data, dataclasses.replace(OLD, message_time_ms=turn)))
    return apply(data, *plan_update(data, OLD)) if turns else data


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_killed_at_every_byte(turns):
    before = after_turns(turns)
    writes = plan_update(before, NEW)
    seen = set()
    for index, (at, piece) in enumerate(writes):
        for cut in range(len(piece) + 1):
            state = apply(before, *writes[:index], (at, piece[:cut]))
            found = decode_checkpoint(state)
            assert found in (OLD, NEW), (index, cut)
            seen.add(found)
            healed = apply(state, *plan_update(state, NEW))
            assert decode_checkpoint(healed) == NEW
    assert seen == {OLD, NEW}


@pytest.mark.parametrize("seed", range(50))
def test_each_write_may_reach_the_disk_as_any_mix_of_old_and_new_bytes(seed):
    chance = random.Random(seed)
    before = after_turns(seed % 3)
    writes = plan_update(before, NEW)
    for index, (at, piece) in enumerate(writes):
        mixed = bytes(new if chance.random() < 0.5 else before[at + i] for i, new in enumerate(piece))
        assert decode_checkpoint(apply(before, *writes[:index], (at, mixed))) in (OLD, NEW), f"seed {seed}"


def test_a_flipped_bit_in_either_slot_is_never_believed():
    data = encode_checkpoint(OLD)
    for slot, bit in itertools.product((1024, 2048), range(80 * 8)):
        flipped = bytearray(data)
        flipped[slot + bit // 8] ^= 1 << bit % 8
        assert decode_checkpoint(bytes(flipped)) == OLD
