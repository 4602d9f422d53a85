"""The copies that groups keep of a query's offsets."""

from __future__ import annotations

import pytest

from zenitmq.client.administration.query_copies import agreed, is_behind, merge_queries
from zenitmq.model.errors import QueryOffsetsDiffer


def test_what_brokers_agree_on() -> None:
    assert agreed("q", {}) is None
    assert agreed("q", {"a": None, "b": None}) is None
    assert agreed("q", {"a": None, "b": "{}", "c": "{}"}) == "{}"
    with pytest.raises(QueryOffsetsDiffer, match="brokers a, c store different offsets of query 'q'"):
        agreed("q", {"a": "{}", "b": None, "c": '{"n":1}'})


def test_of_several_versions_the_highest_counts() -> None:
    old, new, other = '{"version":1}', '{"version":2}', '{"version":2,"n":1}'
    assert agreed("q", {"a": old, "b": new, "c": None, "d": "{}"}) == new
    with pytest.raises(QueryOffsetsDiffer, match="brokers b, c store"):
        agreed("q", {"a": old, "b": new, "c": other})
    assert [is_behind(text, new) for text in (None, "{}", old, new, other, '{"version":3}')] == [True] * 3 + [False] * 3


def test_listings_of_brokers_are_one_by_query() -> None:
    late, early = {"query": "q", "kept_at_ms": 9, "size_bytes": 2}, {"query": "q", "kept_at_ms": 5, "size_bytes": 2}
    other = {"query": "p", "kept_at_ms": 1, "size_bytes": 3}
    assert merge_queries({"b": [early], "a": [late, other]}) == [
        {**other, "brokers": ["a"]},
        {"query": "q", "kept_at_ms": 5, "size_bytes": 2, "brokers": ["a", "b"]},
    ]
    newer, older = {**late, "version": 3}, {**early, "version": 2}
    assert [row["version"] for row in merge_queries({"a": [older], "b": [newer]})] == [3]
    assert "version" not in merge_queries({"a": [older], "b": [late], "c": [newer]})[0], "an older broker does not tell"
    assert merge_queries({}) == []
