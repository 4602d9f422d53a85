"""Which tables and columns an SQL text may mean, and which texts are no queries."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import InvalidParameter
from zenitmq.pipeline.reports.sql_words import columns_named, quoted, sql_reason, sql_words, tables_named, unique_names

TOPICS = ("orders", "Trades", "%DLQ%g", "o`dd", "TRADES2")
COLUMNS = ("topic", "queueId", "queueOffset", "tags", "body", "storeTimestamp")


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT * FROM orders", ["orders"]),
        ("select * from trades t join orders o on t.keys = o.keys", ["Trades", "orders"]),
        ("SELECT * FROM `%DLQ%g`", ["%DLQ%g"]),
        ("SELECT * FROM `o``dd`", ["o`dd"]),
        ("SELECT 'orders', \"Trades\" -- orders\n /* orders\n*/ FROM x", []),
        ("SELECT 'it\\'s orders' FROM x", []),
        ("WITH o AS (SELECT * FROM orders) SELECT * FROM o", ["orders"]),
        ("(SELECT 1 FROM orders)", ["orders"]),
        ("FROM orders SELECT count(*)", ["orders"]),
    ],
)
def test_tables_that_are_named(query: str, tables: list[str]) -> None:
    assert tables_named(sql_words(query), TOPICS) == tables


def test_names_that_differ_in_case_only_cannot_both_be_meant() -> None:
    both = ("a", "A")
    assert tables_named(sql_words("SELECT 1 FROM A"), both) == ["A"]
    for query in ("SELECT 1 FROM a, A", "SELECT 1 FROM aB, b"):
        with pytest.raises(InvalidParameter, match="case"):
            tables_named(sql_words(query), (*both, "AB", "Ab"))


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT * FROM orders", COLUMNS),
        ("SELECT o.* FROM orders o", COLUMNS),
        ("SELECT queueid * 2 FROM orders", COLUMNS),
        ("SELECT count(*) FROM orders", ("topic",)),
        ("SELECT COUNT ( * ) FROM orders WHERE tags = 'a'", ("tags",)),
        ("SELECT `body`, QUEUEOFFSET FROM orders", ("queueOffset", "body")),
        ("SELECT sum(*) FROM orders", COLUMNS),
        ("TABLE orders", COLUMNS),
        ("SELECT topic FROM orders NATURAL JOIN trades", COLUMNS),
        ("DESCRIBE orders", COLUMNS),
        ("SELECT '*', \"*\", topic FROM orders", ("topic",)),
    ],
)
def test_columns_that_are_needed(query: str, columns: tuple[str, ...]) -> None:
    assert columns_named(sql_words(query), COLUMNS) == columns


@pytest.mark.parametrize(
    "query",
    [
        "",
        "  -- nothing",
        "INSERT INTO orders SELECT 1",
        "WITH a AS (SELECT 1) INSERT INTO orders SELECT * FROM a",
        "DROP TABLE orders",
        "'select'",
        "`select` 1",
        "; SELECT 1",
        "SELECT " + "1" * (1 << 20),
    ],
)
def test_what_does_not_read_is_refused(query: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        sql_words(query)
    assert len(str(refused.value)) < 300


def test_any_name_can_be_quoted() -> None:
    assert quoted("o`dd") == "`o``dd`"


def test_columns_of_one_name_are_told_apart() -> None:
    assert unique_names(["a", "b", "a", "a", "a_2"]) == ["a", "b", "a_2", "a_3", "a_2_2"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'. SQLSTATE: 42601 (line 1, pos 9)\n\n== SQL ==\nSELECT",
            "[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'. SQLSTATE: 42601 (line 1, pos 9)",
        ),
        ("[COLUMN] no `a`. SQLSTATE: 1; line 1 pos 7;\n'Project", "[COLUMN] no `a`. SQLSTATE: 1; line 1 pos 7"),
        ("[TABLE] no `a`.\nVerify. SQLSTATE: 1; line 2 pos 14;\n'Project", "[TABLE] no `a`. (line 2, pos 14)"),
        ("boom", "boom"),
        ("", "failed"),
    ],
)
def test_the_reason_is_one_line_with_its_place(text: str, reason: str) -> None:
    assert sql_reason(text) == reason
