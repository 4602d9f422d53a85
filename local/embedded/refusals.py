"""What the embedded engine cannot do, by request. Pure; docs/guide/in-process.md has the same rows, and tests hold both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ...model.errors import EngineLacks, UnknownRequest, ZenitError
from ...model.route import TYPE_ATTRIBUTE, TYPES
from ...model.topics.light_queues import lite_topic_of
from ...remoting import commands
from ...remoting.commands import Request


class Lack(NamedTuple):
    """`requests`: which ask for it; `instead`: what to do."""

    what: str
    instead: str
    requests: tuple[type[Request], ...]


LITE_TOPICS: Final = "lite topics"
PLAIN_TYPES: Final = frozenset({"NORMAL", "FIFO", "PRIORITY", "MIXED", "UNSPECIFIED"})
"""Kinds of topics that need nothing of their own."""
OTHER_QUEUES: Final = frozenset({("queue.type", "BatchCQ"), ("cleanup.policy", "COMPACTION")})
"""What makes a topic keep its messages in another way."""
ANOTHER: Final = "use memory://, local:/// or a cluster"

LACKS: Final = (
    Lack(
        "delayed messages",
        ANOTHER,
        (commands.SendDelayed, commands.SendDelayedSequenced, commands.RecallMessage),
    ),
    Lack(
        "transactions",
        ANOTHER,
        (
            commands.SendHalves,
            commands.EndTransactions,
            commands.DecideTransactions,
            commands.GetTransactions,
        ),
    ),
    Lack(
        "idempotent producers",
        f"{ANOTHER}; here a send fails only if it stored nothing, so a plain producer stores nothing twice",
        (commands.SendSequenced,),
    ),
    Lack(
        "queries by key, message id or time",
        f"{ANOTHER}; here read the queues: PullConsumer(None).assign(...)",
        (commands.QueryMessages,),
    ),
    Lack("compacted topics", ANOTHER, (commands.CompactTopic,)),
    Lack(
        LITE_TOPICS,
        ANOTHER,
        (
            commands.PopLite,
            commands.SubscribeLite,
            commands.SuspendLite,
            commands.GetLightQueues,
            commands.GetLiteTopics,
            commands.GetLiteGroup,
        ),
    ),
    Lack(
        "readers of Spark",
        "use a cluster: the tasks of Spark are other programs",
        (
            commands.HoldMessages,
            commands.RenewHold,
            commands.ReleaseHold,
            commands.KeepQueryOffsets,
            commands.GetQueryOffsets,
            commands.DropQueryOffsets,
            commands.GetQueries,
        ),
    ),
)

ENGINE: Final = "embedded://"
_BY_REQUEST: Final = {request: lack for lack in LACKS for request in lack.requests}


def check_attributes(attributes: Iterable[tuple[str, str]]) -> None:
    """Raises EngineLacks for a topic of another kind than the engine knows."""
    for name, value in attributes:
        if (name, value) == (TYPE_ATTRIBUTE, "LITE"):
            raise EngineLacks(ENGINE, LITE_TOPICS, ANOTHER)
        is_of_another_kind = name == TYPE_ATTRIBUTE and value in TYPES and value not in PLAIN_TYPES
        if is_of_another_kind or (name, value) in OTHER_QUEUES:
            raise EngineLacks(ENGINE, f"topics with {name}={value}", ANOTHER)


def refuse_light(name: str) -> int:
    """Instead of the offset in a light queue: raises EngineLacks."""
    what = f"light queues, as {name}" if lite_topic_of(name) is None else LITE_TOPICS
    raise EngineLacks(ENGINE, what, ANOTHER)


def refusal(request: Request) -> ZenitError:
    """Why the engine does not answer it."""
    lack = _BY_REQUEST.get(type(request))
    return UnknownRequest(request.code) if lack is None else EngineLacks(ENGINE, lack.what, lack.instead)
