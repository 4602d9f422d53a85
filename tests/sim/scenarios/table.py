"""The stories by name: what the model told, what rule is gone in it, and which invariant falls then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Story:
    """`number`: in the model's counterexamples. `falls`: how the Violation begins once the rule is gone."""

    number: str
    mutation: str
    falls: str
    tell: Callable[[], None]


STORIES: Final[list[Story]] = []


def story(number: str, *, without: str, falls: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Adds a story to the table."""

    def add(tell: Callable[[], None]) -> Callable[[], None]:
        STORIES.append(Story(number, without, falls, tell))
        return tell

    return add
