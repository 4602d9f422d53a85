"""Offsets by time, whatever the clock did meanwhile: what is found begins, or ends, a stretch of that time."""

from __future__ import annotations

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st
from store_kit import StillClock, make_store, message, put

STEPS_MS = st.lists(st.integers(0, 3) | st.sampled_from([-3_600_000, 3_600_000]), min_size=1, max_size=40)


@settings(max_examples=30)
@given(steps_ms=STEPS_MS, engine=st.sampled_from(["file", "rocksdb"]), asked=st.data())
def test_what_is_found_is_of_that_time_and_its_neighbour_is_not(
    steps_ms: list[int], engine: str, asked: st.DataObject
) -> None:
    clock = StillClock()
    times_ms = []
    with tempfile.TemporaryDirectory() as directory, make_store(directory, clock, consume_queue=engine) as store:
        for step_ms in steps_ms:
            clock.time_ms += step_ms
            put(store, "t", 0, message("t", b"x"))
            times_ms.append(clock.time_ms)
        moment_ms = asked.draw(st.sampled_from(times_ms)) + asked.draw(st.integers(-2, 2))
        first = store.offset_by_time("t", 0, moment_ms, upper=False)
        last = store.offset_by_time("t", 0, moment_ms, upper=True)
        end = store.max_offset("t", 0)
    assert first == end or times_ms[first] >= moment_ms
    assert first == 0 or times_ms[first - 1] < moment_ms
    assert last == 0 or times_ms[last] <= moment_ms
    assert last == end - 1 or times_ms[last + 1] > moment_ms or (last == 0 and times_ms[0] > moment_ms)
    if times_ms == sorted(times_ms):
        assert first == sum(at < moment_ms for at in times_ms)
        assert last == max(0, sum(at <= moment_ms for at in times_ms) - 1)
