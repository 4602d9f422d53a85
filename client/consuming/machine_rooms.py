"""Allocations for brokers and members in several machine rooms. Pure.

Broker names and client ids are all that each member knows of the others, so they must tell the room. A
consumer with `room="fra1"` has a client id that ends with "@fra1". For other rules pass a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ...model.errors import InvalidParameter
from ...model.queue import MessageQueue
from .allocation import Allocation, averaging

RoomOf = Callable[[str], str | None]
"""The room of a broker by its name, or of a member by its client id; None = unknown."""

_ROOM: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def check_room(room: str) -> str:
    """Returns it. Raises InvalidParameter if it cannot be the end of a client id."""
    if _ROOM.fullmatch(room) is None:
        raise InvalidParameter("room", room[:80], "letters, digits, '_' and '-' only, 1 to 64 characters")
    return room


def room_of_client(client_id: str) -> str | None:
    """A consumer's room: the third part of address@instance@room."""
    parts = client_id.split("@")
    return parts[2] if len(parts) == 3 and parts[2] else None


def by_machine_room(rooms: Iterable[str], room_of_broker: RoomOf) -> Allocation:
    """Only queues of brokers in these rooms, shared evenly among all members; nobody reads the others.

    For a group all of whose members read the same rooms. The first members take one more each where they do not divide.
    """
    wanted = frozenset(rooms)

    def allocate(client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        ordered = sorted(set(members))
        if client_id not in ordered:
            return []
        inside = sorted(queue for queue in queues if room_of_broker(queue.broker_name) in wanted)
        index, count = ordered.index(client_id), len(ordered)
        share = len(inside) // count
        rest = inside[share * count :]
        return inside[index * share : (index + 1) * share] + rest[index : index + 1]

    allocate.__name__ = "by_machine_room"
    return allocate


def nearby_machine_room(
    room_of_broker: RoomOf, room_of_member: RoomOf = room_of_client, *, within: Allocation = averaging
) -> Allocation:
    """Queues go to members in their broker's room, divided among those by `within`. All members share the queues of a room
    without members, and of an unknown one. A member whose room is unknown shares only those."""

    def allocate(client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        by_room: dict[str | None, list[str]] = {}
        for member in members:
            by_room.setdefault(room_of_member(member), []).append(member)
        by_room.pop(None, None)
        shares: dict[str | None, list[MessageQueue]] = {}
        for queue in queues:
            shares.setdefault(room_of_broker(queue.broker_name), []).append(queue)
        own: list[MessageQueue] = []
        for room, share in shares.items():
            near = by_room.get(room, members)
            if client_id in near:
                own += within(client_id, near, share)
        return own

    allocate.__name__ = "nearby_machine_room"
    return allocate
