"""What a condition needs of single properties: by hand. That it changes no answer is shown by properties."""

from __future__ import annotations

import pytest

from zenitmq.model.sql92.condition import Condition
from zenitmq.model.sql92.needs import EQUAL, EXACT_MAX, GREATER, LESS, Need

ANY = LESS | EQUAL | GREATER


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("a > 10", [(0, GREATER, 10.0)]),
        ("10 > a", [(0, LESS, 10.0)]),
        ("a >= 1.5", [(0, GREATER | EQUAL, 1.5)]),
        ("a <= -3", [(0, LESS | EQUAL, -3.0)]),
        ("a < 1e300", [(0, LESS, 1e300)]),
        ("a = 'eu'", [(0, EQUAL, b"eu")]),
        ("a <> '\u00fc'", [(0, LESS | GREATER, "\u00fc".encode())]),
        (f"a = {EXACT_MAX}", [(0, EQUAL, float(EXACT_MAX))]),
        (f"a = {EXACT_MAX + 1}", [(0, ANY, b"")]),
        ("a = TRUE", [(0, ANY, b"")]),
        ("a = b", [(0, ANY, b""), (1, ANY, b"")]),
        ("a < b", [(0, ANY, b""), (1, ANY, b"")]),
        ("1 < 2", []),
        ("a BETWEEN 1 AND 2", [(0, GREATER | EQUAL, 1.0), (0, LESS | EQUAL, 2.0)]),
        ("5 BETWEEN a AND b", [(0, ANY, b""), (1, ANY, b"")]),
        ("a IN ('x', 2)", [(0, ANY, b"")]),
        ("a CONTAINS 'x'", [(0, ANY, b"")]),
        ("a", [(0, ANY, b"")]),
        ("TRUE", []),
        ("a IS NULL", []),
        ("a > 1 OR b > 2", []),
        ("NOT a > 1", []),
        ("a > 1 AND (b = 'x' AND (c < 2 OR a = 1)) AND NOT d = 1", [(0, GREATER, 1.0), (1, EQUAL, b"x")]),
    ],
)
def test_needs(text: str, needs: list[Need]) -> None:
    assert sorted(Condition(text).needs, key=repr) == sorted(needs, key=repr)
