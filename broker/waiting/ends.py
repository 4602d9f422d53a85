"""Which kind of wait a record ends: a half message's, a delayed message's, or a popped message's lease. Pure."""

from __future__ import annotations

from typing import Final

from ...model.names import HALF_OP_TOPIC, HALF_TOPIC, UNDECIDED_TOPIC
from ...record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK

TRANSACTION_TOPICS: Final = frozenset({HALF_TOPIC, HALF_OP_TOPIC, UNDECIDED_TOPIC})

LEASE: Final = 1 << 61
"""In the place of the physical offset of the record whose wait is ended: what a dead letter ends is a lease, which its
property POP_LEASE names. No record is there."""


def ends_half(topic: str, sys_flag: int) -> bool:
    """True if a record that ends a wait ends a half message's, not a delayed message's. `topic`, `sys_flag`: of that
    record.

    Only a committed message has the commit bits; the copy of a delayed message has no transaction bits.
    """
    return topic in TRANSACTION_TOPICS or sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT


def ends_delay(topic: str, sys_flag: int, offset: int) -> bool:
    """True if it ends a delayed message's. `offset`: of the record whose wait it says that it ends."""
    return offset != LEASE and not ends_half(topic, sys_flag)
