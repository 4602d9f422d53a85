"""Damaged units of an open store's queues: found by a scrub or a read, rebuilt from the log, or marked as lost.

    scrub's step, worker: check --> wrong units --loop: set_right--> the queue's file
    a read met one, loop: misplaced --worker: find--> its record? --loop: set_right | give_up--> lost, and named

The checker and the writer are two threads: a unit is written only if the damaged one is still there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ...model.errors import OffsetOutOfRange
from ...record.layout import UNIT
from ..log.commit_log import CommitLog
from ..queues.confirmation import Confirmation
from ..queues.queue_engine import QueueEngine, WrongUnit
from ..queues.queue_places import FILLER_SIZE
from .log_check import Checked, LogChecker
from .quarantine import Quarantine, Range, joined
from .queue_check import MisplacedUnit, QueueChecker
from .scrub_reader import ScrubReader

logger = logging.getLogger(__name__)

SEARCH_BYTES_MAX: Final = 1 << 30
"""How much of the log between the neighbouring messages is searched while a read waits. A scrub searches farther."""


class DamagedUnits:
    """The damaged units of one open store. Loop thread, except a worker's methods."""

    def __init__(
        self,
        log: CommitLog,
        queues: QueueEngine,
        quarantine: Quarantine,
        confirmation: Confirmation,
        checker: QueueChecker,
    ) -> None:
        """`checker`: for one worker at a time."""
        self._log = log
        self._queues = queues
        self._quarantine = quarantine
        self._confirmation = confirmation
        self._checker = checker
        self.mended = 0
        self.given_up = 0

    def check(
        self, log_checker: LogChecker, queue_checker: QueueChecker, begin: int, *, bytes_max: int, limit: int
    ) -> tuple[Checked, list[WrongUnit]]:
        """Checks the log from `begin` on (log_check, scrub_reader), and whether the queues name its records. A worker's.

        Raises OffsetOutOfRange (retention was faster), OSError.
        """
        with ScrubReader(self._log, begin) as reader:
            checked = log_checker.check(reader.read, begin, bytes_max=bytes_max, limit=limit)
            damaged = joined((*checked.damaged, *self._quarantine.ranges))
            wrong = queue_checker.check(reader.read, begin, min(checked.end, limit), damaged)
            if not reader.is_there():  # the bytes read may be of another segment by now
                raise OffsetOutOfRange("commit log", begin, self._log.begin, self._log.written)
        return checked, wrong

    def misplaced(self, topic: str, queue_id: int, queue_offset: int) -> MisplacedUnit | None:
        """The damaged unit of a message; None if its queue does not hold it."""
        queue = self._queues.get(topic, queue_id)
        log_begin, log_end = self._log.begin, self._confirmation.end(self._log.written)
        if queue is None or not queue.min_offset(log_begin) <= queue_offset < queue.next_offset:
            return None
        begin, end = queue.places_beside(queue_offset, log_begin, log_end)
        return MisplacedUnit(topic, queue_id, queue_offset, queue.read(queue_offset, 1), begin, end)

    def find(self, misplaced: MisplacedUnit) -> WrongUnit | None:
        """The unit that belongs there; None if the log has no record of it near enough. A worker's, one at a time.

        Raises OffsetOutOfRange (retention was faster), OSError.
        """
        return self._checker.find(misplaced, self.span(misplaced)[1], self._quarantine.ranges)

    def span(self, misplaced: MisplacedUnit) -> Range:
        """The part of the log in which the record is searched. Any thread."""
        return misplaced.begin, min(misplaced.end, misplaced.begin + SEARCH_BYTES_MAX)

    def set_right(self, wrong: Sequence[WrongUnit]) -> int:
        """Writes units over damaged ones; returns their number."""
        mended = sum(self._queues.set_right(found) for found in wrong)
        for found in wrong[:1] if mended else ():
            logger.error(
                "damaged units of queues are rebuilt from the log units=%s first_topic=%s queue=%s offset=%s",
                mended, found.topic, found.queue_id, found.queue_offset,
            )  # fmt: skip
        self.mended += mended
        return mended

    def give_up(self, misplaced: MisplacedUnit) -> None:
        """The log has no record of that message: its unit becomes a gap's filler, which readers report as lost."""
        filler = UNIT.pack(max(misplaced.end, 1), FILLER_SIZE, 0)
        logger.error(
            "a message is lost: its queue's unit is damaged, and no record of it was found topic=%s queue=%s offset=%s",
            misplaced.topic, misplaced.queue_id, misplaced.queue_offset,
        )  # fmt: skip
        self.given_up += self._queues.set_right(misplaced.replaced_by(filler))
