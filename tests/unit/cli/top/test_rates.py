"""Rates are never negative: counters that began anew say nothing until they are read twice more."""

from __future__ import annotations

import pytest

from zenitmq.cli.top.rates import CounterSample, CounterSamples, total


def of(*samples: CounterSample) -> CounterSamples:
    found = CounterSamples(samples[0])
    for sample in samples[1:]:
        found = found.then(sample)
    return found


def test_one_sample_has_no_rate() -> None:
    samples = of(CounterSample(5_000, {"in": 10}))
    assert (samples.per_second(), samples.span_seconds) == ({}, None)


def test_a_rate_is_over_the_time_between_the_last_two() -> None:
    samples = of(
        CounterSample(0, {"in": 0}),
        CounterSample(1_000, {"in": 10, "out": 4}),
        CounterSample(3_000, {"in": 30, "out": 5}),
    )
    assert (samples.per_second(), samples.span_seconds) == ({"in": 10.0, "out": 0.5}, 2.0)


@pytest.mark.parametrize(
    ("before", "now", "rates"),
    [
        (CounterSample(0, {"in": 900}, life=1), CounterSample(1_000, {"in": 950}, life=2), {}),  # another process
        (CounterSample(0, {"in": 900}), CounterSample(1_000, {"in": 3}), {}),  # a counter that began anew
        (
            CounterSample(0, {1: 900, 2: 10}),
            CounterSample(1_000, {1: 890, 2: 15}),
            {2: 5.0},
        ),  # a new master lacks an end
        (CounterSample(0, {1: 7}), CounterSample(1_000, {1: 7, 2: 5_000}), {1: 0.0}),  # a queue that nobody had told of
        (CounterSample(0, {1: 7, 2: 7}), CounterSample(1_000, {1: 9}), {1: 2.0}),  # one that nobody tells of any more
        (CounterSample(1_000, {1: 7}), CounterSample(1_000, {1: 9}), {}),
    ],
)
def test_only_what_is_comparable_has_a_rate(
    before: CounterSample, now: CounterSample, rates: dict[object, float]
) -> None:
    assert of(before, now).per_second() == rates


def test_no_rates_have_no_sum() -> None:
    assert (total([]), total([0.0]), total([1.25, 2.0])) == (None, 0.0, 3.25)
