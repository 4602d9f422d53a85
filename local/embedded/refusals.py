"""What the embedded engine cannot do, by request. Pure; docs/guide/in-process.md has the same rows, and tests hold both."""

from __future__ import annotations

from typing import Final, NamedTuple

from ...model.errors import EngineLacks, UnknownRequest, ZenitError
from ...remoting import commands
from ...remoting.commands import Request


class Lack(NamedTuple):
    """`requests`: which ask for it; `instead`: what to do."""

    what: str
    instead: str
    requests: tuple[type[Request], ...]


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

_BY_REQUEST: Final = {request: lack for lack in LACKS for request in lack.requests}


def refusal(engine: str, request: Request) -> ZenitError:
    """Why the engine does not answer it."""
    lack = _BY_REQUEST.get(type(request))
    return UnknownRequest(request.code) if lack is None else EngineLacks(engine, lack.what, lack.instead)
