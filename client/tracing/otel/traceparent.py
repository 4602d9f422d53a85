"""The property `traceparent` of a message: the context of the span that created it, as W3C's Trace Context writes it. Pure.

    00-{trace id, 32 hex digits}-{span id, 16}-{flags, 2}

Only messages that are sampled have it, so its flags end in 1. Whatever else stands there is no context.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ....model.properties import encode_properties

TRACEPARENT: Final = "traceparent"
LINKS_MAX: Final = 128

_TEXT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII)
_IN_RECORDS: Final = re.compile(rb"traceparent\x0100-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_HAS_OWN: Final = re.compile(rb"(?:^|\x02)traceparent\x01")

Ids = tuple[int, int]
"""Of a trace, and of a span in it."""


def encoded_traceparent(trace_id: int, span_id: int) -> bytes:
    """The property of a sampled message, as records hold properties."""
    return encode_properties({TRACEPARENT: f"00-{trace_id:032x}-{span_id:016x}-01"})


def has_traceparent(properties: bytes) -> bool:
    """Whether encoded properties have one already: its sender's own, which stays."""
    return bool(properties) and _HAS_OWN.search(properties) is not None


def ids_of(text: str | None) -> Ids | None:
    """The ids in a message's property; None for anything else: no sampled context, or another's bytes."""
    found = _TEXT.fullmatch(text) if text is not None else None
    if found is None or not int(found[3], 16) & 1:
        return None
    trace_id, span_id = int(found[1], 16), int(found[2], 16)
    return (trace_id, span_id) if trace_id and span_id else None


def ids_in_records(records: bytes | memoryview) -> Iterator[Ids]:
    """The contexts of encoded records, each once, at most LINKS_MAX; those in a compressed batch are not found."""
    seen: dict[Ids, None] = {}
    for found in _IN_RECORDS.finditer(records):
        ids = int(found[1], 16), int(found[2], 16)
        if all(ids) and ids not in seen:
            seen[ids] = None
            yield ids
            if len(seen) == LINKS_MAX:
                return
