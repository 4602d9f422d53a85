"""The base of requests and replies, and their table: one row per request, declared at its class. Pure.

A row is the arguments of `@request` (code, lane, who serves it, which rights it needs) and the class of the reply, which is
the class's own type parameter: `RemotingClient.call` of a `RequestFor[SendReply]` returns a SendReply, as the type checker
knows. Each server lists its methods for requests (`request_rows`); at its start the list is checked against `served_by`.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable
from typing import ClassVar, Final, Generic, TypeVar

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Right


class Lane(enum.Enum):
    """The class of a request: each has its own queue limit and deadline, so that one cannot starve another."""

    SEND = "send"
    PULL = "pull"
    QUERY = "query"
    ADMIN = "admin"
    HEARTBEAT = "heartbeat"


class ServedBy(enum.Enum):
    """Which server answers a request. Another one refuses: NotMaster, NotEnoughReplicas, BrokerBusy, NotLeadingController."""

    NAME_SERVER = "name server"
    CONTROLLER = "any controller"
    LEADING_CONTROLLER = "leading controller"
    ANY_REPLICA = "any replica"
    MASTER = "master"
    MASTER_IN_SYNC = "master, enough in sync"
    """While at least the group's minimum of replicas is in sync: what the request stores can be acknowledged (rule R8)."""
    MASTER_CONFIRMED = "master, log confirmed"
    """After the log that the master inherited is confirmed: the request reads state derived from it (rule R3)."""
    MASTER_CONFIRMED_IN_SYNC = "master, log confirmed, enough in sync"
    """Both."""
    EVERY_SERVER = "every server"
    """Name servers, controllers and all replicas: each knows users and roles."""
    CLIENT = "client"
    """The client that sent the last heartbeat or registration on that connection: the server pushes the request, one way."""


SERVED_BY_BROKERS: Final = frozenset(
    {
        ServedBy.ANY_REPLICA,
        ServedBy.MASTER,
        ServedBy.MASTER_IN_SYNC,
        ServedBy.MASTER_CONFIRMED,
        ServedBy.MASTER_CONFIRMED_IN_SYNC,
        ServedBy.EVERY_SERVER,
    }
)


class Request:
    """The base of requests. A request class has its fields and the columns of its row."""

    __slots__ = ()

    code: ClassVar[int]
    lane: ClassVar[Lane]
    reply: ClassVar[type[Reply]]
    served_by: ClassVar[ServedBy]
    needs: ClassVar[tuple[Right, ...]]


class Reply:
    """The base of replies; one without fields says "done"."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Done(Reply):
    """The request was carried out; there is no result."""


_Reply_co = TypeVar("_Reply_co", bound=Reply, covariant=True)


class RequestFor(Request, Generic[_Reply_co]):
    """A request that is answered with a `_Reply_co`, or an error."""

    __slots__ = ()


REQUESTS: Final[dict[int, type[Request]]] = {}

_R = TypeVar("_R", bound=type[Request])


def request(code: int, lane: Lane, *, served_by: ServedBy, needs: tuple[Right, ...]) -> Callable[[_R], _R]:
    """The row of a RequestFor[...] in the table; a code is given once.

    `needs` (): no right needed, anybody who can connect may.
    """

    def register(cls: _R) -> _R:
        if code in REQUESTS:
            raise ValueError(f"request code {code} is given twice")
        cls.code, cls.lane, cls.reply, cls.served_by, cls.needs = code, lane, _reply_of(cls), served_by, needs
        REQUESTS[code] = cls
        return cls

    return register


def _reply_of(cls: type[Request]) -> type[Reply]:
    """The type in the brackets of RequestFor[...] among the bases of a request class."""
    for base in vars(cls).get("__orig_bases__", ()):
        if typing.get_origin(base) is RequestFor:
            reply: type[Reply] = typing.get_args(base)[0]
            return reply
    raise TypeError(f"{cls.__name__} does not say what it is a RequestFor")


@dataclass(frozen=True, slots=True)
class JsonReply(Reply):
    """Payload: one JSON document; the request's docstring gives its shape."""
