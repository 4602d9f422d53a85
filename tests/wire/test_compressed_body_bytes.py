"""Golden bytes of a compressed body above 64 KiB: an lz4 frame of two blocks that are independent of each other.

RocketMQ's Java clients unpack by lz4-java, which refuses a block that leans on the one before it ("Dependent block stream is
unsupported"), and drop the message. Frames with such blocks are read here: others write them, and logs hold them.
"""

from __future__ import annotations

import struct

import lz4.block
import pytest

from zenitmq.record.compression import compress_lz4, decompress
from zenitmq.record.sys_flag import COMPRESSED, COMPRESSION_LZ4

PLAIN = bytes(70_000)
BLOCK_BYTES = 65_536
HEADER_BYTES = 15

# A header: magic 4, flags 1 (0x20: independent blocks), block size 1, size of the whole 8, check 1. Then blocks: length 4
# (little-endian), bytes; a length of zero ends the frame. Here a block is one zero, a match of all the rest, five zeros.
FIRST_BLOCK = "0b010000" + "1f000100" + "ff" * 256 + "e7" + "500000000000"
INDEPENDENT = (
    "04224d186840701101000000000061" + FIRST_BLOCK + "1c000000" + "1f000100" + "ff" * 17 + "68" + "500000000000"
)
LINKED = "04224d184840701101000000000077" + FIRST_BLOCK + "1b000000" + "0f0100" + "ff" * 17 + "69" + "500000000000"
END = "00000000"


def blocks(frame: bytes) -> list[bytes]:
    found = []
    at = HEADER_BYTES
    while size := struct.unpack_from("<I", frame, at)[0]:
        found.append(frame[at + 4 : at + 4 + size])
        at += 4 + size
    assert at + 4 == len(frame)
    return found


def test_a_body_above_64_kib_is_a_frame_of_independent_blocks() -> None:
    assert compress_lz4(PLAIN).hex() == INDEPENDENT + END


def test_each_block_unpacks_alone() -> None:
    body = b"".join(b"line %06d of a log\n" % i for i in range(10_000))
    parts = [lz4.block.decompress(block, uncompressed_size=BLOCK_BYTES) for block in blocks(compress_lz4(body))]
    assert len(parts) == 4
    assert b"".join(parts) == body


@pytest.mark.parametrize("frame", [INDEPENDENT, LINKED])
def test_frames_of_both_kinds_are_read(frame: str) -> None:
    assert decompress(bytes.fromhex(frame + END), COMPRESSED | COMPRESSION_LZ4) == PLAIN
