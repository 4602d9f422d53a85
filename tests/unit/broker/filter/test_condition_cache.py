"""Compiled conditions: found again by their text, bounded, and never what is wrong."""

from __future__ import annotations

import pytest

from zenitmq.broker.filter.condition_cache import COUNT_MAX, LENGTH_MAX, ConditionCache
from zenitmq.model.errors import SqlSyntaxError


def test_a_condition_is_compiled_once() -> None:
    cache = ConditionCache()
    first = cache.condition("a > 1")
    assert cache.condition("a > 1") is first
    assert cache.condition("a > 2") is not first


def test_the_one_used_longest_ago_goes_first() -> None:
    cache = ConditionCache()
    first, second = cache.condition("a = 0"), cache.condition("a = 1")
    for number in range(2, COUNT_MAX):
        cache.condition(f"a = {number}")
    cache.condition("a = 0")
    cache.condition("b = 0")
    assert len(cache) == COUNT_MAX
    assert cache.condition("a = 0") is first
    assert cache.condition("a = 1") is not second


def test_all_texts_together_are_bounded() -> None:
    cache = ConditionCache()
    for number in range(100):
        cache.condition(f"a = {number}".ljust(4000))
    assert len(cache) == LENGTH_MAX // 4000


def test_what_is_wrong_is_refused_each_time_and_not_kept() -> None:
    cache = ConditionCache()
    for _ in range(2):
        with pytest.raises(SqlSyntaxError):
            cache.condition("a >")
    assert len(cache) == 0
