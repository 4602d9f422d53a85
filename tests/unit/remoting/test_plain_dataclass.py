"""Commands are dataclasses like the standard ones, whatever they are made by."""

from __future__ import annotations

import copy
import dataclasses
import pickle

from zenitmq.remoting.commands import CancelPop, Done, PopMessages


def test_they_are_equal_hashed_and_shown_by_their_fields() -> None:
    one, same, other = CancelPop("g", "c", 1), CancelPop("g", "c", 1), CancelPop("g", "c", 2)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != ("g", "c", 1)
    assert {one, same, other, Done(), Done()} == {one, other, Done()}
    assert repr(one) == "CancelPop(group='g', client_id='c', pop_id=1)"


def test_they_are_copied_replaced_pickled_and_matched() -> None:
    pop = PopMessages("g", "t", 1, 1000)
    assert copy.copy(pop) == pickle.loads(pickle.dumps(pop)) == pop
    assert dataclasses.replace(pop, topic="u").topic == "u"
    assert PopMessages.__match_args__[:2] == ("group", "topic")
    assert not hasattr(pop, "__dict__")
