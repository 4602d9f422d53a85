"""Which kind of wait a record ends: a half message's or a delayed message's. Pure."""

from __future__ import annotations

from typing import Final

from ...model.names import HALF_OP_TOPIC, HALF_TOPIC, UNDECIDED_TOPIC
from ...record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK

TRANSACTION_TOPICS: Final = frozenset({HALF_TOPIC, HALF_OP_TOPIC, UNDECIDED_TOPIC})


def ends_half(topic: str, sys_flag: int) -> bool:
    """True if a record that ends a wait ends a half message's, not a delayed message's. `topic`, `sys_flag`: of that
    record.

    Only a committed message has the commit bits; the copy of a delayed message has no transaction bits.
    """
    return topic in TRANSACTION_TOPICS or sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
