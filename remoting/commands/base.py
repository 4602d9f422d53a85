"""What a request and a reply are, and the table of them. Pure."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar


class Lane(enum.Enum):
    """The class of a request: each keeps its own queue limit and deadline, so that one cannot starve another."""

    SEND = "send"
    PULL = "pull"
    QUERY = "query"
    ADMIN = "admin"
    HEARTBEAT = "heartbeat"


class Request:
    """Root of requests. `code`, `lane` and `reply` (the class of the answer) are the table's columns."""

    __slots__ = ()

    code: ClassVar[int]
    lane: ClassVar[Lane]
    reply: ClassVar[type[Reply]]


class Reply:
    """Root of replies; an empty one says "done"."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Done(Reply):
    """The request was carried out; there is nothing to tell."""


REQUESTS: Final[dict[int, type[Request]]] = {}

_R = TypeVar("_R", bound=type[Request])


def request(code: int, lane: Lane, reply: type[Reply] = Done) -> Callable[[_R], _R]:
    """Registers a request class in the table; a code is given once."""

    def register(cls: _R) -> _R:
        if code in REQUESTS:
            raise ValueError(f"request code {code} is given twice")
        cls.code, cls.lane, cls.reply = code, lane, reply
        REQUESTS[code] = cls
        return cls

    return register


@dataclass(frozen=True, slots=True)
class JsonReply(Reply):
    """Payload: one JSON document; its shape is the request's, given in its docstring."""
