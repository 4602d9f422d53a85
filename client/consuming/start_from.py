"""Where a group begins in a queue in which it has committed nothing yet. Pure."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Final

from ...model.errors import InvalidParameter


class StartFrom(enum.Enum):
    """FIRST: the oldest message still held. LAST: only what comes from now on."""

    FIRST = "FIRST"
    LAST = "LAST"


FIRST: Final = StartFrom.FIRST
LAST: Final = StartFrom.LAST


def check_start_from(start_from: StartFrom | datetime) -> StartFrom | datetime:
    """Returns it; raises InvalidParameter for anything else, and for a datetime without a time zone."""
    if isinstance(start_from, datetime):
        if start_from.tzinfo is None:
            raise InvalidParameter("start_from", start_from, "a datetime with a time zone")
    elif not isinstance(start_from, StartFrom):
        raise InvalidParameter("start_from", start_from, "FIRST, LAST or a datetime")
    return start_from
