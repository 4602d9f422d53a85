"""Requests for the events that servers keep (docs/events.md). Pure.

Each is answered with {"events": [...]}: the events from `since_ms` on, oldest first, at most the newest 1,000; an event is the
document of its line (model/events/event.py).
"""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, on_cluster
from .base import JsonReply, Lane, RequestFor, ServedBy, request


@request(9180, Lane.ADMIN, served_by=ServedBy.ANY_REPLICA, needs=(on_cluster(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetBrokerEvents(RequestFor[JsonReply]):
    """Those of one replica: of this process, and of earlier ones on its store."""

    since_ms: int = 0


@request(9181, Lane.ADMIN, served_by=ServedBy.LEADING_CONTROLLER, needs=(on_cluster(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetGroupEvents(RequestFor[JsonReply]):
    """Those of a replica group, which ZooKeeper holds: elections, in-sync sets, settings, replicas."""

    broker_name: str
    since_ms: int = 0


@request(9182, Lane.ADMIN, served_by=ServedBy.CONTROLLER, needs=(on_cluster(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetControllerEvents(RequestFor[JsonReply]):
    """Those of one controller's process that concern no group."""

    since_ms: int = 0


@request(9183, Lane.ADMIN, served_by=ServedBy.NAME_SERVER, needs=(on_cluster(Action.GET),))
@dataclass(frozen=True, slots=True)
class GetNameServerEvents(RequestFor[JsonReply]):
    """Those of one name server's process."""

    since_ms: int = 0
