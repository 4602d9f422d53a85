"""What goes back, or is quarantined where it counts, is told; what only changes is not."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.deploy.drills.watch import VIOLATIONS_MAX, Watch, quarantined


def group(epoch: int | None, *masters: tuple[str, int | None, int | None], name: str = "broker-a") -> dict[str, Any]:
    """A group's status; each of `masters`: (name, epoch, confirm offset)."""
    replicas = [
        {"name": one, "role": "master", "epoch": its, "confirm_offset": confirm} for one, its, confirm in masters
    ]
    slave = {"name": "s", "role": "slave", "epoch": 1, "confirm_offset": 0}
    return {"broker_name": name, "epoch": epoch, "replicas": [*replicas, slave]}


@pytest.mark.parametrize(
    "samples",
    [
        [group(1, ("a", 1, 10)), group(1, ("a", 1, 10)), group(2, ("b", 2, 5)), group(2, ("b", 2, 50))],
        [group(3, ("a", 3, 10)), group(None), group(4, ("a", 3, 12), ("b", 4, 9))],
        [group(3, ("a", None, None)), group(3)],
    ],
)
def test_what_grows_is_no_violation(samples: list[dict[str, Any]]) -> None:
    watch = Watch()
    for sample in samples:
        watch.on_sample([sample])
    assert watch.violations == []
    assert watch.samples == len(samples)


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        ([group(2), group(1)], "broker-a: epoch 1 after 2"),
        ([group(1, ("a", 1, 10)), group(1, ("a", 1, 9))], "broker-a: a confirmed 9 in epoch 1, after 10"),
        ([group(1, ("a", 1, 10), ("b", 1, 10))], "broker-a: b and a both lead epoch 1"),
    ],
)
def test_what_goes_back_is_told(samples: list[dict[str, Any]], told: str) -> None:
    watch = Watch()
    for sample in samples:
        watch.on_sample([sample])
    assert watch.violations == [told]


def test_a_node_that_was_lost_says_nothing_of_epochs_until_its_group_is_restored() -> None:
    watch = Watch()
    watch.on_sample([group(4, ("a", 4, 10))])
    watch.on_sample([group(None, ("a", 4, 12))], lost_at={"broker-a": 4})
    watch.on_sample([group(3, ("a", 4, 14))], lost_at={"broker-a": 4})
    watch.on_sample([group(5), group(6, ("a", 6, 14))], lost_at={})
    watch.on_sample([group(6, ("a", 6, 14))])
    assert watch.violations == []
    watch.on_sample([group(5)])
    assert watch.violations == ["broker-a: epoch 5 after 6"]


def test_nobody_is_elected_while_the_node_is_lost() -> None:
    watch = Watch()
    watch.on_sample([group(4, ("a", 4, 10))])
    watch.on_sample([group(5, ("b", 5, 10))], lost_at={"broker-a": 4})
    assert watch.violations == ["broker-a: b leads epoch 5, elected by nobody who may"]


def test_groups_are_looked_at_apart_and_the_list_ends() -> None:
    watch = Watch()
    watch.on_sample([group(5), group(2, name="broker-b")])
    assert watch.violations == []
    for _ in range(2 * VIOLATIONS_MAX):
        watch.on_sample([group(1)])
    assert len(watch.violations) == VIOLATIONS_MAX


def test_only_who_counts_may_have_nothing_quarantined() -> None:
    bad = {"quarantined_ranges": 2, "quarantined_bytes": 300}
    good = {"quarantined_ranges": 0, "quarantined_bytes": 0}
    assert quarantined(["a", "b"], {"a": good, "b": bad, "c": bad}) == ["b: 300 bytes in 2 places are quarantined"]
