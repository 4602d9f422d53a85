"""Cheap tests of single properties that a condition needs to be true; they run before the whole condition. Pure.

    amount > 10 AND region = 'eu' AND (a = 1 OR b = 2)      needs amount > 10, and region = 'eu'

Each part of an AND must be true. So if a property in a part is missing, or its comparison fails, the message is not wanted,
whatever the rest says. If all needs are met, the condition itself decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .syntax import And, Between, Comparison, Expression, In, Literal, Property, TextTest, Truth

Need = tuple[int, int, float | bytes]
"""(index of the property, accepted outcomes, what it is compared with: a number, or bytes as text)."""

LESS: Final = 1
EQUAL: Final = 2
GREATER: Final = 4
_OUTCOMES: Final = {
    "=": EQUAL,
    "<>": LESS | GREATER,
    "<": LESS,
    "<=": LESS | EQUAL,
    ">": GREATER,
    ">=": GREATER | EQUAL,
}
_ANY: Final = LESS | EQUAL | GREATER

EXACT_MAX: Final = 1 << 53  # integers up to here are exact as floats


def needs_of(node: Expression, places: Mapping[str, int]) -> tuple[Need, ...]:
    """The needs of a condition; empty if it has none. `places`: the indexes of all its properties."""
    if isinstance(node, And):
        return tuple(need for part in node.parts for need in needs_of(part, places))
    if isinstance(node, Between):
        low = Comparison(">=", node.operand, node.low)
        high = Comparison("<=", node.operand, node.high)
        return needs_of(low, places) + needs_of(high, places)
    if isinstance(node, Comparison):
        return _of_comparison(node, places)
    if isinstance(node, In | TextTest | Truth) and isinstance(node.operand, Property):
        return (_present(node.operand, places),)
    return ()


def _of_comparison(node: Comparison, places: Mapping[str, int]) -> tuple[Need, ...]:
    left, right = node.left, node.right
    if isinstance(left, Property) and isinstance(right, Literal):
        value = right.value
        if isinstance(value, str):
            return ((places[left.name], _OUTCOMES[node.operator], value.encode()),)
        if not isinstance(value, bool) and (isinstance(value, float) or abs(value) <= EXACT_MAX):
            return ((places[left.name], _OUTCOMES[node.operator], float(value)),)
    return tuple(_present(operand, places) for operand in (left, right) if isinstance(operand, Property))


def _present(operand: Property, places: Mapping[str, int]) -> Need:
    """The property must exist; any value will do."""
    return places[operand.name], _ANY, b""
