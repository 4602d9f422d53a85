"""What the second load found, judged by the time in which nothing could be written. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..ledger import Numbers
from .pop_book import ASK_MS, LATE_MS

PAUSE_NS: Final = 200_000_000
"""Acknowledgements of the first load that are further apart: nothing could be written in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAccount:
    """`transfers`: that were committed; `popped`: messages that were acknowledged; `popped_again`: how often one came again.
    `pop_late_ms_max`: how late, outages included."""

    transfers: int = 0
    popped: int = 0
    popped_again: int = 0
    pop_late_ms_max: int = 0


def account_of(found: Mapping[str, Any]) -> DeliveryAccount:
    """The counts of what the process reported."""
    return DeliveryAccount(**{name: found[name] for name in DeliveryAccount.__dataclass_fields__})


def late_messages(found: Mapping[str, Any], times_ns: Mapping[str, Numbers]) -> list[str]:
    """Messages that came again too late, as text. `times_ns`: of the first load's acknowledgements, by replica group."""
    late = []
    for again in found["again"]:
        broker_name, due_ms, received_ms = again["place"][0], again["due_ms"], again["received_ms"]
        paused_ms = paused(times_ns[broker_name], due_ms, received_ms)
        over_ms = received_ms - due_ms - paused_ms - LATE_MS - ASK_MS
        if over_ms > 0:
            late.append(f"{again['place']} came again {over_ms} ms too late, in spite of {paused_ms} ms without writes")
    return late


def paused(times_ns: Numbers, begin_ms: int, end_ms: int) -> int:
    """How long within [begin, end] nothing was acknowledged, in ms: the sum of all pauses. `times_ns`: sorted."""
    begin, end = np.uint64(begin_ms * 1_000_000), np.uint64(end_ms * 1_000_000)
    first, last = np.searchsorted(times_ns, begin), np.searchsorted(times_ns, end)
    edges = np.concatenate((np.array([begin]), times_ns[first:last], np.array([end])))
    gaps = np.diff(edges.astype(np.int64))
    return int(gaps[gaps > PAUSE_NS].sum()) // 1_000_000
