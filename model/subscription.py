"""What a consumer wants of a topic: a tag expression (`a || b`, `*`), matched by hash at the broker, by text at the client."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .tag_hash import java_hash

EVERYTHING = "*"


class MessageModel(enum.Enum):
    """CLUSTERING: the members of a group share the queues. BROADCASTING: each member reads all of them."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic and the tags wanted of it; no tags = everything."""

    topic: str
    expression: str = EVERYTHING
    tags: frozenset[str] = frozenset()

    @staticmethod
    def parse(topic: str, expression: str | None = None) -> Subscription:
        """From "*", None or "" (everything), or "a || b"."""
        text = (expression or EVERYTHING).strip()
        tags = frozenset(part.strip() for part in text.split("||") if part.strip() and part.strip() != EVERYTHING)
        if EVERYTHING in (part.strip() for part in text.split("||")):
            tags = frozenset()
        return Subscription(topic, text, tags)

    def codes(self) -> tuple[int, ...]:
        """The tags' hashes as consume-queue units hold them, sorted; empty = everything."""
        return tuple(sorted({java_hash(tag) for tag in self.tags}))

    def accepts(self, tags: str | None) -> bool:
        """The exact test that a consumer makes (a hash may collide)."""
        return not self.tags or tags in self.tags
