"""The places of a SendDelayed's messages: the payload of its reply. Pure.

24 bytes per message, in the order of sending: deliver at 8 (ms since the epoch; -1: at once) | queue offset 8 (-1: not in
its queue yet) | physical offset 8
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from ..model.errors import RemoteProtocolError

NOWHERE: Final = -1

_PLACE: Final = struct.Struct(">qqq")


class Place(NamedTuple):
    """The place of one message; `physical_offset`: of the waiting record, or of the message itself if it does not wait."""

    deliver_at_ms: int
    queue_offset: int
    physical_offset: int


def encode_places(places: Sequence[Place]) -> bytes:
    """Encodes the payload."""
    return b"".join([_PLACE.pack(*place) for place in places])


def decode_places(payload: bytes, count: int) -> list[Place]:
    """Decodes the payload for `count` messages. Raises RemoteProtocolError."""
    if len(payload) != count * _PLACE.size:
        raise RemoteProtocolError(f"{len(payload)} bytes of places for {count} messages")
    return [Place(*fields) for fields in _PLACE.iter_unpack(payload)]
