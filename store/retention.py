"""Decides which segments of the commit log may be deleted; `expiry` deletes them. Pure.

Oldest first, never the one being written: by age (one at a time), by the size of the log, by the disk's use. Never what
a dispatcher has not made durable, and never what a group has yet to consume, unless the operator allows that. What a
reader holds stays too, but only while the disk has room: a lease is no reason to refuse messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .config import StoreConfig

STEP_BYTES: Final = 2 << 30  # deleted at once for the log's size: more than is written in a second


@dataclass(frozen=True, slots=True)
class SegmentAge:
    """One segment: bytes [begin, end) of the log, last written at `modified_ms`."""

    begin: int
    end: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Remove all segments that end at or below `remove_before`.

    `held_by_groups`: more would be deleted, but groups have yet to consume it. `held_by_readers`: more would be deleted, but a
    reader holds it. `needs_persist`: more would be deleted once the
    dispatchers have made it durable.
    """

    remove_before: int
    held_by_groups: bool = False
    held_by_readers: bool = False
    needs_persist: bool = False


def disk_use(used_bytes: int, available_bytes: int) -> float:
    """The used share of a disk, 0 to 1, as `df` shows it: of the space that may be used at all.

    Space that is neither used nor available (reserved, or beyond a quota) does not count: it is no reason to delete messages.
    """
    total_bytes = used_bytes + available_bytes
    return used_bytes / total_bytes if total_bytes else 0.0


def decide(
    segments: Sequence[SegmentAge],
    config: StoreConfig,
    *,
    now_ms: int,
    first_opened_ms: int,
    use: float,
    reflected: int,
    unconsumed_from: int,
    held_from: int,
) -> Decision:
    """`segments`: oldest first, the last one is being written. `use`: of the disk. `reflected`: the lowest of all
    dispatchers. `unconsumed_from`: the lowest physical offset that a group has yet to consume. `held_from`: the lowest one
    that a reader holds; it counts while the disk's use is below the ratio at which the oldest files go whatever their age.

    Age counts from `first_opened_ms` at the earliest, so a store that was taken over keeps all for a whole retention.
    """
    remove_before = segments[0].begin if segments else 0
    log_bytes = segments[-1].end - segments[0].begin if segments else 0
    is_short = use >= config.disk_clean_ratio
    steps = len(segments) if is_short else 1
    for segment in segments[:-1]:
        age_ms = now_ms - max(segment.modified_ms, first_opened_ms)
        is_step_left = is_short or remove_before - segments[0].begin < STEP_BYTES
        is_over_size = config.retention_bytes and log_bytes > config.retention_bytes and is_step_left
        is_forced = use >= config.disk_force_ratio and remove_before == segments[0].begin
        if not (is_over_size or is_forced or (age_ms >= config.retention_ms and steps > 0)):
            break
        if segment.end > reflected:
            return Decision(remove_before, needs_persist=True)
        if segment.end > unconsumed_from and not config.delete_unconsumed:
            return Decision(remove_before, held_by_groups=True)
        if segment.end > held_from and use < config.disk_force_ratio:
            return Decision(remove_before, held_by_readers=True)
        remove_before = segment.end
        log_bytes -= segment.end - segment.begin
        steps -= 1
    return Decision(remove_before)
