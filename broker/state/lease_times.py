"""When leases end: slots of 50 ms, each with the check points that are looked at then. Pure; loop thread.

Adding and removing take constant time. An entry that was removed stays in its slot's list until half of the list is such
entries, so what is acknowledged at once takes no memory until its lease would be over. A slot's time is at or after that of its
entries: nothing ends early.
"""

from __future__ import annotations

from typing import Final

from .pop_queue import PopCheckpoint

SLOT_MS: Final = 50
_STEPS_MAX: Final = 1000


class Slot:
    """`number`: it begins at `number * SLOT_MS`. `entries`: those whose `slot` is another one are gone."""

    __slots__ = ("entries", "gone", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.entries: list[PopCheckpoint] = []
        self.gone = 0


class LeaseTimes:
    """Check points by the time at which somebody is to look at them; times are monotonic."""

    __slots__ = ("_next", "_slots")

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}
        self._next = 0  # all slots before are past

    def add(self, checkpoint: PopCheckpoint, at_ms: int) -> None:
        """Looked at from then on; one that is past is looked at in the next slot."""
        number = max(self._next, -(-at_ms // SLOT_MS))
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = Slot(number)
        checkpoint.slot = slot
        slot.entries.append(checkpoint)

    def has(self, slot: Slot) -> bool:
        """It is one of these."""
        return self._slots.get(slot.number) is slot

    def remove(self, slot: Slot) -> None:
        """One of the slot's entries is gone: its `slot` is another one, or None."""
        slot.gone += 1
        if 2 * slot.gone > len(slot.entries):
            slot.entries = [one for one in slot.entries if one.slot is slot]
            slot.gone = 0
            if not slot.entries:
                del self._slots[slot.number]

    def take(self, now_ms: int, count_max: int) -> list[tuple[PopCheckpoint, int]]:
        """Removes those whose time has come, the earliest slot first; with the time of their slot."""
        taken: list[tuple[PopCheckpoint, int]] = []
        last = now_ms // SLOT_MS
        if last - self._next > _STEPS_MAX:  # after a start, or where nobody looked for long
            self._next = max(self._next, min(last, min(self._slots, default=last)))
        while self._next <= last:
            slot = self._slots.get(self._next)
            if slot is not None:
                while slot.entries:
                    if len(taken) >= count_max:
                        return taken
                    one = slot.entries.pop()
                    if one.slot is slot:
                        one.slot = None
                        taken.append((one, slot.number * SLOT_MS))
                    else:
                        slot.gone -= 1
                del self._slots[self._next]
            self._next += 1
        return taken
