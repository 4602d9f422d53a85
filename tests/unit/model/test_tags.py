"""Java's string hash by values known from Java, and tag expressions."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidParameter, SqlSyntaxError
from zenitmq.model.subscription import Sql, Subscription
from zenitmq.model.tag_hash import java_hash, tags_code

KNOWN = [
    ("", 0),
    ("a", 97),
    ("Aa", 2112),
    ("BB", 2112),
    ("hello", 99162322),
    ("TagA", 2598919),
    ("polygenelubricants", -(1 << 31)),
    ("The quick brown fox jumps over the lazy dog", -609428141),
    ("\U0001f600", 1772899),  # two UTF-16 units
    ("\ud83d", 0xD83D),  # half of it
]


@pytest.mark.parametrize(("text", "value"), KNOWN)
def test_known_hashes(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_no_tags_have_code_zero() -> None:
    assert tags_code(None) == 0
    assert tags_code("") == 0
    assert tags_code("TagA") == 2598919


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        *((everything, ()) for everything in (None, "", "*", " * ", "  ", "a || *")),
        *(("a", ("a",)), ("a||b", ("a", "b")), (" a || b ||", ("a", "b")), ("a | b", ("a | b",)), ("a || a", ("a",))),
    ],
)
def test_expressions(expression: str | None, tags: tuple[str, ...]) -> None:
    subscription = Subscription.parse("orders", expression)
    assert subscription.tags == frozenset(tags)
    assert subscription.codes() == tuple(sorted(java_hash(tag) for tag in tags))
    assert subscription.accepts(None) is (not tags)
    assert all(subscription.accepts(tag) for tag in tags)


@pytest.mark.parametrize(
    "expression", ["a\x00", "a || b\x01", "\x02", "a\ud800", "a" * 16_385, "||".join(map(chr, range(0x4E00, 0x5E01)))]
)
def test_what_no_tag_can_be_is_refused(expression: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        Subscription.parse("orders", expression)
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize("expression", ["||", " || ", "||||", "|| ||"])
def test_separators_alone_are_no_expression(expression: str) -> None:
    with pytest.raises(InvalidParameter, match=r"a \|\| b"):
        Subscription.parse("orders", expression)


def test_a_condition_is_a_subscription_of_its_own_kind() -> None:
    subscription = Subscription.parse("orders", Sql("amount > 10"))
    assert subscription.wire() == ("orders", "SQL92", "amount > 10")
    assert (subscription.sql, subscription.codes()) == ("amount > 10", ())
    assert subscription.accepts("any")
    assert Subscription.parse("orders", "a").sql == ""
    assert Subscription.parse("orders", "a").wire() == ("orders", "TAG", "a")


def test_a_broken_condition_is_refused_where_it_is_written() -> None:
    with pytest.raises(SqlSyntaxError) as raised:
        Sql("amount > 'ten'")
    assert raised.value.position == 10


def test_a_colliding_tag_passes_the_hash_but_not_the_text() -> None:
    subscription = Subscription.parse("orders", "Aa")
    assert tags_code("BB") in subscription.codes()
    assert not subscription.accepts("BB")
    assert Subscription.parse("orders", "Aa || BB").codes() == (2112,)
