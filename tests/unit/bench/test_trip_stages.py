"""Stages of round trips: from stamps to a table that adds up to the trip."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from zenitmq.bench.trips.stamps import Stamps
from zenitmq.bench.trips.thread_times import MAIN, thread_times, times_of, used
from zenitmq.bench.trips.trip_stages import (
    BEGIN,
    END,
    READ,
    SERVER_DISPATCH,
    Moment,
    after_reply_us,
    call_us,
    chains,
    shares,
    stage_us,
    thread_us,
    usual_call_us,
)

MOMENTS = (
    Moment("encode", "client", 0, BEGIN),
    Moment("go", "server", 0, END),
    Moment("come", "client", 1, END),
)


def rows(*found: tuple[int, int, int]) -> np.ndarray:
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def trip_at(begin: int) -> tuple[tuple[int, int], list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """A trip of 10 us, the client's stamps and the server's."""
    client = [(0, begin + 2_000, begin + 3_000), (1, begin + 3_000, begin + 9_000)]
    return (begin, begin + 10_000), client, [(0, begin - 5_000, begin + 6_000)]


def test_stages_add_up_to_the_trip_and_strange_trips_are_left_out() -> None:
    trips, client, server = [], [], []
    for begin in (100_000, 200_000, 300_000, 400_000):
        trip, of_client, of_server = trip_at(begin)
        trips.append(trip)
        client += of_client
        server += of_server
    server.append((0, 203_000, 203_500))  # another request in the second trip
    del client[-1]  # the last one's answer was not seen
    found = chains(np.array(trips), MOMENTS, {"client": rows(*client), "server": rows(*server)})
    assert found[:, 0].tolist() == [100_000, 300_000]
    assert stage_us(found, MOMENTS) == {"encode": 2.0, "go": 4.0, "come": 3.0, READ: 1.0}


def test_moments_out_of_order_are_no_trip() -> None:
    trip, client, _ = trip_at(100_000)
    stamps = {"client": rows(*client), "server": rows((0, 90_000, 101_000))}
    assert len(chains(np.array([trip]), MOMENTS, stamps)) == 0


def test_nothing_seen_makes_empty_tables() -> None:
    found = chains(np.array([(1, 2)]), MOMENTS, {"client": rows(), "server": rows()})
    assert stage_us(found, MOMENTS) == {}
    assert after_reply_us(found, rows()) is None
    assert usual_call_us(rows(), 0) == 0.0
    assert shares({"a": 1.0}, 0.0) == {}


def test_what_follows_the_reply_is_told_apart() -> None:
    found = np.array([[0, 1_000, 5_000, 8_000, 10_000], [20_000, 21_000, 25_000, 28_000, 30_000]])
    dispatches = rows((SERVER_DISPATCH, 9_000, 12_000), (SERVER_DISPATCH, 29_000, 32_000))
    assert after_reply_us(found, dispatches) == 7.0  # from the third moment, the hand-over's begin


def test_calls_of_shared_turns_are_medians_as_often_as_they_were_made() -> None:
    stamps = rows((0, 0, 9), (3, 10, 2_010), (3, 20_000, 22_000), (3, 30_000, 90_000), (3, 100_000, 100_001))
    assert call_us(stamps, {"send": 3}, begin=10, end=99_999, requests=2) == {"send": 3.0}
    assert thread_us([4_000, 2_000, 1_000], 2) == {
        "on_core": 2.0,
        "in_kernel": 1.0,
        "waited": 0.5,
    }


def test_stamps_watch_a_method_and_keep_what_it_does(tmp_path: Path) -> None:
    class Worker:
        def work(self, number: int, *, wrong: bool = False) -> int:
            if wrong:
                raise ValueError(number)
            return number + 1

    stamps = Stamps()
    stamps.watch_all([(Worker, "work")])
    assert Worker().work(1) == 2
    with pytest.raises(ValueError, match="3"):
        Worker().work(3, wrong=True)
    found = stamps.rows()
    assert found[:, 0].tolist() == [0, 0]
    assert (found[:, END] >= found[:, BEGIN]).all()
    stamps.save(str(tmp_path / "stamps.npy"))
    assert np.load(tmp_path / "stamps.npy").tolist() == found.tolist()
    stamps.clear()
    assert len(stamps.rows()) == 0


def test_thread_times_are_read_from_the_kernels_texts() -> None:
    stat = "12 (a b) c) S " + " ".join(str(number) for number in range(1, 11)) + " 30 10 0 0"
    assert times_of(stat, "4000 700 12\n") == [4000, 30, 10, 700]
    assert times_of("12 (x) S " + "0 " * 20, "0 0 0") == [0, 0, 0, 0]


def test_own_threads_are_told_by_name() -> None:
    times = thread_times(os.getpid())
    if not times:
        pytest.fail("no /proc of threads here")
    assert f"{os.getpid()} {MAIN}" in times
    before = {"1 main": [1, 1, 1, 1], "2 ZMQbg/IO/0": [5, 5, 5, 5]}
    after = {"1 main": [21, 2, 2, 3], "2 ZMQbg/IO/0": [6, 6, 6, 6], "3 ZMQbg/IO/0": [9, 0, 0, 7]}
    assert used(before, after, name="main") == [20, 10, 2]
    assert used(before, after, name="ZMQbg/IO") == [10, 5, 8]
    assert used(before, after, name="ZMQbg/IO", besides=["3 ZMQbg/IO/0"]) == [1, 0, 1]
    assert thread_times(1 << 30) == {}
