"""The command that measures a rights check, in small."""

from __future__ import annotations

from zenitmq.cli.bench.rights_check import guard_of, key_of, measure, pulls, sends


def test_it_measures_checks_that_succeed() -> None:
    found = measure(3, 4, rounds=1, checks=1000)["us"]
    assert set(found) == {"send", "pull", "send_by_address", "first_send"}
    assert found["first_send"] > 0


def test_where_a_rule_asks_from_where_another_place_is_refused() -> None:
    guard = guard_of(1, 2, asks_address=True)
    for request in (sends()[0], pulls()[0]):
        assert guard.check(key_of(0), "10.1.2.3", request) is None
        assert guard.check(key_of(0), "11.1.2.3", request) is not None
