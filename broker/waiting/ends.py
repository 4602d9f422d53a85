"""Which kind of wait a record ends. Pure."""

from __future__ import annotations

from typing import Final

from ...model.names import HALF_OP_TOPIC, HALF_TOPIC, UNDECIDED_TOPIC
from ...record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK

TRANSACTION_TOPICS: Final = frozenset({HALF_TOPIC, HALF_OP_TOPIC, UNDECIDED_TOPIC})


def ends_half(topic: str, sys_flag: int) -> bool:
    """Whether what ends a wait ends that of a half message, not of a delayed one. `topic`, `sys_flag`: of the record that ends
    it. A committed message alone has the bits of a commit: what a delayed one becomes has none of a transaction's."""
    return topic in TRANSACTION_TOPICS or sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
