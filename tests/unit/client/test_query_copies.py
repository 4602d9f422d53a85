"""The copies that groups keep of a query's offsets."""

from __future__ import annotations

import pytest

from zenitmq.client.query_copies import agreed, merge_queries
from zenitmq.model.errors import QueryOffsetsDiffer


def test_what_brokers_agree_on() -> None:
    assert agreed("q", {}) is None
    assert agreed("q", {"a": None, "b": None}) is None
    assert agreed("q", {"a": None, "b": "{}", "c": "{}"}) == "{}"
    with pytest.raises(QueryOffsetsDiffer, match="brokers a, c keep different offsets of query 'q'"):
        agreed("q", {"a": "{}", "b": None, "c": '{"n":1}'})


def test_listings_of_brokers_are_one_by_query() -> None:
    late, early = {"query": "q", "kept_at_ms": 9, "size_bytes": 2}, {"query": "q", "kept_at_ms": 5, "size_bytes": 2}
    other = {"query": "p", "kept_at_ms": 1, "size_bytes": 3}
    assert merge_queries({"b": [early], "a": [late, other]}) == [
        {**other, "brokers": ["a"]},
        {"query": "q", "kept_at_ms": 5, "size_bytes": 2, "brokers": ["a", "b"]},
    ]
    assert merge_queries({}) == []
