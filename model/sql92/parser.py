"""Parses a condition's tokens to its tree, by recursive descent. Pure.

    condition   = conjunction { OR conjunction }
    conjunction = negation { AND negation }
    negation    = NOT negation | test
    test        = "(" condition ")" | operand [ comparison ]

Depth is bounded, so that neither this nor the evaluation can exhaust the stack. Raises SqlSyntaxError, never anything else.
"""

from __future__ import annotations

from typing import Final

from ..errors import SqlSyntaxError
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
from .tokens import Token, TokenKind, tokens_of

DEPTH_MAX: Final = 32  # parentheses and NOTs around each other
IN_VALUES_MAX: Final = 256

EQUALITIES: Final = frozenset({"=", "<>"})
ORDERS: Final = frozenset({"<", "<=", ">", ">="})
TEXT_TESTS: Final = frozenset({"CONTAINS", "STARTSWITH", "ENDSWITH"})
_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse(text: str) -> Expression:
    """The tree of a whole condition."""
    parser = _Parser(tokens_of(text))
    expression = parser.condition()
    parser.expect_end()
    return expression


class _Parser:
    __slots__ = ("_at", "_depth", "_tokens")

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    # ---- tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _is(self, *texts: str) -> bool:
        """Whether the next token is one of these keywords or symbols."""
        return self._next.kind in (TokenKind.KEYWORD, TokenKind.SYMBOL) and self._next.text in texts

    def _take_if(self, text: str) -> bool:
        found = self._is(text)
        self._at += found
        return found

    def _expect(self, text: str) -> None:
        if not self._take_if(text):
            raise self._wrong(text)

    def _wrong(self, expected: str, token: Token | None = None) -> SqlSyntaxError:
        wrong = token or self._next
        return SqlSyntaxError(wrong.position, wrong.found(), expected)

    def expect_end(self) -> None:
        """Raises unless the text ends here."""
        if self._next.kind is not TokenKind.END:
            raise self._wrong("AND, OR or the end")

    # ---- conditions

    def condition(self) -> Expression:
        """One part, or several joined by OR."""
        parts = [self._conjunction()]
        while self._take_if("OR"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _conjunction(self) -> Expression:
        parts = [self._negation()]
        while self._take_if("AND"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _negation(self) -> Expression:
        if not self._is("NOT", "("):
            return self._test()
        if self._depth == DEPTH_MAX:
            raise self._wrong(f"at most {DEPTH_MAX} parentheses and NOTs around each other")
        self._depth += 1
        inner: Expression
        if self._take_if("NOT"):
            inner = Not(self._negation())
        else:
            self._expect("(")
            inner = self.condition()
            self._expect(")")
        self._depth -= 1
        return inner

    def _test(self) -> Expression:
        begin = self._next
        left = self._operand("a property, a value, NOT or (")
        if self._is(*EQUALITIES, *ORDERS):
            return self._comparison(left, begin)
        if self._take_if("IS"):
            is_not = self._take_if("NOT")
            self._expect("NULL")
            null = IsNull(_property(left, begin))
            return Not(null) if is_not else null
        if self._take_if("NOT"):
            return Not(self._range_or_text(left, begin, "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH"))
        if self._is("BETWEEN", "IN", *TEXT_TESTS):
            return self._range_or_text(left, begin, "")
        if isinstance(left, Literal) and not isinstance(left.value, bool):
            raise self._wrong("a comparison")
        if self._next.kind in (TokenKind.NAME, TokenKind.TEXT, TokenKind.NUMBER) or self._is("(", "TRUE", "FALSE"):
            raise self._wrong("a comparison, AND, OR or the end")
        return Truth(left)

    def _comparison(self, left: Operand, left_token: Token) -> Expression:
        operator = self._take().text
        right_token = self._next
        right = self._operand("a property or a value")
        for operand, token in ((left, left_token), (right, right_token)):
            if operator in ORDERS:
                _check_ordered(operand, token)
        if isinstance(left, Literal) and isinstance(right, Literal) and _kind(left) is not _kind(right):
            raise self._wrong("a value of the same kind as the other", right_token)
        if isinstance(left, Literal):
            return Comparison(_MIRRORED[operator], right, left)
        return Comparison(operator, left, right)

    def _range_or_text(self, left: Operand, begin: Token, expected: str) -> Expression:
        if self._take_if("BETWEEN"):
            return self._between(left, begin)
        if self._take_if("IN"):
            return self._in(_property(left, begin))
        if not self._is(*TEXT_TESTS):
            raise self._wrong(expected)
        operator = self._take().text
        if self._next.kind is not TokenKind.TEXT:
            raise self._wrong("a text in single quotes")
        return TextTest(operator, _property(left, begin), self._take().text)

    def _between(self, left: Operand, begin: Token) -> Expression:
        _check_ordered(left, begin)
        low_token = self._next
        low = self._operand("a number or a property")
        _check_ordered(low, low_token)
        self._expect("AND")
        high_token = self._next
        high = self._operand("a number or a property")
        _check_ordered(high, high_token)
        if isinstance(low, Literal) and isinstance(high, Literal) and _number(low) > _number(high):
            raise self._wrong(f"a number of at least {low.value}", high_token)
        return Between(left, low, high)

    def _in(self, operand: Property) -> Expression:
        self._expect("(")
        texts: set[str] = set()
        numbers: set[int | float] = set()
        count = 0
        while True:
            token = self._next
            value = self._operand("a text or a number")
            if count == IN_VALUES_MAX:
                raise self._wrong(f"at most {IN_VALUES_MAX} values", token)
            if not isinstance(value, Literal) or isinstance(value.value, bool):
                raise self._wrong("a text or a number", token)
            if isinstance(value.value, str):
                texts.add(value.value)
            else:
                numbers.add(value.value)
            count += 1
            if self._take_if(")"):
                return In(operand, frozenset(texts), frozenset(numbers))
            if not self._take_if(","):
                raise self._wrong(", or )")

    def _operand(self, expected: str) -> Operand:
        token = self._next
        if self._is("+", "-"):
            self._take()
            if self._next.kind is not TokenKind.NUMBER:
                raise self._wrong("a number")
            number = self._take().number
            return Literal(-number if token.text == "-" else number)
        if self._is("NULL"):
            raise self._wrong("IS NULL or IS NOT NULL behind a property: nothing equals NULL")
        if self._is("TRUE", "FALSE"):
            return Literal(self._take().text == "TRUE")
        if token.kind not in (TokenKind.NAME, TokenKind.TEXT, TokenKind.NUMBER):
            raise self._wrong(expected)
        self._take()
        if token.kind is TokenKind.NAME:
            return Property(token.text)
        return Literal(token.text if token.kind is TokenKind.TEXT else token.number)


def _property(operand: Operand, token: Token) -> Property:
    if not isinstance(operand, Property):
        raise SqlSyntaxError(token.position, token.found(), "a property")
    return operand


def _check_ordered(operand: Operand, token: Token) -> None:
    """Raises unless the operand can be ordered: only numbers can."""
    if isinstance(operand, Literal) and _kind(operand) is not float:
        raise SqlSyntaxError(token.position, token.found(), "a number or a property")


def _kind(literal: Literal) -> type:
    """bool, str, or float for any number."""
    kind = type(literal.value)
    return float if kind is int else kind


def _number(literal: Literal) -> int | float:
    assert not isinstance(literal.value, str)
    return literal.value
