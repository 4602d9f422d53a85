"""What `zenit dlq redrive` tells a person."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.cli.commands.messages.dlq import sentence

NOTHING = {"dry_run": False, "letters": 0, "redriven": 0, "passed_over": 0, "topics": {}}


@pytest.mark.parametrize(
    ("summary", "text"),
    [
        ({}, "0 of 0 letters sent again"),
        (
            {"letters": 3, "redriven": 2, "topics": {"a": 1, "b": 1}},
            "2 of 3 letters sent again: 1 to a, 1 to b",
        ),
        ({"dry_run": True, "letters": 3, "topics": {"a": 3}}, "3 letters would be sent again: 3 to a"),
        (
            {"letters": 1, "redriven": 1, "topics": {"a": 1}, "passed_over": 4},
            "1 of 1 letters sent again: 1 to a; 4 before --since count as done from now on (--again brings them back)",
        ),
    ],
)
def test_sentence(summary: dict[str, Any], text: str) -> None:
    assert sentence({**NOTHING, **summary}) == text
