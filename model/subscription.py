"""A consumer's subscription to a topic: a tag expression (`a || b`, `*`), or an SQL92 condition on its messages' properties.

Tags are matched by hash at the broker and by text at the client; a condition is evaluated at the broker alone. Pure.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .errors import InvalidParameter
from .names import check_topic
from .sql92.parser import parse
from .tag_hash import java_hash
from .topics.light_queues import is_light_queue

EVERYTHING = "*"
TAG_EXPRESSION_LENGTH_MAX: Final = 16_384
TAGS_MAX: Final = 4_096
_NOT_IN_TAGS: Final = re.compile(r"[\x00-\x02\ud800-\udfff]")


class MessageModel(enum.Enum):
    """CLUSTERING: the members of a group share the queues. BROADCASTING: each member reads all of them. POPPING: the broker
    hands out single messages to members (SimpleConsumer); such a group has no members of another kind."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"
    POPPING = "POPPING"


CLUSTERING: Final = MessageModel.CLUSTERING
BROADCASTING: Final = MessageModel.BROADCASTING
POPPING: Final = MessageModel.POPPING


class ExpressionKind(enum.Enum):
    """The kinds of expressions (RocketMQ's names)."""

    TAG = "TAG"
    SQL92 = "SQL92"


@dataclass(frozen=True, slots=True)
class Sql:
    """An SQL92 condition on properties, such as `amount > 10 AND region = 'eu'`. Raises SqlSyntaxError for an invalid one."""

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidParameter("condition", type(self.text).__name__, 'a text, such as "amount > 10"')
        parse(self.text)


Expression = str | Sql | None
"""A user's expression: tags, a condition, or None for everything."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic and the wanted messages. TAG without `tags` = everything; SQL92: `expression` is the condition."""

    topic: str
    expression: str = EVERYTHING
    tags: frozenset[str] = frozenset()
    kind: ExpressionKind = ExpressionKind.TAG

    @staticmethod
    def parse(topic: str, expression: Expression = None) -> Subscription:
        """From "*", None or "" (everything), "a || b", or Sql("..."). Raises InvalidParameter, for "||" too."""
        if isinstance(expression, Sql):
            return Subscription(topic, expression.text, kind=ExpressionKind.SQL92)
        if not isinstance(expression, str | None):
            raise InvalidParameter("expression", type(expression).__name__, 'a text, as "buy || sell", or Sql("...")')
        text = (expression or "").strip() or EVERYTHING
        if len(text) > TAG_EXPRESSION_LENGTH_MAX or _NOT_IN_TAGS.search(text):
            rule = f"at most {TAG_EXPRESSION_LENGTH_MAX} characters, none of them 0, 1, 2 or half of a pair"
            raise InvalidParameter("tags", ascii(text[:64]), rule)
        parts = {part.strip() for part in text.split("||")}
        tags = frozenset() if EVERYTHING in parts else frozenset(parts - {""})
        if not tags and EVERYTHING not in parts:
            raise InvalidParameter("tags", text[:64], "tags, as 'a || b', or * for all")
        if len(tags) > TAGS_MAX:
            raise InvalidParameter("tags", f"{len(tags)} different ones", f"at most {TAGS_MAX}")
        return Subscription(topic, text, tags)

    def wire(self) -> tuple[str, str, str]:
        """(topic, kind, expression), as in heartbeats."""
        return self.topic, self.kind.value, self.expression

    @property
    def sql(self) -> str:
        """The condition that the broker evaluates; "" for tags."""
        return self.expression if self.kind is ExpressionKind.SQL92 else ""

    def codes(self) -> tuple[int, ...]:
        """The tags' hashes as in consume-queue units, sorted; empty = everything."""
        return tuple(sorted({java_hash(tag) for tag in self.tags}))

    def accepts(self, tags: str | None) -> bool:
        """The exact test of tags by the consumer (hashes may collide); conditions are tested by the broker only."""
        return not self.tags or tags in self.tags


def subscriptions_of(topics: str | Sequence[str], expression: Expression) -> list[Subscription]:
    """One subscription a topic, all with the same expression. Raises InvalidName, InvalidParameter."""
    if not isinstance(topics, (str, Sequence)) or isinstance(topics, bytes) or not topics:
        raise InvalidParameter("topic", str(topics)[:160], "a topic, or a sequence of topics")
    listed = [topics] if isinstance(topics, str) else list(topics)
    for topic in listed:
        if isinstance(topic, str) and is_light_queue(topic):
            raise InvalidParameter("topic", topic, "a topic; a light queue is read with PullConsumer.assign(queues)")
    return [Subscription.parse(check_topic(topic), expression) for topic in dict.fromkeys(listed)]
