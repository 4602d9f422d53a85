"""The right that a request needs: an action, and what it is done to. Pure.

The nouns are those of RocketMQ's ACL 2.0 (Pub, Sub, Create, Update, Delete, Get, List on Cluster, Topic, Group), and four of
ours: `query` for what Spark keeps of its queries, `security` for users, roles and policies, `gateway` for checking the
signatures of those who come through a gateway, `replica` for what servers are.
"""

from __future__ import annotations

import enum
from typing import Final

from ..plain_dataclass import dataclass


class Action(enum.Enum):
    """What is done to a resource."""

    PUB = "pub"
    SUB = "sub"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    GET = "get"
    """See its settings, positions and counters, but no messages."""
    LIST = "list"
    """See that it exists, among others."""
    SERVE = "serve"
    """Take part as a name server, broker or controller. No policy gives it: servers have it."""

    __hash__ = object.__hash__  # Enum's own is a Python call, and each check of a right hashes


class Resource(enum.Enum):
    """The kinds of things on which rights are given."""

    CLUSTER = "cluster"
    """The whole cluster."""
    TOPIC = "topic"
    GROUP = "group"
    QUERY = "query"
    SECURITY = "security"
    GATEWAY = "gateway"
    """To come for others, whose signatures the servers check."""
    REPLICA = "replica"
    """A replica, as "broker name/its name", or a whole group, as "broker name": the server must be it. No policy names it."""

    __hash__ = object.__hash__


LISTED: Final = "*"
"""As a right's field: each thing that the answer tells. The handler leaves out what the sender may not see."""


@dataclass(frozen=True, slots=True)
class Right:
    """`field`: the field of the request that names the resource; if it is a tuple, each element, or the first item of each
    element. "" for the cluster and its security, of which there is only one, and for the replica group of the server that is
    asked. `replica_field`: names the replica of a group; "" = any of it. `is_optional`: a request that names
    none needs no right on it.
    """

    action: Action
    resource: Resource
    field: str
    replica_field: str = ""
    is_optional: bool = False

    def __str__(self) -> str:
        if self.field == LISTED:
            return f"{self.action.value}: each {self.resource.value}"
        return f"{self.action.value}: {self.field or self.resource.value}"


def on_topic(action: Action, field: str = "topic") -> Right:
    """On the topic, or topics, named by `field`."""
    return Right(action, Resource.TOPIC, field)


def on_group(action: Action, field: str = "group", *, is_optional: bool = False) -> Right:
    """On the group, or groups, named by `field`; see `Right.is_optional`."""
    return Right(action, Resource.GROUP, field, is_optional=is_optional)


def listed(resource: Resource) -> Right:
    """On each thing that the answer tells: who asks is not refused, and sees what it may."""
    return Right(Action.LIST, resource, LISTED)


def on_query(action: Action) -> Right:
    """On the stored offsets of the query that the request names."""
    return Right(action, Resource.QUERY, "query")


def on_cluster(action: Action) -> Right:
    """On the cluster."""
    return Right(action, Resource.CLUSTER, "")


def on_security(action: Action) -> Right:
    """On users, roles and policies."""
    return Right(action, Resource.SECURITY, "")


def as_gateway() -> Right:
    """To come for clients that have a name and a secret."""
    return Right(Action.PUB, Resource.GATEWAY, "")


def as_replica(group_field: str = "broker_name", replica_field: str = "") -> Right:
    """The sender is a server of the replica group that `group_field` names ("": the group of the server that is asked), and the
    replica that `replica_field` names ("": any of it)."""
    return Right(Action.SERVE, Resource.REPLICA, group_field, replica_field)
