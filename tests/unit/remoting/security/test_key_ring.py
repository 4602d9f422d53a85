"""Which key is expected where: what is known from the start, else what a name server told, else what can be found out."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import ServerKeyUnknown
from zenitmq.remoting.security.key_file import KeyPair
from zenitmq.remoting.security.key_ring import WITHOUT, KeyRing

OLD, NEW, FIXED = "o" * 40, "n" * 40, "f" * 40
PAIR = KeyPair("p" * 40, "s" * 40)


def test_nothing_that_is_told_replaces_what_is_known() -> None:
    keys = KeyRing(PAIR, {"a:1": (FIXED,)})
    keys.learn([("a:1", NEW), ("b:1", NEW)])
    assert (keys.key_of("a:1"), keys.key_of("b:1")) == (FIXED, NEW)
    keys.fix("b:1", FIXED)
    assert keys.key_of("b:1") == FIXED


def test_while_a_server_changes_its_key_both_are_tried_in_turn() -> None:
    keys = KeyRing(PAIR)
    keys.learn([("a:1", OLD), ("b:1", FIXED), ("a:1", NEW)])
    assert keys.key_of("a:1") == NEW
    keys.on_failed("a:1")
    assert keys.key_of("a:1") == OLD
    keys.on_failed("a:1")
    assert keys.key_of("a:1") == NEW
    keys.on_failed("a:1")
    keys.learn([("a:1", "x" * 40)])
    assert keys.key_of("a:1") == "x" * 40


def test_a_key_that_was_replaced_counts_no_more() -> None:
    keys = KeyRing(PAIR)
    keys.learn([("a:1", OLD), ("b:1", OLD)])
    keys.learn([("a:1", NEW), ("a:1", NEW)])
    for _ in range(3):
        assert (keys.key_of("a:1"), keys.key_of("b:1")) == (NEW, OLD)
        keys.on_failed("a:1")


def test_two_keys_of_a_file_are_tried_in_turn() -> None:
    keys = KeyRing(PAIR, {"a:1": (NEW, OLD)})
    tried = []
    for _ in range(3):
        tried.append(keys.key_of("a:1"))
        keys.on_failed("a:1")
    assert tried == [NEW, OLD, NEW]


def test_while_a_cluster_is_being_secured_a_server_may_have_no_key_yet() -> None:
    keys = KeyRing(PAIR, {"a:1": (FIXED,)})
    keys.takes_open = True
    assert keys.key_of("b:1") == WITHOUT, "nobody has told one"
    tried = []
    for _ in range(3):
        tried.append(keys.key_of("a:1"))
        keys.on_failed("a:1")
    assert tried == [FIXED, WITHOUT, FIXED], "the key first"


def test_an_unknown_address_is_asked_about_and_otherwise_an_error_that_a_new_route_mends() -> None:
    keys = KeyRing(PAIR)
    with pytest.raises(ServerKeyUnknown) as unknown:
        keys.key_of("a:1")
    assert unknown.value.retriable
    assert unknown.value.route_stale
    keys.find = lambda address: (OLD,) if address == "a:1" else ()
    assert keys.key_of("a:1") == OLD
    with pytest.raises(ServerKeyUnknown):
        keys.key_of("b:1")
