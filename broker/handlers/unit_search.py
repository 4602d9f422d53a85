"""The search for the record of a message whose unit in its queue names something else. A worker searches, the loop settles."""

from __future__ import annotations

from ...model.errors import BrokerBusy, OffsetOutOfRange
from ...store.integrity.queue_check import MisplacedUnit
from ...store.message_store import MessageStore
from ...store.queues.queue_table import WrongUnit

SEARCH_MS = 100  # who asks meanwhile comes again after this time

Found = tuple[WrongUnit | None, list[tuple[int, int]]]
"""(where the record is, damage where it was to be)."""


class UnitSearch:
    """Of one unit."""

    def __init__(self, store: MessageStore, misplaced: MisplacedUnit) -> None:
        self._store = store
        self._misplaced = misplaced

    def search(self) -> Found:
        """Worker thread. Raises BrokerBusy where it cannot be looked up now."""
        units = self._store.damaged_units
        try:
            found = units.find(self._misplaced)
            return found, [] if found is not None else self._store.damaged_in([units.span(self._misplaced)])
        except (OffsetOutOfRange, OSError) as error:
            raise BrokerBusy(SEARCH_MS, f"a damaged unit of a queue cannot be looked up: {error}") from error

    def settle(self, found: Found) -> None:
        """Sets the unit right, and notes the damage."""
        wrong, damaged = found
        self._store.damaged_units.set_right([] if wrong is None else [wrong])
        self._store.damage.add_all(damaged, "met on its way to a consumer")

    def give_up(self) -> None:
        """The message counts as lost."""
        self._store.damaged_units.give_up(self._misplaced)
