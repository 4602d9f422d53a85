"""Commands are dataclasses like the standard ones, whatever they are made by."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import signal
import subprocess
import sys
from dataclasses import field
from typing import Any
from unittest.mock import patch

import pytest

from zenitmq.model.plain_dataclass import dataclass as plain_dataclass
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


def _fields(made: Any) -> Any:
    @made
    class Fields:
        first: int
        second: str = "two"
        third: list[int] = field(default_factory=list)
        fourth: int = field(default=4, init=False)
        fifth: list[int] = field(default_factory=lambda: [5], init=False)
        sixth: int = field(default=6, kw_only=True)
        unset: int = field(init=False, repr=False, compare=False)

        def __post_init__(self) -> None:
            self.unset = self.first + self.sixth

    return Fields


@pytest.mark.parametrize(
    ("values", "named"),
    [((1,), {}), ((1, "x"), {"sixth": 7}), ((), {"first": 1, "third": [3]}), ((1, "x", [9]), {})],
)
def test_an_object_gets_the_fields_that_a_standard_one_gets(values: Any, named: Any) -> None:
    plain = _fields(plain_dataclass(slots=True))(*values, **named)
    standard = _fields(dataclasses.dataclass(slots=True))(*values, **named)
    assert repr(plain).rpartition("Fields")[2] == repr(standard).rpartition("Fields")[2]
    assert plain.unset == standard.unset


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), ((1, "x", [], 4), {}), ((1,), {"seventh": 7}), ((1,), {"first": 1})]
)
def test_what_does_not_fit_is_a_type_error_as_ever(values: Any, named: Any) -> None:
    for made in (plain_dataclass(slots=True), dataclasses.dataclass(slots=True)):
        with pytest.raises(TypeError, match=r"Fields.__init__\(\)"):
            _fields(made)(*values, **named)


def test_each_object_has_a_list_of_its_own() -> None:
    cls = _fields(plain_dataclass(slots=True))
    one, other = cls(1), cls(1)
    assert one.third is not other.third


def test_a_handler_that_interrupts_the_first_use_is_heard_and_the_next_use_works() -> None:
    """A signal may come while the class's `__init__` is made."""
    cls = _fields(plain_dataclass(slots=True))
    with patch("builtins.compile", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        cls(1)
    assert cls(1).second == "two"


def test_after_its_first_use_a_program_still_ends_by_ctrl_c() -> None:
    script = """
import atexit, signal
from zenitmq.remoting.commands import CancelPop
atexit.register(CancelPop, "g", "c", 1)
signal.raise_signal(signal.SIGINT)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert ended.returncode == -signal.SIGINT
