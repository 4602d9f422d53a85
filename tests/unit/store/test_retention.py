"""Which segments may go: a table of situations."""

import pytest

from zenitmq.store.config import StoreConfig
from zenitmq.store.retention import Decision, SegmentAge, decide, disk_use

NOW = 1_000_000
EVERYTHING = 1 << 60
CONFIG = {"retention_ms": 1000, "retention_bytes": 0}


def ages(*modified_ms: int) -> list[SegmentAge]:
    return [SegmentAge(100 * n, 100 * n + 100, ms) for n, ms in enumerate(modified_ms)]


OLD, YOUNG = NOW - 1000, NOW - 999


@pytest.mark.parametrize(
    ("segments", "settings", "situation", "expected"),
    [
        pytest.param((), {}, {}, Decision(0), id="an empty log"),
        pytest.param((OLD,), {}, {}, Decision(0), id="never the one being written"),
        pytest.param((OLD, OLD, OLD), {}, {}, Decision(100), id="one at a time"),
        pytest.param((OLD, OLD, OLD), {}, {"use": 0.8}, Decision(200), id="all expired when the disk fills"),
        pytest.param((YOUNG, OLD, OLD), {}, {"use": 0.8}, Decision(0), id="oldest first"),
        pytest.param((YOUNG, YOUNG, YOUNG), {}, {"use": 0.86}, Decision(100), id="before its time when it is nearly full"),
        pytest.param((NOW + 500, OLD, OLD), {}, {}, Decision(0), id="written before the clock was set back"),
        pytest.param((OLD, OLD), {}, {"first_opened_ms": NOW + 500}, Decision(0), id="opened before that"),
        pytest.param((OLD, OLD), {}, {"first_opened_ms": NOW - 5}, Decision(0), id="age counts from our first opening"),
        pytest.param((YOUNG, YOUNG, YOUNG), {"retention_bytes": 250}, {}, Decision(100), id="over the size"),
        pytest.param((YOUNG,) * 6, {"retention_bytes": 250}, {}, Decision(400), id="all that is over the size"),
        pytest.param((OLD,) * 6, {"retention_bytes": 450}, {}, Decision(200), id="over the size, and old: no more than that"),
        pytest.param((YOUNG, YOUNG), {"retention_bytes": 250}, {}, Decision(0), id="within the size"),
        pytest.param((OLD, OLD), {}, {"reflected": 99}, Decision(0, needs_persist=True), id="not durable elsewhere"),
        pytest.param((OLD, OLD), {}, {"unconsumed_from": 99}, Decision(0, held_by_groups=True), id="not consumed"),
        pytest.param((YOUNG, OLD), {}, {"use": 0.99, "unconsumed_from": 50}, Decision(0, held_by_groups=True),
                     id="not consumed, though the disk is full"),
        pytest.param((OLD, OLD), {"delete_unconsumed": True}, {"unconsumed_from": 99}, Decision(100), id="allowed"),
        pytest.param((OLD, OLD, OLD), {}, {"use": 0.8, "unconsumed_from": 150}, Decision(100, held_by_groups=True),
                     id="as far as consumed"),
        pytest.param((OLD, OLD), {}, {"held_from": 99}, Decision(0, held_by_readers=True), id="held by a reader"),
        pytest.param((OLD, OLD), {}, {"held_from": 100}, Decision(100), id="before what a reader holds"),
        pytest.param((YOUNG, YOUNG, YOUNG), {"retention_bytes": 250}, {"held_from": 0},
                     Decision(0, held_by_readers=True), id="held, though over the size"),
        pytest.param((OLD, OLD), {"delete_unconsumed": True}, {"held_from": 0, "unconsumed_from": 0},
                     Decision(0, held_by_readers=True), id="held, though the unconsumed may go"),
        pytest.param((OLD, OLD, OLD), {}, {"use": 0.8, "held_from": 150}, Decision(100, held_by_readers=True),
                     id="as far as held"),
        pytest.param((YOUNG, YOUNG), {}, {"use": 0.86, "held_from": 0}, Decision(100),
                     id="a hold gives way to a disk that is nearly full"),
    ],
)  # fmt: skip
def test_decisions(segments, settings, situation, expected) -> None:
    facts = {
        "now_ms": NOW,
        "first_opened_ms": 0,
        "use": 0.1,
        "reflected": EVERYTHING,
        "unconsumed_from": EVERYTHING,
        "held_from": EVERYTHING,
    }
    assert decide(ages(*segments), StoreConfig(**{**CONFIG, **settings}), **{**facts, **situation}) == expected


def test_a_log_far_over_its_size_goes_step_by_step() -> None:
    """Its queues' files go with it, on the loop: a bound that is set anew must not hold up who sends."""
    gib = 1 << 30
    segments = [SegmentAge(n * gib, (n + 1) * gib, NOW) for n in range(900)]
    facts = {"now_ms": NOW, "first_opened_ms": 0, "use": 0.1, "reflected": EVERYTHING}
    config = StoreConfig(retention_bytes=100 * gib)
    found = decide(segments, config, **facts, unconsumed_from=EVERYTHING, held_from=EVERYTHING)
    assert found == Decision(2 * gib)


def test_disk_use() -> None:
    assert disk_use(150, 50) == 0.75
    assert disk_use(13, 79) == pytest.approx(13 / 92)  # of a disk of 252 that lets us have 92
    assert disk_use(0, 0) == 0.0
