"""Topics and groups of a soak, and who must handle what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from .message_account import Rules, groups_by_topic

WORK, ORDERED, LATER, ASKED, STREAM, COPIED = "work", "ordered", "later", "asked", "stream", "copied"
PASSING_PREFIX: Final = "passing-"
PASSING_GROUP: Final = "passers"

QUEUES: Final[Mapping[str, int]] = {WORK: 8, ORDERED: 4, LATER: 4, ASKED: 2, STREAM: 4, COPIED: 4}
PUSH_GROUP, PULL_GROUP, AIO_GROUP = "pushers", "pullers", "aio-members"
ORDERED_GROUP, LATER_GROUP, ANSWER_GROUP, COPIED_GROUP = "in-order", "later-readers", "answerers", "copy-readers"
GROUPS: Final[Mapping[str, Sequence[str]]] = {
    WORK: (PUSH_GROUP, PULL_GROUP, AIO_GROUP),
    ORDERED: (ORDERED_GROUP,),
    LATER: (LATER_GROUP,),
    STREAM: (COPIED_GROUP,),
}
ONCE: Final = "once"


def copies(*, stream: bool) -> str:
    """What the readers of copies read: what the streaming query wrote; without one, what it would have read."""
    return COPIED if stream else STREAM


def rules(*, stream: bool) -> Rules:
    """What the account holds a soak to."""
    return Rules(
        groups_of=groups_by_topic(GROUPS, passing=(PASSING_PREFIX, PASSING_GROUP)),
        ordered=frozenset({ORDERED_GROUP}),
        once=ONCE,
        copied_to=frozenset({COPIED_GROUP} if stream else ()),
    )
