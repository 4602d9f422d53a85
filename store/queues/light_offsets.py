"""At which offset a light queue begins, so that one that was removed never uses an offset again. Pure.

A light queue is made by a message, and removed when the log has none of its messages any more. Nothing is kept of it then, on
no replica. So where it begins follows from the log's end alone: offsets are as many as messages can have been in the log.

    log          |--- 38,400,000 bytes ---|--- 38,400,000 bytes ---|-------- end
    begins at             0                      300,000             600,000

No record that names light queues is shorter than 128 bytes. So a queue whose records end before one of these borders ends
at or below the offset that belongs there. 300,000 units are one file of a queue: none is filled up where a queue begins.
"""

from __future__ import annotations

from typing import Final

LIGHT_STEP: Final = 300_000
RECORD_BYTES_MIN: Final = 128


def first_light_offset(log_end: int) -> int:
    """Where a light queue begins that is made by a record at or behind this physical offset."""
    return log_end // (LIGHT_STEP * RECORD_BYTES_MIN) * LIGHT_STEP


def may_be_forgotten(next_offset: int, log_position: int) -> bool:
    """Whether a light queue that ends at `next_offset` would begin no lower, made anew at or behind this position."""
    return next_offset <= first_light_offset(log_position)


def forgettable_from(next_offset: int) -> int:
    """The lowest log position at which such a queue may be forgotten."""
    return -(-next_offset // LIGHT_STEP) * LIGHT_STEP * RECORD_BYTES_MIN


def begun_anew_at(queue_offset: int, next_offset: int) -> int | None:
    """Where the queue of a message at `queue_offset` was begun anew; None if it goes on at `next_offset`.

    Wherever the queue is still there, with what was in it before: that has been removed where the message was written.
    """
    begin = queue_offset // LIGHT_STEP * LIGHT_STEP
    return begin if begin > next_offset else None
