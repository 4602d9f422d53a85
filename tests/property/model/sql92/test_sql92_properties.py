"""SQL92 conditions against a naive evaluator, and any text at all: a condition, or the one error."""

from __future__ import annotations

import importlib
import math
import struct
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import NAME, interpreted_kernel
from zenitmq.model.errors import SqlSyntaxError
from zenitmq.model.properties import encode_properties
from zenitmq.model.sql92 import syntax as s
from zenitmq.model.sql92.condition import Condition
from zenitmq.model.sql92.parser import parse

NAMES = ("a", "b", "c", "d-e")
TEXTS = ("", "x", "eu", "it's", "10", "1.5", "true", "FALSE", "-3", "1e1", "ü")
NUMBERS = (0, 1, 10, -3, 1.5, 10.0, 2.5e3)

properties = st.sampled_from(NAMES).map(s.Property)
numbers = st.sampled_from(NUMBERS)
ordered = properties | numbers.map(s.Literal)
texts = st.sampled_from(TEXTS)


def between(operand: s.Operand, low: s.Operand, high: s.Operand) -> s.Expression:
    if isinstance(low, s.Literal) and isinstance(high, s.Literal) and low.value > high.value:  # type: ignore[operator]
        low, high = high, low
    return s.Between(operand, low, high)


tests = st.one_of(
    st.builds(s.Comparison, st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), properties, ordered),
    st.builds(s.Comparison, st.sampled_from(("=", "<>")), properties, (texts | st.booleans()).map(s.Literal)),
    st.builds(between, ordered, ordered, ordered),
    st.builds(s.In, properties, st.frozensets(texts, min_size=1, max_size=3), st.frozensets(numbers, max_size=2)),
    st.builds(s.IsNull, properties),
    st.builds(s.TextTest, st.sampled_from(("CONTAINS", "STARTSWITH", "ENDSWITH")), properties, texts),
    st.builds(s.Truth, properties | st.booleans().map(s.Literal)),
)


def several(children: st.SearchStrategy[s.Expression]) -> st.SearchStrategy[s.Expression]:
    parts = st.lists(children, min_size=2, max_size=3).map(tuple)
    return st.one_of(children.map(s.Not), parts.map(s.And), parts.map(s.Or))


expressions = st.recursive(tests, several, max_leaves=12)
messages = st.dictionaries(st.sampled_from(NAMES), texts.filter(bool), max_size=4)


def written(node: s.Expression | s.Operand) -> str:
    """The text of a tree, every part of several in parentheses."""
    match node:
        case s.Property(name):
            return name if name.isidentifier() else f'"{name}"'
        case s.Literal(value):
            if isinstance(value, bool):
                return str(value).upper()
            return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)
        case s.Comparison(operator, left, right):
            return f"{written(left)} {operator} {written(right)}"
        case s.Between(operand, low, high):
            return f"{written(operand)} BETWEEN {written(low)} AND {written(high)}"
        case s.In(operand, some, others):
            return f"{written(operand)} IN ({', '.join(written(s.Literal(v)) for v in (*some, *others))})"
        case s.IsNull(operand):
            return f"{written(operand)} IS NULL"
        case s.TextTest(operator, operand, text):
            return f"{written(operand)} {operator} {written(s.Literal(text))}"
        case s.Truth(operand):
            return written(operand)
        case s.Not(inner):
            return f"NOT ({written(inner)})"
        case s.And(parts):
            return " AND ".join(f"({written(part)})" for part in parts)
        case s.Or(parts):
            return " OR ".join(f"({written(part)})" for part in parts)


