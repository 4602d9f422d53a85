"""Events of a store that an operator should see. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """`kind`: segment_deleted, unconsumed_deleted, unconsumed_held, held_deleted, held_for_readers, disk_full, disk_ok."""

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"
