"""The right that a request needs: an action, and the topic, group or query that it concerns. Pure.

No server asks for rights yet; docs/formats/remoting.md lists them.
"""

from __future__ import annotations

import enum

from ...model.plain_dataclass import dataclass


class Action(enum.Enum):
    """What a client may do with a resource."""

    SEND = "send"
    RECEIVE = "receive"
    DESCRIBE = "describe"
    """See its settings, positions and counters, but no messages."""
    CHANGE = "change"
    """Create it, delete it, change its settings, move it."""
    SERVE = "serve"
    """Take part as a broker, replica or controller."""


class Resource(enum.Enum):
    """The kinds of things on which rights are given."""

    TOPIC = "topic"
    GROUP = "group"
    QUERY = "query"
    CLUSTER = "cluster"
    """The whole cluster, and so everything in it."""


@dataclass(frozen=True, slots=True)
class Right:
    """`field`: the field of the request that names the resource; if it is a tuple, each element, or the first item of each
    element. "" for the cluster, of which there is only one.
    """

    action: Action
    resource: Resource
    field: str

    def __str__(self) -> str:
        return f"{self.action.value}: {self.field or self.resource.value}"


def on_topic(action: Action, field: str = "topic") -> Right:
    """On the topic, or topics, named by `field`."""
    return Right(action, Resource.TOPIC, field)


def on_group(action: Action, field: str = "group") -> Right:
    """On the group, or groups, named by `field`."""
    return Right(action, Resource.GROUP, field)


def on_query(action: Action) -> Right:
    """On the stored offsets of the query that the request names."""
    return Right(action, Resource.QUERY, "query")


def on_cluster(action: Action) -> Right:
    """On the cluster."""
    return Right(action, Resource.CLUSTER, "")