def number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def naive(node: s.Expression, message: dict[str, str]) -> bool | None:
    """By the book: unknown is None, the least of the parts is AND, the greatest OR."""

    def value(operand: s.Operand) -> object:
        return message.get(operand.name) if isinstance(operand, s.Property) else operand.value

    def compared(operator: str, left: s.Operand, right: s.Operand) -> bool | None:
        first, second = value(left), value(right)
        if first is None or second is None:
            return None
        if isinstance(second, bool):
            first = str(first).upper() == "TRUE"
        elif operator not in ("=", "<>") or isinstance(second, (int, float)):
            first, second = (number(v) if isinstance(v, str) else v for v in (first, second))
            if first is None or second is None:
                return None
        below = first < second if operator not in ("=", "<>") else False  # type: ignore[operator]
        return {
            "=": first == second, "<>": first != second, "<": below, "<=": below or first == second,
            ">": not below and first != second, ">=": not below,
        }[operator]  # fmt: skip

    rank = {False: 0, None: 1, True: 2}
    match node:
        case s.Comparison(operator, left, right):
            return compared(operator, left, right)
        case s.Between(operand, low, high):
            return min(compared(">=", operand, low), compared("<=", operand, high), key=rank.__getitem__)
        case s.In(operand, some, others):
            text = message.get(operand.name)
            return None if text is None else text in some or number(text) in others
        case s.IsNull(operand):
            return operand.name not in message
        case s.TextTest(operator, operand, text):
            held = message.get(operand.name)
            if held is None:
                return None
            ends = len(text) <= len(held) and held[len(held) - len(text) :] == text
            return {"CONTAINS": text in held, "STARTSWITH": held[: len(text)] == text, "ENDSWITH": ends}[operator]
        case s.Truth(operand):
            if isinstance(operand, s.Property):
                return compared("=", operand, s.Literal(value=True))
            return operand.value is True
        case s.Not(inner):
            found = naive(inner, message)
            return None if found is None else not found
        case s.And(parts):
            return min((naive(part, message) for part in parts), key=rank.__getitem__)
        case s.Or(parts):
            return max((naive(part, message) for part in parts), key=rank.__getitem__)


@given(expressions)
def test_what_is_written_is_read_back(expression: s.Expression) -> None:
    assert parse(written(expression)) == expression


@given(expressions, messages)
def test_conditions_answer_as_the_naive_evaluator(expression: s.Expression, message: dict[str, str]) -> None:
    condition = Condition(written(expression))
    values = [message[name].encode() if (name := key.decode()) in message else None for key in condition.names]
    assert condition.test(values) is naive(expression, message)


conjunctions = st.lists(tests | expressions, min_size=2, max_size=4).map(lambda parts: s.And(tuple(parts)))


@pytest.mark.parametrize("kernel", [importlib.import_module(NAME), interpreted_kernel()], ids=["installed", "source"])
@given(expression=tests | conjunctions | expressions, sent=st.lists(messages, min_size=1, max_size=6))
def test_looking_first_at_what_is_needed_changes_no_answer(
    kernel: ModuleType, expression: s.Expression, sent: list[dict[str, str]]
) -> None:
    condition = Condition(written(expression))
    records = [kernel.encode_record(topic=b"t", body=b"", properties=encode_properties(message)) for message in sent]
    units, at = b"", 0
    for record in records:
        units += struct.pack(">qiq", at, len(record), 0)
        at += len(record)
    log = memoryview(b"".join(records))
    passed = [
        (selector.matched, list(selector.runs[: 2 * selector.run_count]))
        for needs in ((), condition.needs)
        for selector in [kernel.UnitSelector()]
        if selector.select_where(units, log, 0, condition.names, needs, condition.test, 100, 1 << 30, lambda: True) >= 0
    ]
    assert passed[0] == passed[1]
    assert passed[0][0] == sum(naive(expression, message) is True for message in sent)


WORDS = st.sampled_from(
    (
        *"AND OR NOT BETWEEN IN IS NULL TRUE FALSE CONTAINS STARTSWITH ENDSWITH LIKE a b ( ) , + - = <> < <= > >=".split(),
        *("'x'", "'", '"', "10", "1.5", "1e5", "\x00", "--", "!=", "ü", "'it''s'"),
    )
)


def compiled(text: str) -> Condition | SqlSyntaxError:
    try:
        return Condition(text)
    except SqlSyntaxError as error:
        return error


@given(
    st.text(max_size=200) | st.lists(WORDS, max_size=40).map(" ".join), st.lists(st.none() | st.binary(), max_size=5)
)
def test_any_text_is_a_condition_or_refused_with_a_place(text: str, values: list[bytes | None]) -> None:
    condition = compiled(text)
    if isinstance(condition, SqlSyntaxError):
        assert 1 <= condition.position <= len(text) + 1
        return
    some = (values + [None] * len(condition.names))[: len(condition.names)]
    assert condition.test(some) in (True, False, None)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_number_or_not(text: bytes) -> None:
    found = Condition("a < 5").test([text])
    assert found in (True, False, None)
    assert not (found is not None and math.isnan(float(text)))
