"""A backlog is no larger than what the target keeps until it is read."""

from __future__ import annotations

from zenitmq.bench.options import BenchOptions
from zenitmq.bench.raw.raw_path import record_bytes
from zenitmq.bench.works.works import backlog_messages
from zenitmq.local.engines import MEMORY_STORE

LONG = BenchOptions(work="consume", seconds=3.0)


def test_an_engine_in_memory_still_has_all_of_it() -> None:
    kept = MEMORY_STORE.retention_bytes - 2 * MEMORY_STORE.segment_bytes  # whole segments go
    for messages in (0, 50_000_000):
        options = BenchOptions(work="consume", seconds=3.0, messages=messages)
        assert backlog_messages(options, 3_000_000, is_engine=True) * record_bytes(options) < kept


def test_a_cluster_has_what_is_wanted_up_to_two_gib() -> None:
    assert backlog_messages(LONG, 3_000_000, is_engine=False) * record_bytes(LONG) <= 2 << 30
    assert backlog_messages(LONG, 1_000, is_engine=False) == backlog_messages(LONG, 1_000, is_engine=True) == 3_000
    few = BenchOptions(work="consume", seconds=3.0, messages=10)
    assert backlog_messages(few, 1_000, is_engine=True) == 256
