"""Rows: golden texts both ways, which of two counts, and what is refused."""

from __future__ import annotations

import json

import pytest

from zenitmq.model.errors import InvalidParameter
from zenitmq.model.security.principals import Match, Rule, RuleEffect, User, UserKind, UserRole
from zenitmq.model.security.rights import Action
from zenitmq.model.security.row_codec import (
    ROW_CHARACTERS_MAX,
    VERSION_MAX,
    RowKind,
    SecurityRow,
    decode_row,
    encode_row,
    is_later,
    row_of,
)

KEY = "k" * 40
ANYTHING = Rule(RuleEffect.ALLOW, frozenset({Action.GET}), None, Match.ANY, "")
GOLDEN = [
    (
        row_of(User("app", (KEY,), roles=("readers",)), 7),
        f'{{"fields":{{"keys":["{KEY}"],"kind":"normal","roles":["readers"]}},"kind":"user","name":"app","version":7}}',
    ),
    (
        row_of(UserRole("readers", (ANYTHING,)), VERSION_MAX),
        (
            '{"fields":{"rules":[{"actions":["get"],"effect":"allow","match":"any"}]},"kind":"role","name":"readers",'
            f'"version":{VERSION_MAX}}}'
        ),
    ),
    (SecurityRow(RowKind.USER, "app", 8, None), '{"deleted":true,"kind":"user","name":"app","version":8}'),
]


@pytest.mark.parametrize(("row", "text"), GOLDEN)
def test_a_row_and_its_text(row: SecurityRow, text: str) -> None:
    assert encode_row(row) == text
    assert decode_row(text) == row


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"kind": "king"},
        {"name": "a/b"},
        {"name": None},
        {"version": -1},
        {"version": VERSION_MAX + 1},
        {"version": 1.5},
        {"version": True},
        {"deleted": True},
        {"deleted": 1},
        {"fields": []},
        {"fields": {"kind": "normal", "colour": "red"}},
        {"more": 1},
    ],
)
def test_what_is_no_row_is_refused(wrong: dict[str, object]) -> None:
    document = {"kind": "user", "name": "app", "version": 1, "fields": {"kind": "normal"}}
    assert decode_row(json.dumps(document)).name == "app"
    with pytest.raises(InvalidParameter):
        decode_row(json.dumps({**document, **wrong} if wrong else []))


def test_a_row_is_bounded() -> None:
    with pytest.raises(InvalidParameter, match="roles"):
        decode_row(" " * (ROW_CHARACTERS_MAX + 1))
    for text in ("[" * 5000, "{", "\ud800"):
        with pytest.raises(InvalidParameter):
            decode_row(text)


def test_the_later_row_counts_and_of_two_made_at_once_the_same_one_everywhere() -> None:
    old, new = row_of(User("app", ()), 1), row_of(User("app", (), UserKind.SUPER), 2)
    assert is_later(new, old)
    assert is_later(old, None)
    assert not is_later(old, new)
    assert not is_later(old, old)
    left, right = row_of(User("app", ()), 2), row_of(User("app", (), disabled=True), 2)
    assert is_later(left, right) != is_later(right, left)
