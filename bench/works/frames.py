"""The sent data: bodies and ready batches, made before the clock starts.

Bodies are random bytes, so that nothing on the way can compress or share them. Ready batches are what a producer would have
encoded (the same Accumulator), with unique ids that repeat only after all of them were sent once.
"""

from __future__ import annotations

import os
import random
from typing import Final

from ...model.clock import now_ms
from ...model.ids import unique_id_prefix
from ...record.kernel import Accumulator

BATCHES_BYTES_MAX: Final = 128 << 20  # of ready batches in memory, per process
_MONTH_MS: Final = 31 * 24 * 3600 * 1000
TAG: Final = "bench"


def bodies(count: int, size: int) -> list[bytes]:
    """`count` different bodies of `size` bytes."""
    pool = os.urandom(size + count)
    return [pool[at : at + size] for at in range(count)]


def ready_batches(
    topic: str, *, size: int, batch: int, keys: int = 0, tags: bool = False, count: int = 0
) -> list[bytes]:
    """Encoded batches of `batch` messages each; `count` 0 = as many as fit into BATCHES_BYTES_MAX, 2 to 4096."""
    content = bodies(max(batch, 256), size)
    number = random.randrange(1 << 32)
    encoded: list[bytes] = []
    born_ms = now_ms()
    accumulator = _accumulator(topic, batch * (size + 512 + 24 * keys))
    while not encoded or len(encoded) < (count or _count_that_fits(len(encoded[0]))):
        accumulator.begin(born_ms, born_ms % _MONTH_MS)
        for index in range(batch):
            own = [f"{number:x}-{len(encoded)}-{index}-{key}" for key in range(keys)]
            fits = accumulator.append(content[index % len(content)], TAG if tags else None, own or None)
            assert fits, "the buffer is sized for the batch"
        buffer, used, *_ = accumulator.swap(bytearray(accumulator.capacity))
        encoded.append(bytes(memoryview(buffer)[:used]))
        if accumulator.counter + batch > 0xFFFF:  # ids count in 16 bits: a new salt prevents repetitions
            accumulator = _accumulator(topic, accumulator.capacity)
    return encoded


def _count_that_fits(batch_bytes: int) -> int:
    return max(2, min(4096, BATCHES_BYTES_MAX // max(batch_bytes, 1)))


def _accumulator(topic: str, capacity: int) -> Accumulator:
    prefix = unique_id_prefix(bytes([127, 0, 0, 1]), os.getpid(), random.randrange(1 << 32))
    return Accumulator(topic.encode(), capacity, id_prefix=prefix)
