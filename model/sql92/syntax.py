"""The syntax tree of a condition. Pure.

`[NOT] BETWEEN`, `IN` and the like hold the positive form with a NOT around it, which is the same in three-valued logic.
"""

from __future__ import annotations

from ..plain_dataclass import dataclass

Value = int | float | str | bool


@dataclass(frozen=True, slots=True)
class Property:
    """The text of a message's property, or nothing if the message has none of that name."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text, TRUE or FALSE."""

    value: Value


Operand = Property | Literal


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operator`: = <> < <= > >=. Texts and truth values are compared only for equality."""

    operator: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Between:
    """low <= operand <= high, by number."""

    operand: Operand
    low: Operand
    high: Operand


@dataclass(frozen=True, slots=True)
class In:
    """The property equals one of the texts, or, as a number, one of the numbers."""

    operand: Property
    texts: frozenset[str]
    numbers: frozenset[int | float]


@dataclass(frozen=True, slots=True)
class IsNull:
    """The message has no such property."""

    operand: Property


@dataclass(frozen=True, slots=True)
class TextTest:
    """`operator`: CONTAINS, STARTSWITH or ENDSWITH, by exact characters."""

    operator: str
    operand: Property
    text: str


@dataclass(frozen=True, slots=True)
class Truth:
    """A value in place of a condition: TRUE, FALSE, or a property, which means `property = TRUE`."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """Unknown stays unknown."""

    inner: Expression


@dataclass(frozen=True, slots=True)
class And:
    """Two parts or more."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Two parts or more."""

    parts: tuple[Expression, ...]


Expression = Comparison | Between | In | IsNull | TextTest | Truth | Not | And | Or
