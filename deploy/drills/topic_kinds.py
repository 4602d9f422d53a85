"""The kinds of topics that a drill's load may be sent to, and what each needs. Pure.

plain        a message is a record
batches      queue.type=BatchCQ: a send is a record
compacted    cleanup.policy=COMPACTION, and a log that keeps little: what it no longer has is read from compacted files. Each
             try of each message has a key of its own, so that no message replaces another, and all must be there at the end
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ...model.errors import InvalidParameter
from ...model.route import CLEANUP_ATTRIBUTE, QUEUE_TYPE_ATTRIBUTE

PLAIN: Final = "plain"
BATCHES: Final = "batches"
COMPACTED: Final = "compacted"
TOPIC_KINDS: Final = (PLAIN, BATCHES, COMPACTED)

ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {PLAIN: {}, BATCHES: {QUEUE_TYPE_ATTRIBUTE: "BatchCQ"}, COMPACTED: {CLEANUP_ATTRIBUTE: "COMPACTION"}}
)
SHORT_LOG: Final = (
    "store.segment_bytes=4194304",
    "store.retention_bytes=134217728",
    "store.preallocate_segments=0",
    "store.recycle_segments=0",
    "store.compaction_interval_ms=2000",
)


def check_topic_kind(kind: str) -> None:
    """Raises InvalidParameter."""
    if kind not in TOPIC_KINDS:
        raise InvalidParameter("topics", kind, f"one of {', '.join(TOPIC_KINDS)}")
