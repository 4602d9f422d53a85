"""A condition ready for evaluation: closures over its properties, with three-valued logic. Pure.

True, False, or None = unknown; a message is wanted only if the whole is True. A property is bytes as in the message
(UTF-8), or None if it is absent. A comparison with a number converts the property's text to one; if it is not a number, the
comparison is unknown, as for a missing property.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from .needs import needs_of
from .parser import EQUALITIES, parse
from .syntax import (
    And,
    Between,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Operand,
    Or,
    Property,
    TextTest,
    Truth,
)

Values = Sequence[bytes | None]
Test = Callable[[Values], bool | None]
Number = Callable[[Values], int | float | None]

EXACT_DIGITS_MAX: Final = 64  # a longer integer is converted to a float

_NUMBER: Final = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE: Final = re.compile(rb"[+-]?[0-9]+")
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_TEXT_TESTS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": bytes.startswith,
    "ENDSWITH": bytes.endswith,
}


class Condition:
    """One condition.

    `names`: its properties; `test` takes their values in that order. `needs`: conditions that it needs to be true (needs).
    """

    __slots__ = ("names", "needs", "test", "text")

    def __init__(self, text: str) -> None:
        """Raises SqlSyntaxError."""
        compiler = _Compiler()
        self.text = text
        tree = parse(text)
        self.test = compiler.compiled(tree)
        self.needs = needs_of(tree, compiler.names)
        self.names = tuple(name.encode() for name in compiler.names)

    def matches(self, values: Values) -> bool:
        """Whether a message with these property values is wanted."""
        return self.test(values) is True


def number_of(text: bytes | None) -> int | float | None:
    """The number in a property's text; None if it is not a number."""
    if text is None:
        return None
    if text.isdigit() and len(text) <= EXACT_DIGITS_MAX:
        return int(text)
    if _NUMBER.fullmatch(text) is None:
        return None
    if len(text) <= EXACT_DIGITS_MAX and _WHOLE.fullmatch(text):
        return int(text)
    return float(text)


def is_true(text: bytes) -> bool:
    """How a property's text compares with TRUE: the text true in any case is TRUE, all others are FALSE."""
    return len(text) == 4 and text.lower() == b"true"


class _Compiler:
    """Gives each property an index among the values."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def _place(self, operand: Property) -> int:
        return self.names.setdefault(operand.name, len(self.names))

    def compiled(self, node: Expression) -> Test:
        if isinstance(node, And):
            return _all_of(tuple(self.compiled(part) for part in node.parts))
        if isinstance(node, Or):
            return _any_of(tuple(self.compiled(part) for part in node.parts))
        if isinstance(node, Not):
            return _negated(self.compiled(node.inner))
        if isinstance(node, Comparison):
            return self._comparison(node)
        if isinstance(node, Between):
            low = Comparison(">=", node.operand, node.low)
            high = Comparison("<=", node.operand, node.high)
            return _all_of((self._comparison(low), self._comparison(high)))
        if isinstance(node, In):
            return self._in(node)
        if isinstance(node, IsNull):
            place = self._place(node.operand)
            return lambda values: values[place] is None
        if isinstance(node, TextTest):
            return self._text_test(node)
        return self._truth(node)

    def _comparison(self, node: Comparison) -> Test:
        compare = _OPERATORS[node.operator]
        left, right = node.left, node.right
        if isinstance(left, Literal) and isinstance(right, Literal):
            outcome = compare(left.value, right.value)
            return lambda _: outcome
        if isinstance(left, Property) and isinstance(right, Property) and node.operator in EQUALITIES:
            return _texts_compared(compare, self._place(left), self._place(right))
        if isinstance(left, Property) and isinstance(right, Literal):
            place = self._place(left)
            if isinstance(right.value, str):
                return _compared_with_text(compare, place, right.value.encode())
            if isinstance(right.value, bool):
                return _compared_with_truth(compare, place, right.value)
            return _compared_with_number(compare, place, right.value)
        return _numbers_compared(compare, self._number(left), self._number(right))

    def _number(self, operand: Operand) -> Number:
        if isinstance(operand, Property):
            place = self._place(operand)
            return lambda values: number_of(values[place])
        value = operand.value
        assert not isinstance(value, str)
        return lambda _: value

    def _in(self, node: In) -> Test:
        place = self._place(node.operand)
        texts = frozenset(text.encode() for text in node.texts)
        numbers = node.numbers

        def test(values: Values) -> bool | None:
            value = values[place]
            if value is None:
                return None
            return value in texts or (bool(numbers) and number_of(value) in numbers)

        return test

    def _text_test(self, node: TextTest) -> Test:
        place = self._place(node.operand)
        text = node.text.encode()
        find = _TEXT_TESTS[node.operator]

        def test(values: Values) -> bool | None:
            value = values[place]
            return None if value is None else find(value, text)

        return test

    def _truth(self, node: Truth) -> Test:
        if isinstance(node.operand, Property):
            return _compared_with_truth(operator.eq, self._place(node.operand), truth=True)
        outcome = bool(node.operand.value)
        return lambda _: outcome


def _all_of(parts: tuple[Test, ...]) -> Test:
    def test(values: Values) -> bool | None:
        outcome: bool | None = True
        for part in parts:
            found = part(values)
            if found is False:
                return False
            if found is None:
                outcome = None
        return outcome

    return test


def _any_of(parts: tuple[Test, ...]) -> Test:
    def test(values: Values) -> bool | None:
        outcome: bool | None = False
        for part in parts:
            found = part(values)
            if found is True:
                return True
            if found is None:
                outcome = None
        return outcome

    return test


def _negated(inner: Test) -> Test:
    def test(values: Values) -> bool | None:
        found = inner(values)
        return None if found is None else not found

    return test


def _texts_compared(compare: Callable[[Any, Any], bool], left: int, right: int) -> Test:
    def test(values: Values) -> bool | None:
        first, second = values[left], values[right]
        return None if first is None or second is None else compare(first, second)

    return test


def _compared_with_text(compare: Callable[[Any, Any], bool], place: int, text: bytes) -> Test:
    def test(values: Values) -> bool | None:
        value = values[place]
        return None if value is None else compare(value, text)

    return test


def _compared_with_truth(compare: Callable[[Any, Any], bool], place: int, truth: bool) -> Test:
    def test(values: Values) -> bool | None:
        value = values[place]
        return None if value is None else compare(is_true(value), truth)

    return test


def _compared_with_number(compare: Callable[[Any, Any], bool], place: int, number: float) -> Test:
    def test(values: Values) -> bool | None:
        value = number_of(values[place])
        return None if value is None else compare(value, number)

    return test


def _numbers_compared(compare: Callable[[Any, Any], bool], left: Number, right: Number) -> Test:
    def test(values: Values) -> bool | None:
        first, second = left(values), right(values)
        return None if first is None or second is None else compare(first, second)

    return test
