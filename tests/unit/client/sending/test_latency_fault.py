"""Which brokers a producer leaves aside, and for how long."""

import pytest

from zenitmq.client.sending.latency_fault import ROCKETMQ_4, ROCKETMQ_5, LatencyFault, LatencyTable, latency_table
from zenitmq.model.errors import InvalidParameter


@pytest.mark.parametrize(
    ("table", "latency_ms", "penalty_ms"),
    [
        (ROCKETMQ_4, 0, 0),
        (ROCKETMQ_4, 549, 0),
        (ROCKETMQ_4, 550, 30_000),
        (ROCKETMQ_4, 1_000, 60_000),
        (ROCKETMQ_4, 14_999, 180_000),
        (ROCKETMQ_4, 15_000, 600_000),
        (ROCKETMQ_5, 550, 2_000),
        (ROCKETMQ_5, 1_799, 2_000),
        (ROCKETMQ_5, 1_800, 5_000),
        (ROCKETMQ_5, 5_000, 10_000),
        (ROCKETMQ_5, 60_000, 30_000),
    ],
)
def test_penalty_is_that_of_the_last_row_reached(table: LatencyTable, latency_ms: int, penalty_ms: int) -> None:
    assert table.penalty(latency_ms) == penalty_ms


def test_slow_broker_is_left_alone_until_its_penalty_ends() -> None:
    fault = LatencyFault(ROCKETMQ_5)
    fault.on_answered("a", 600, now_ms=1_000)
    assert not fault.is_available("a", 2_999)
    assert fault.is_available("a", 3_000)
    assert fault.is_available("b", 1_000)


def test_quick_answer_forgives() -> None:
    fault = LatencyFault(ROCKETMQ_5)
    fault.on_failed("a", now_ms=0)
    assert not fault.is_available("a", 9_999)
    fault.on_answered("a", 10, now_ms=5_000)
    assert fault.is_available("a", 5_000)
    assert fault.is_quiet


def test_switched_off_it_forgets_everything() -> None:
    fault = LatencyFault(latency_table(None))
    fault.on_failed("a", now_ms=0)
    fault.on_answered("a", 60_000, now_ms=0)
    assert fault.is_available("a", 0)


def test_presets_by_name() -> None:
    assert latency_table("rocketmq-4") is ROCKETMQ_4
    assert latency_table("rocketmq-5") is ROCKETMQ_5
    with pytest.raises(InvalidParameter, match="latency_fault"):
        latency_table("rocketmq-3")
