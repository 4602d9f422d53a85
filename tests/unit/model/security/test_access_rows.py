"""The rows of one server: who may change what, pages, digests, and the table that they make."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import (
    InvalidParameter,
    SecurityRowChanged,
    SecurityRowNotFound,
    SecurityRowTrusted,
    TooManySecurityRows,
)
from zenitmq.model.security import access_rows
from zenitmq.model.security.access_rows import DELETED_KEPT_MS, WHICHEVER, AccessRows, deletion, parse_rows
from zenitmq.model.security.principals import RULES_MAX, Binding, Match, Rule, RuleEffect, User, UserKind, UserRole
from zenitmq.model.security.rights import Action, Resource
from zenitmq.model.security.row_codec import VERSION_MAX, RowKind, SecurityRow, decode_row, encode_row, row_of
from zenitmq.model.security.trusted_file import StaticRow

KEYS = tuple(letter * 40 for letter in "abcdef")
APP = User("app", KEYS[:1])
NOW_MS = 1_700_000_000_000


def put(rows: AccessRows, value: User | UserRole, expected: int = WHICHEVER, now_ms: int = NOW_MS) -> SecurityRow:
    row = rows.changed(row_of(value), expected_version=expected, now_ms=now_ms)
    assert rows.merge([row]) == [row]
    return row


def test_a_change_gets_the_time_as_its_version_or_one_more_than_before() -> None:
    rows = AccessRows()
    assert put(rows, APP).version == NOW_MS
    assert put(rows, APP, now_ms=NOW_MS - 60_000).version == NOW_MS + 1  # a clock that was set back
    assert rows.table().user_of(KEYS[0]) == APP


def test_a_change_says_what_it_expects() -> None:
    rows = AccessRows()
    version = put(rows, APP, 0).version
    with pytest.raises(SecurityRowChanged, match="exists already"):
        put(rows, APP, 0)
    with pytest.raises(SecurityRowChanged, match="look and try again"):
        put(rows, APP, version - 1)
    put(rows, APP, version)


def test_a_deleted_user_is_made_anew_with_a_later_version() -> None:
    rows = AccessRows()
    with pytest.raises(SecurityRowNotFound):
        rows.changed(deletion(RowKind.USER, "app"), expected_version=WHICHEVER, now_ms=NOW_MS)
    first = put(rows, APP)
    gone = rows.changed(deletion(RowKind.USER, "app"), expected_version=first.version, now_ms=0)
    rows.merge([gone])
    assert rows.table().user_of(KEYS[0]) is None
    with pytest.raises(SecurityRowNotFound):
        rows.changed(deletion(RowKind.USER, "app"), expected_version=WHICHEVER, now_ms=NOW_MS)
    assert put(rows, APP, 0, now_ms=0).version == gone.version + 1


def test_a_key_has_one_user() -> None:
    rows = AccessRows()
    put(rows, APP)
    with pytest.raises(InvalidParameter, match="'app' has it"):
        put(rows, User("other", (KEYS[1], KEYS[0])))


def test_the_trusted_file_wins() -> None:
    rows, trusted = AccessRows(), (StaticRow(User("root", KEYS[1:2], UserKind.SUPER)),)
    put(rows, User("root", KEYS[2:3]))
    put(rows, User("thief", KEYS[1:2]))
    table = rows.table(trusted)
    assert table.users["root"].kind is UserKind.SUPER
    assert table.user_of(KEYS[1]) == trusted[0].user
    assert table.user_of(KEYS[2]) is None
    for value, error in ((User("root", ()), SecurityRowTrusted), (User("x", KEYS[1:2]), InvalidParameter)):
        with pytest.raises(error):
            rows.changed(row_of(value), expected_version=WHICHEVER, now_ms=NOW_MS, trusted=trusted)


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_rows, "ROWS_MAX", 2)
    monkeypatch.setattr(access_rows, "MERGED_MAX", 3)
    rows = AccessRows()
    for name in "ab":
        put(rows, User(name, ()))
    with pytest.raises(TooManySecurityRows):
        put(rows, User("c", ()))
    put(rows, User("a", (), disabled=True))
    assert len(rows.merge([row_of(User(name, ()), 1) for name in "cde"])) == 1  # made at other masters
    assert len(rows) == 3


def test_a_version_that_cannot_grow_is_told() -> None:
    rows = AccessRows()
    rows.merge([row_of(APP, VERSION_MAX)])
    with pytest.raises(InvalidParameter, match="another name"):
        put(rows, APP)


def test_pages_have_all_rows_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = AccessRows()
    rows.merge([row_of(User(f"u{number:02}", ()), 1) for number in range(20)])
    monkeypatch.setattr(access_rows, "PAGE_CHARACTERS_MAX", 3 * len(rows.texts()[0]) + 1)
    found: list[str] = []
    more = True
    while more:
        page, more = rows.page(decode_row(found[-1]).key if found else "")
        assert len(page) == 3 or not more
        found += page
    assert found == rows.texts()
    assert rows.page("") == (tuple(found[:3]), True)


def test_what_was_deleted_long_ago_is_forgotten_and_not_taken_back() -> None:
    rows = AccessRows()
    rows.merge([SecurityRow(RowKind.USER, "old", 1, None), row_of(APP, 1)])
    rows.expire(DELETED_KEPT_MS + 1)
    assert len(rows) == 2
    rows.expire(DELETED_KEPT_MS + 2)
    assert [decode_row(text).name for text in rows.texts()] == ["app"]
    assert rows.later([SecurityRow(RowKind.USER, "old", 1, None)], DELETED_KEPT_MS + 2) == []
    fresh = AccessRows()
    fresh.merge([row_of(APP, 1)])
    assert fresh.digests() == rows.digests()


def test_only_what_differs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = AccessRows(), AccessRows()
    rows = [row_of(User(f"u{number}", ()), 1) for number in range(500)]
    left.merge(rows)
    right.merge(rows[:-1])
    texts, after = left.differing(right.digests())
    assert encode_row(rows[-1]) in texts
    assert len(texts) < 50
    assert not after
    monkeypatch.setattr(access_rows, "PAGE_CHARACTERS_MAX", 2 * len(texts[0]) + 2)
    told, after = left.differing(right.digests())
    assert len(told) == 2
    assert after
    assert left.differing(right.digests(), after)[0] != told
    right.merge(parse_rows(texts)[0])
    assert left.differing(right.digests()) == ((), "")
    with pytest.raises(InvalidParameter):
        left.differing((1, 2))


def test_a_row_of_a_newer_version_is_left_out() -> None:
    good = encode_row(row_of(APP, 1))
    rows, refused = parse_rows([good, good.replace('"keys"', '"newer":1,"keys"'), "x"])
    assert [row.name for row in rows] == ["app"]
    assert len(refused) == 2


def test_a_row_that_is_too_large_is_refused_before_it_is_kept() -> None:
    rule = Rule(RuleEffect.ALLOW, frozenset(set(Action) - {Action.SERVE}), Resource.TOPIC, Match.LITERAL, "x" * 255)
    with pytest.raises(InvalidParameter, match="give rules to roles"):
        put(AccessRows(), User("u", (), rules=(rule,) * RULES_MAX))


def test_a_server_stands_in_the_trusted_file_alone() -> None:
    """A server that was broken into may tell of any row. Of one that is another replica too, but that does not count."""
    rows = AccessRows()
    server = User("b2", KEYS[:1], UserKind.SERVER, binding=Binding("c", "broker-b", "b2"))
    with pytest.raises(InvalidParameter, match="trusted file"):
        put(rows, server)
    rows.merge([row_of(server, NOW_MS)])
    assert rows.table().user_of(KEYS[0]) is None
    assert rows.table().server_keys("broker-b", "b2") == ()
    assert rows.table([StaticRow(server)]).user_of(KEYS[0]) == server
