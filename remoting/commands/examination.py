"""The request that has a server examine itself. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, on_cluster
from .base import JsonReply, Lane, Reply, RequestFor, ServedBy, request


@dataclass(frozen=True, slots=True)
class TimeReply(Reply):
    """The server's clock, in ms since the epoch."""

    now_ms: int


@request(9201, Lane.ADMIN, served_by=ServedBy.EVERY_SERVER, needs=(on_cluster(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetServerTime(RequestFor[TimeReply]):
    """Answered at once: its sender compares the clocks."""


@request(9200, Lane.ADMIN, served_by=ServedBy.EVERY_SERVER, needs=(on_cluster(Action.GET),))
@dataclass(frozen=True, slots=True)
class ExamineServer(RequestFor[JsonReply]):
    """Answered with {"role", "node", "version", "python", "pid", "now_ms", "findings": [{severity, check, text, remedy}]}: its
    machine, and whether it reaches those whom it has to reach. It takes up to about two seconds, in a thread of its own.
    """
