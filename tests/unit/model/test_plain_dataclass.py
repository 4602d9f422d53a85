"""Classes of the plain dataclass behave as those of the standard one, but for assignments to frozen ones."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field

import pytest

from zenitmq.model.plain_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    label: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    name: str = "a"
    numbers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Counter:
    count: int = 0

    def __post_init__(self) -> None:
        self.count += 1


@dataclass(frozen=True, slots=True)
class Nothing:
    pass


class Other(Point):
    pass


def test_equal_and_hashed_by_the_fields_that_count() -> None:
    assert Point(1, label="a") == Point(1, 2, "b")
    assert hash(Point(1, label="a")) == hash(Point(1, 2, "b"))
    assert Point(1) != Point(2)
    assert Point(1) != Other(1)
    assert Point(1) != (1, 2)
    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1
    assert Named(numbers=[1]) == Named(numbers=[1])


def test_what_may_change_is_not_hashed() -> None:
    assert Counter(1) == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


def test_shown_as_it_is_made() -> None:
    assert repr(Point(1, label="a")) == "Point(x=1, y=2)"
    assert repr(Named()) == "Named(name='a', numbers=[])"
    assert repr(Nothing()) == "Nothing()"
    assert Counter(4).count == 5


@pytest.mark.parametrize("value", [Point(1, 2, "c"), Named(name="b", numbers=[1]), Nothing(), Counter(3)])
def test_copied_pickled_and_replaced(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value
    assert not hasattr(value, "__dict__")
    if isinstance(value, Point):
        assert dataclasses.replace(value, x=5) == Point(5, 2)
        assert dataclasses.asdict(value) == {"x": 1, "y": 2, "label": "c"}


def test_a_wrong_call_names_the_class_the_first_time_and_later() -> None:
    @dataclass(frozen=True, slots=True)
    class Pair:
        left: int
        right: int

    for _ in range(2):
        with pytest.raises(TypeError, match=r"Pair\.__init__\(\) missing 1 required positional argument: 'right'"):
            Pair(1)  # type: ignore[call-arg]
    assert Pair(1, 2) == Pair(left=1, right=2)
