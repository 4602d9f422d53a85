"""The document has the shape that users read, passes only what deserves it, and the picture shows each fault."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from zenitmq.deploy.drills import timeline
from zenitmq.deploy.drills.check import Mark, Verdict
from zenitmq.deploy.drills.report import RotAccount, RunReport, document

MS = 1_000_000
TIMES = np.array([*range(10, 1000, 10), *range(1500, 3000, 10)], dtype=np.uint64) * np.uint64(MS)
KILL = Mark(
    name="kill broker-a-1",
    kind="kill: master",
    begin_ns=995 * MS,
    done_ns=998 * MS,
    mend_ns=1300 * MS,
    end_ns=2000 * MS,
)
RUN = RunReport(verdict=Verdict(acknowledged=249), times_ns=TIMES, begin_ns=0, end_ns=3000 * MS, marks=(KILL,))


def test_a_run_is_told_in_the_shape_of_the_design() -> None:
    told = RUN.document()
    named = {name: told[name] for name in ("acknowledged", "lost", "duplicated", "reordered")}
    assert named == {"acknowledged": 249, "lost": 0, "duplicated": 0, "reordered": 0}
    assert (told["first_write_ms"], told["longest_gap_ms"], told["gap_before_fault_ms"]) == (505.0, 510.0, 10.0)
    assert told["before_fault_ms"] == 995.0
    assert told["faults"] == [
        {
            "fault": "kill broker-a-1",
            "kind": "kill: master",
            "at_ms": 995.0,
            "mended_at_ms": 2000.0,
            "held_ms": 305.0,
            "gap_while_held_ms": 305.0,
            "gap_once_mended_ms": 10.0,
            "first_write_ms": 505.0,
            "pause_ms": 505.0,
            "producer_pause_ms": 505.0,
        }
    ]


def test_what_became_of_rotten_bits_is_told() -> None:
    rot = RotAccount(bits_turned=12) + RotAccount(ranges_found=9, ranges_mended=8) + RotAccount(ranges_mended=1)
    told = replace(RUN, rot=rot).document()
    assert (told["bits_turned"], told["ranges_found"], told["ranges_mended"]) == (12, 9, 9)
    assert RUN.document()["bits_turned"] == 0


def test_where_writes_went_on_while_a_fault_took_its_time_the_pause_is_told() -> None:
    """A broker that is asked to stop, or whose disk is being emptied, for 0.8 s; nothing was written for 10 ms at most."""
    slowly = replace(KILL, begin_ns=1600 * MS, done_ns=2400 * MS, mend_ns=2450 * MS, end_ns=2500 * MS)
    assert replace(RUN, marks=(slowly,)).document()["first_write_ms"] == 10.0


def test_the_slowest_of_several_faults_is_told() -> None:
    second = replace(KILL, begin_ns=2505 * MS, done_ns=2506 * MS, mend_ns=2550 * MS, end_ns=2600 * MS)
    told = replace(RUN, marks=(KILL, second)).document()
    assert told["first_write_ms"] == 505.0
    assert [fault["first_write_ms"] for fault in told["faults"]] == [505.0, 10.0]
    assert told["faults"][0]["pause_ms"] == 505.0


def test_the_pause_is_that_of_the_group_that_waited_longest() -> None:
    """One group went on while the other one waited; a third has no producer."""
    steady = np.arange(5, 3000, 10, dtype=np.uint64) * np.uint64(MS)
    both = np.sort(np.concatenate((TIMES, steady)))
    told = replace(RUN, times_ns=both, group_times_ns=(steady, TIMES, TIMES[:0])).document()
    assert told["faults"][0]["pause_ms"] == 505.0
    assert told["faults"][0]["gap_while_held_ms"] == 305.0
    assert told["longest_gap_ms"] == 10.0


def test_the_pauses_of_producers_are_told_each_for_itself() -> None:
    """One producer waited while all others went on: together they did not pause."""
    steady = np.arange(5, 3000, 10, dtype=np.uint64) * np.uint64(MS)
    both = np.sort(np.concatenate((TIMES, steady)))
    run = replace(RUN, times_ns=both, producer_times_ns=(steady, TIMES))
    assert run.producer_pauses() == [[10.0, 505.0]]
    assert run.document()["faults"][0]["producer_pause_ms"] == 505.0
    told = document(
        "rolling-upgrade", [replace(RUN, producer_times_ns=(steady,) * 99), run], seed=1, replicas=3, rate=1
    )
    assert told["producer_pauses"] == {"p99_ms": 10.0, "worst_ms": 505.0}
    assert document("random", [replace(RUN, marks=())], seed=1, replicas=3, rate=1)["producer_pauses"] is None


def test_a_drill_passes_where_every_run_does() -> None:
    told = document("kill-master", [RUN, RUN], seed=3, replicas=3, rate=5000)
    assert (told["drill"], told["passed"], told["lost"], told["seed"], len(told["runs"])) == (
        "kill-master",
        True,
        0,
        3,
        2,
    )
    assert told["first_write_ms"] == {"median": 505.0, "worst": 505.0}
    assert json.loads(json.dumps(told)) == told
    assert not document("kill-master", [], seed=3, replicas=3, rate=5000)["passed"]


@pytest.mark.parametrize("name", ["lost", "changed", "reordered", "uneven", "holes", "damaged"])
def test_a_drill_does_not_pass_with_any_damage(name: str) -> None:
    bad = replace(RUN, verdict=replace(RUN.verdict, **{name: 1}))
    told = document("kill-master", [RUN, bad], seed=3, replicas=3, rate=5000)
    assert not told["passed"]
    assert told["runs"][1][name] == 1


def test_duplicates_do_not_fail_a_drill() -> None:
    assert replace(RUN, verdict=replace(RUN.verdict, duplicated=7)).passed


def test_a_run_in_which_writes_did_not_go_on_does_not_pass() -> None:
    ended = replace(RUN, times_ns=TIMES[:99])
    assert not ended.passed
    assert ended.document()["first_write_ms"] is None
    assert not replace(RUN, times_ns=TIMES[:0]).passed


def test_a_run_in_which_one_group_did_not_write_on_does_not_pass() -> None:
    """Though another one did; a third has no producer, and no say."""
    assert replace(RUN, group_times_ns=(TIMES, TIMES[:0])).passed
    assert not replace(RUN, group_times_ns=(TIMES, TIMES[:99])).passed


def test_the_buckets_hold_every_acknowledgement_once() -> None:
    counts = timeline.counts_of(TIMES, 0, 3000 * MS, 50)
    assert len(counts) == 60
    assert sum(counts) == len(TIMES)
    assert (counts[0], counts[1], counts[19], counts[20], counts[29], counts[30]) == (4, 5, 5, 0, 0, 5)


@pytest.mark.parametrize(("seconds", "bucket_ms"), [(1, 50), (200, 50), (201, 100), (1800, 450)])
def test_a_long_run_has_wider_buckets(seconds: int, bucket_ms: int) -> None:
    assert timeline.bucket_ms_of(seconds * 1_000_000_000) == bucket_ms


def test_the_picture_is_xml_with_a_band_a_fault_and_a_bar_a_bucket() -> None:
    text = timeline.render("kill-master <run 1>", TIMES, 0, 3000 * MS, [KILL, replace(KILL, name="a & b")])
    root = ET.fromstring(text)
    bands = [element for element in root.iter() if element.get("class") == "fault"]
    (bars,) = [element for element in root.iter() if element.get("class") == "acknowledged"]
    assert len(bands) == 2
    assert float(bands[0].get("x", 0)) == pytest.approx(64 + 880 * 0.995 / 3, abs=0.1)
    assert bars.get("d", "").count("M") == 50
    assert "kill-master <run 1>" in [element.text for element in root.iter()]


def test_a_picture_of_nothing_can_be_drawn() -> None:
    ET.fromstring(timeline.render("nothing", TIMES[:0], 0, 1000 * MS, []))
