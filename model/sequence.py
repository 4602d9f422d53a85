"""A producer's sequence in one queue, by which a repeated message is recognized. Pure.

A *producer id* names one sender; its messages to each queue have *sequences*, numbers that only grow. A record has its
sequence in a property of fixed size, which its sender leaves blank and the broker fills in:

    PSEQ 0x01 | producer id | ":" | sequence, 16 hexadecimal digits | 0x02

Sequences count from 0 without a gap. A producer may say that its sequences have *gaps*: they grow from request to request,
and are consecutive within one.
"""

from __future__ import annotations

import re
from typing import Final

from .errors import InvalidParameter
from .properties import SEQUENCE

PRODUCER_ID_LENGTH_MAX: Final = 96
SEQUENCE_MAX: Final = (1 << 63) - 1
DIGITS: Final = 16
NO_SEQUENCE: Final = -1
"""The value before a producer's first sequence."""

_PRODUCER_ID: Final = re.compile(rf"[A-Za-z0-9_./-]{{1,{PRODUCER_ID_LENGTH_MAX}}}", re.ASCII)


def check_producer_id(producer_id: str) -> str:
    """Returns the id; raises InvalidParameter for an invalid one."""
    if _PRODUCER_ID.fullmatch(producer_id) is None:
        raise InvalidParameter(
            "producer id", producer_id[:128], f"1 to {PRODUCER_ID_LENGTH_MAX} of letters, digits and _ . / -"
        )
    return producer_id


def check_sequences(first: int, count: int) -> None:
    """Raises InvalidParameter if `first` to `first` + `count` - 1 are not valid sequences."""
    if first < 0 or count < 1 or first > SEQUENCE_MAX - count:
        raise InvalidParameter("first_sequence", first, f"0 to {SEQUENCE_MAX} - count, for at least one message")


def sequence_room(producer_id_length: int) -> bytes:
    """The blank property for an id of so many characters: part of a record's encoded properties."""
    return f"{SEQUENCE}\x01{'0' * producer_id_length}:{'0' * DIGITS}\x02".encode()
