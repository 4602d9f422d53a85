"""The selection of dead letters: by original topic, by tag, by failure. Pure.

What a redrive of a selection has sent is remembered under a name of its own, made of what is selected: the same selection
goes on behind it, another one knows nothing of it. What the redrive of everything has sent, none sends again.
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
    """What all of these say; empty = no matter what. `reason`: a part of it, in capitals or not."""

    topics: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    reason: str = ""

    @property
    def is_everything(self) -> bool:
        """Whether every letter is meant."""
        return not (self.topics or self.tags or self.reason)

    def matches(self, letter: DeadLetter) -> bool:
        """Whether this one is meant."""
        if self.topics and letter.origin_topic not in self.topics:
            return False
        if self.tags and letter.message.properties.get(TAGS, "") not in self.tags:
            return False
        return self.reason.lower() in letter.reason.lower()

    @property
    def redriver(self) -> str:
        """The group under which a redrive of the selection remembers how far it came."""
        if self.is_everything:
            return REDRIVER
        facts = json.dumps([sorted(self.topics), sorted(self.tags), self.reason.lower()])
        return f"{REDRIVER}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


EVERY_LETTER = LetterSelection()
