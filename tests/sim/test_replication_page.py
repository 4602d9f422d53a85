"""docs/replication.md lists every story and every mutation there is, in the words of the code."""

from __future__ import annotations

from pathlib import Path

from sim.mutations import MUTATIONS
from sim.scenarios.all_stories import STORIES

PAGE = Path(__file__).parents[2] / "docs" / "replication.md"


def rows(columns: int) -> list[list[str]]:
    """The page's tables of so many columns, without heads."""
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in PAGE.read_text().splitlines()]
    return [row for row in cells if len(row) == columns and not set(row[0]) <= {"-"}]


def test_every_story_has_its_row() -> None:
    shown = [tuple(row[:5]) for row in rows(6)[1:]]
    told = [
        (one.number, f"`{one.mutation}`", MUTATIONS[one.mutation].rule, one.tell.__name__.replace("_", " "), one.falls)
        for one in STORIES
    ]
    assert sorted(shown) == sorted(told)


def test_rules_without_a_story_are_named_too() -> None:
    with_story = {one.mutation for one in STORIES}
    for name, mutation in MUTATIONS.items():
        if name not in with_story:
            assert f"`{name}` ({mutation.rule}" in PAGE.read_text(), name
