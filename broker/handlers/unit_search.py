"""Searches the record of a message whose unit in its queue points to another record. A worker searches, the loop corrects."""

from __future__ import annotations

from ...model.errors import BrokerBusy, OffsetOutOfRange
from ...store.integrity.queue_check import MisplacedUnit
from ...store.message_store import MessageStore
from ...store.queues.queue_engine import WrongUnit

SEARCH_MS = 100  # a request in the meantime is repeated after this time

Found = tuple[WrongUnit | None, list[tuple[int, int]]]
"""(where the record is, the damage in the place where it should be)."""


class UnitSearch:
    """The search for the record of one unit."""

    def __init__(self, store: MessageStore, misplaced: MisplacedUnit) -> None:
        self._store = store
        self._misplaced = misplaced

    def search(self) -> Found:
        """Worker thread. Raises BrokerBusy if the search is impossible now."""
        units = self._store.damaged_units
        try:
            found = units.find(self._misplaced)
            return found, [] if found is not None else self._store.damaged_in([units.span(self._misplaced)])
        except (OffsetOutOfRange, OSError) as error:
            raise BrokerBusy(SEARCH_MS, f"a damaged unit of a queue cannot be looked up: {error}") from error

    def settle(self, found: Found) -> None:
        """Corrects the unit, and records the damage."""
        wrong, damaged = found
        self._store.damaged_units.set_right([] if wrong is None else [wrong])
        self._store.damage.add_all(damaged, "met on its way to a consumer")

    def give_up(self) -> None:
        """The message counts as lost."""
        self._store.damaged_units.give_up(self._misplaced)
