"""A selection of dead letters: by original topic, by tag, by failure. Pure.

A redrive of a selection remembers its progress under a name of its own, made from the selection: the same selection
continues there, and other selections ignore it. All of them skip what a redrive of everything has sent.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...model.properties import TAGS
from .redrive_plan import REDRIVER

if TYPE_CHECKING:
    from .dead_letters import DeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSelection:
    """Letters that fulfil all of these; an empty field selects all. `reason`: a part of it, in any case."""

    topics: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    reason: str = ""

    @property
    def is_everything(self) -> bool:
        """Whether every letter is selected."""
        return not (self.topics or self.tags or self.reason)

    def matches(self, letter: DeadLetter) -> bool:
        """Whether this letter is selected."""
        if self.topics and letter.origin_topic not in self.topics:
            return False
        if self.tags and letter.message.properties.get(TAGS, "") not in self.tags:
            return False
        return self.reason.lower() in letter.reason.lower()

    @property
    def redriver(self) -> str:
        """The group that stores the progress of a redrive of the selection."""
        if self.is_everything:
            return REDRIVER
        facts = json.dumps([sorted(self.topics), sorted(self.tags), self.reason.lower()])
        return f"{REDRIVER}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


EVERY_LETTER = LetterSelection()
