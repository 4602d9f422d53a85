"""Memory from the kernel's text, and the sampled stages."""

from __future__ import annotations

from zenitmq.broker.stage_clock import SAMPLE_EVERY, StageClock
from zenitmq.broker.statistics import anonymous_bytes


def test_memory_is_counted_without_file_pages() -> None:
    assert anonymous_bytes("VmRSS:\t  900 kB\nRssAnon:\t  100 kB\nRssFile:\t  800 kB\n") == 102_400
    assert anonymous_bytes("VmRSS: 1 kB\n") is None


def test_one_turn_of_sixteen_is_sampled() -> None:
    stages = StageClock()
    sampled = 0
    for _ in range(4 * SAMPLE_EVERY):
        stages.next_turn()
        sampled += stages.is_sampling
    assert sampled == 4


def test_receiving_is_the_time_between_two_sends_of_one_turn() -> None:
    stages = StageClock()
    stages.leave_send(stages.enter_send())
    stages.leave_send(stages.enter_send())
    stages.on_answered(10, 30, 35)
    stages.on_dispatched(40, 47)
    stages.next_turn()
    stages.leave_send(stages.enter_send())
    document = stages.document()
    assert {stage: row["calls"] for stage, row in document.items()} == {
        "receive": 1,
        "stage": 3,
        "write": 1,
        "reply": 1,
        "dispatch": 1,
    }
    assert (document["write"]["ns"], document["reply"]["ns"], document["dispatch"]["ns"]) == (20, 5, 7)
