"""SQL92 conditions: what each operator answers, what is refused and where, and the bounds."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import SqlSyntaxError
from zenitmq.model.sql92.condition import Condition, number_of
from zenitmq.model.sql92.parser import DEPTH_MAX, IN_VALUES_MAX, parse
from zenitmq.model.sql92.syntax import And, Comparison, In, Literal, Not, Or, Property
from zenitmq.model.sql92.tokens import LENGTH_MAX, TOKENS_MAX

MESSAGE = {
    "amount": "10",
    "price": "2.50",
    "big": "9007199254740993",
    "region": "eu",
    "name": "it's",
    "city": "Zürich",
    "paid": "TRUE",
    "open": "no",
    "trace-id": "x1",
    "copy": "10.0",
}


def answer(text: str, message: dict[str, str] = MESSAGE) -> bool | None:
    condition = Condition(text)
    values = [message.get(name.decode()) for name in condition.names]
    found = condition.test([None if value is None else value.encode() for value in values])
    assert condition.matches([None if value is None else value.encode() for value in values]) is (found is True)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # numbers: the property's text is read as one
        ("amount = 10", True),
        ("amount = 10.0", True),
        ("copy = 10", True),
        ("amount <> 10", False),
        ("amount > 9.99", True),
        ("amount >= 10 AND amount <= 10", True),
        ("amount < -3", False),
        ("amount > +3", True),
        ("price < 2.6", True),
        ("price = 25e-1", True),
        ("price = .25E1", True),
        ("big = 9007199254740993", True),
        ("big = 9007199254740992", False),  # exact, where a 64-bit float is not
        ("10 < amount", False),
        ("9 < amount", True),
        ("amount = 10L", True),
        ("region > 5", None),  # its text is no number
        ("region <> 5", None),
        ("missing = 1", None),
        # texts: equal or not, by exact characters
        ("region = 'eu'", True),
        ("'eu' = region", True),
        ("region = 'EU'", False),
        ("region <> 'us'", True),
        ("name = 'it''s'", True),
        ("city = 'Zürich'", True),
        ("missing <> 'x'", None),
        ("amount = '10.0'", False),
        # two properties: texts where they are compared for equality, else numbers
        ("amount = copy", False),
        ("amount <> copy", True),
        ("amount >= copy", True),
        ("amount < region", None),
        ("missing = amount", None),
        # truth
        ("paid = TRUE", True),
        ("paid", True),
        ("open", False),
        ("open = FALSE", True),
        ("open <> FALSE", False),
        ("missing", None),
        ("TRUE", True),
        ("FALSE", False),
        ("TRUE = TRUE", True),
        ("1 < 2", True),
        ("2 >= 3", False),
        ("'a' <> 'b'", True),
        # ranges and lists
        ("amount BETWEEN 10 AND 20", True),
        ("amount BETWEEN 11 AND 20", False),
        ("amount NOT BETWEEN 11 AND 20", True),
        ("amount BETWEEN price AND 20", True),
        ("5 BETWEEN price AND amount", True),
        ("region BETWEEN 1 AND 2", None),
        ("missing NOT BETWEEN 1 AND 2", None),
        ("region IN ('us', 'eu')", True),
        ("region NOT IN ('us', 'eu')", False),
        ("amount IN (1, 10.0, 'x')", True),
        ("amount IN (1, 2)", False),
        ("region IN (1, 2)", False),
        ("amount IN ('10')", True),
        ("missing IN ('a')", None),
        ("missing NOT IN ('a')", None),
        # absence
        ("missing IS NULL", True),
        ("missing IS NOT NULL", False),
        ("region IS NULL", False),
        ("region IS NOT NULL", True),
        # parts of texts
        ("region CONTAINS 'u'", True),
        ("region NOT CONTAINS 'u'", False),
        ("city CONTAINS 'ür'", True),
        ("city STARTSWITH 'Z'", True),
        ("city STARTSWITH 'z'", False),
        ("city ENDSWITH 'rich'", True),
        ("city NOT ENDSWITH 'rich'", False),
        ("missing CONTAINS 'x'", None),
        ("missing NOT STARTSWITH 'x'", None),
        # logic of three values
        ("missing = 1 AND region = 'eu'", None),
        ("missing = 1 AND region = 'us'", False),
        ("missing = 1 OR region = 'eu'", True),
        ("missing = 1 OR region = 'us'", None),
        ("NOT missing = 1", None),
        ("NOT region = 'us'", True),
        ("NOT NOT region = 'eu'", True),
        # precedence: NOT before AND before OR
        ("TRUE OR TRUE AND FALSE", True),
        ("(TRUE OR TRUE) AND FALSE", False),
        ("NOT FALSE AND FALSE", False),
        ("NOT (FALSE AND FALSE)", True),
        # words in capitals or not, blanks of all kinds, names in double quotes
        ("amount between 1 and 20 and Region is null", True),
        ("amount\t>\n1\r\fAND(region='eu')", True),
        ("\"trace-id\" = 'x1'", True),
        ('"and" IS NULL', True),
        ("$a_1 IS NULL", True),
    ],
)
def test_answers(text: str, expected: bool | None) -> None:
    assert answer(text) is expected


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 1, "a property, a value, NOT or ("),
        ("   ", 4, "a property, a value, NOT or ("),
        ("amount >", 9, "a property or a value"),
        ("amount > 10 AND", 16, "a property, a value, NOT or ("),
        ("amount > 10 region = 'eu'", 13, "AND, OR or the end"),
        ("(amount > 10", 13, ")"),
        ("amount > 10)", 12, "AND, OR or the end"),
        ("amount > 'ten'", 10, "a number or a property"),
        ("TRUE < 3", 1, "a number or a property"),
        ("amount = NULL", 10, "IS NULL or IS NOT NULL behind a property: nothing equals NULL"),
        ("NULL IS NULL", 1, "IS NULL or IS NOT NULL behind a property: nothing equals NULL"),
        ("5", 2, "a comparison"),
        ("'x' AND TRUE", 5, "a comparison"),
        ("5 IS NULL", 1, "a property"),
        ("5 IN (5)", 1, "a property"),
        ("'a' CONTAINS 'b'", 1, "a property"),
        ("a CONTAINS b", 12, "a text in single quotes"),
        ("a STARTSWITH 5", 14, "a text in single quotes"),
        ("a IS 5", 6, "NULL"),
        ("a NOT 5", 7, "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH"),
        ("a LIKE 'x%'", 3, "a comparison, AND, OR or the end"),
        ("abs(a) > 5", 4, "a comparison, AND, OR or the end"),
        ("a BETWEEN 5 AND 3", 17, "a number of at least 5"),
        ("a BETWEEN 'x' AND 'y'", 11, "a number or a property"),
        ("a BETWEEN 1 AND 'y'", 17, "a number or a property"),
        ("'a' BETWEEN 1 AND 2", 1, "a number or a property"),
        ("a BETWEEN 1, 2", 12, "AND"),
        ("a IN ()", 7, "a text or a number"),
        ("a IN 5", 6, "("),
        ("a IN (5", 8, ", or )"),
        ("a IN (TRUE)", 7, "a text or a number"),
        ("a IN (b)", 7, "a text or a number"),
        ("1 = 'x'", 5, "a value of the same kind as the other"),
        ("TRUE = 1", 8, "a value of the same kind as the other"),
        ("- a > 5", 3, "a number"),
        ("a > -", 6, "a number"),
        ("a > 12abc", 5, "a number"),
        ("a > 1.5L", 5, "a number"),
        ("a > 1e999", 5, "a number that 64 bits can hold"),
        ("a > 9223372036854775808", 5, "a whole number of at most 9223372036854775807"),
        ("a = 'open", 5, "a closing '"),
        ('"open = 1', 1, 'a closing "'),
        ('"" = 1', 1, "the name of a property"),
        ("a = '\x00'", 5, "text without the bytes 0, 1 and 2"),
        ("a = 5\x00", 6, "a property, a value or an operator"),
        ("a ! 5", 3, "a property, a value or an operator"),
        ("a = '\ud800'", 6, "text that UTF-8 can carry"),
        ("a > 1 > 2", 7, "AND, OR or the end"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(text: str, position: int, expected: str) -> None:
    with pytest.raises(SqlSyntaxError) as raised:
        parse(text)
    assert (raised.value.position, raised.value.expected) == (position, expected)
    assert str(raised.value).isascii()
    assert "\n" not in str(raised.value)


def test_the_text_is_bounded() -> None:
    parse("a=1" + " " * (LENGTH_MAX - 3))
    for length in (LENGTH_MAX + 1, 1 << 20):
        with pytest.raises(SqlSyntaxError) as raised:
            parse("a=1".ljust(length))
        assert raised.value.position == LENGTH_MAX + 1


def test_the_words_are_bounded() -> None:
    parse("a " + "or a " * (TOKENS_MAX // 2 - 1))
    with pytest.raises(SqlSyntaxError, match=f"at most {TOKENS_MAX}"):
        parse("a " + "or a " * (TOKENS_MAX // 2))


@pytest.mark.parametrize("opening", ["(", "NOT "])
def test_the_depth_is_bounded(opening: str) -> None:
    closing = ")" if opening == "(" else ""
    text = opening * DEPTH_MAX + "TRUE" + closing * DEPTH_MAX
    assert answer(text) is True  # an even number of NOTs
    with pytest.raises(SqlSyntaxError, match="around each other"):
        parse(opening + text + closing)


def test_lists_are_bounded() -> None:
    values = ",".join(str(number) for number in range(IN_VALUES_MAX))
    assert answer(f"amount IN ({values})") is True
    with pytest.raises(SqlSyntaxError, match=f"at most {IN_VALUES_MAX} values"):
        parse(f"amount IN ({values},'x')")


def test_the_tree() -> None:
    a = Property("a")
    assert parse("1 < a OR a = 'x' AND NOT a IN (1, 'y')") == Or(
        (
            Comparison(">", a, Literal(1)),
            And((Comparison("=", a, Literal("x")), Not(In(a, frozenset({"y"}), frozenset({1}))))),
        )
    )


def test_each_property_is_asked_for_once() -> None:
    assert Condition("a > 1 AND b = 'x' OR a < 5 AND c IS NULL").names == (b"a", b"b", b"c")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"0", 0),
        (b"-17", -17),
        (b"+17", 17),
        (b"1.5", 1.5),
        (b"1.", 1.0),
        (b".5", 0.5),
        (b"-1e3", -1000.0),
        (b"9" * 64, int("9" * 64)),
        (b"9" * 65, float("9" * 65)),
        (b"-" + b"9" * 500, float("-inf")),
        *(
            (text, None)
            for text in (None, b"", b" 1", b"1 ", b"1_0", b"nan", b"inf", b"0x1", b"1e", b"--1", b".", b"1.2.3")
        ),
        ("\uff11".encode(), None),  # a digit, but not of ASCII
    ],
)
def test_which_texts_are_numbers(text: bytes | None, number: float | None) -> None:
    found = number_of(text)
    assert (found, type(found)) == (number, type(number))


def test_a_long_text_that_is_almost_a_number_is_looked_at_quickly() -> None:
    """A pattern that tries each way to split the digits would take hours."""
    assert number_of(b"1" * 30_000 + b"x") is None
