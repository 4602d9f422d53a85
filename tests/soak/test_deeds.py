"""What is done in a soak: the same for a seed, one broker at a time, and one is left alone after the warm-up."""

from __future__ import annotations

from itertools import pairwise

import pytest
from soak.deeds import deeds, spared, warm_up_s

LONG_S, SHORT_S = 5400.0, 75.0


def test_a_seed_draws_the_same_again_and_another_one_does_not() -> None:
    assert deeds(7, LONG_S, replicas=3) == deeds(7, LONG_S, replicas=3)
    assert deeds(7, LONG_S, replicas=3) != deeds(8, LONG_S, replicas=3)


@pytest.mark.parametrize("seed", range(50))
def test_one_replica_is_left_alone_after_the_warm_up(seed: int) -> None:
    brokers = [deed for deed in deeds(seed, LONG_S, replicas=3) if deed.what == "broker"]
    assert len(brokers) >= 15
    late = {deed.victim for deed in brokers if deed.at_s >= warm_up_s(LONG_S)}
    assert late == {0, 1, 2} - {spared(seed, 3)}


@pytest.mark.parametrize("seconds", [SHORT_S, LONG_S])
@pytest.mark.parametrize("seed", range(20))
def test_brokers_are_away_one_after_the_other_and_the_end_is_calm(seed: int, seconds: float) -> None:
    found = deeds(seed, seconds, replicas=3)
    assert found == sorted(found, key=lambda deed: deed.at_s)
    brokers = [deed for deed in found if deed.what == "broker"]
    assert brokers
    assert [deed for deed in found if deed.what == "visitor"]
    assert all(before.at_s + before.hold_s < after.at_s for before, after in pairwise(brokers))
    assert max(deed.at_s for deed in found) <= seconds - min(60.0, seconds / 4)


def test_the_warm_up_is_half_an_hour_or_a_third() -> None:
    assert (warm_up_s(LONG_S), warm_up_s(900)) == (1800, 300)


def test_over_a_long_run_brokers_are_killed_and_stopped_and_made_master() -> None:
    brokers = [deed for deed in deeds(1, 8 * 3600, replicas=3) if deed.what == "broker"]
    assert {deed.is_killed for deed in brokers} == {deed.leads_then for deed in brokers} == {False, True}
