"""Every story of the model's counterexamples ends well on the shipped cores, and badly once its rule is taken away."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from sim.ledger import Violation
from sim.mutations import mutated
from sim.scenarios.all_stories import STORIES
from sim.scenarios.table import Story

NAMED = [pytest.param(story, id=f"{story.number}-{story.mutation}") for story in STORIES]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The shells tell of each step; nobody reads it here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("story", NAMED)
def test_story_ends_well(story: Story) -> None:
    story.tell()


@pytest.mark.parametrize("story", NAMED)
def test_story_ends_badly_without_its_rule(story: Story) -> None:
    with mutated(story.mutation), pytest.raises(Violation, match=f"^{story.falls}"):
        story.tell()
