"""The rows of many units are those of each."""

from __future__ import annotations

import random

import pytest

from zenitmq.store.queues.queue_places import UNIT_BYTES
from zenitmq.store.queues.rows.unit_rows import queue_prefix, rows, unit_key, unit_keys


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("begin", [0, 255, (1 << 62) - 500])
def test_keys_and_values_of_many(count: int, begin: int) -> None:
    units = random.Random(count).randbytes(count * UNIT_BYTES)
    prefix = queue_prefix("t", 3)
    assert unit_keys(prefix, begin, begin + count) == [unit_key(prefix, begin + at) for at in range(count)]
    assert rows(units, 77) == [
        units[at * UNIT_BYTES : (at + 1) * UNIT_BYTES] + (77).to_bytes(8, "big") for at in range(count)
    ]
