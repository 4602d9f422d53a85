"""The stages of round trips, from stamps of two processes. Pure.

A trip is a chain of moments; a stage is the time between two of them, so the stages of a trip add up to it. A moment is the
begin or the end of the one call of its kind within the trip. A trip with another number of them is left out: another request
came in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..percentiles import Nanoseconds

BEGIN: Final = 1  # columns of a row of stamps
END: Final = 2
_MIDDLE: Final = (0.4, 0.6)  # the trips that are shown: those around the median


@dataclass(frozen=True, slots=True)
class Moment:
    """`stage`: the one that ends here. `side`: whose stamps have it. `call`: its number there; `edge`: its BEGIN or END."""

    stage: str
    side: str
    call: int
    edge: int


CLIENT_SEND, CLIENT_RECEIVE = 0, 1
SERVER_RECEIVE, SERVER_PLACE, SERVER_WRITE, SERVER_SEND, SERVER_DISPATCH = range(5)
READ: Final = "client: read the reply"
"""The last stage: from the last moment to the trip's end."""

TRIP: Final = (
    Moment("client: message, queue, encoding", "client", CLIENT_SEND, BEGIN),
    Moment("to the broker: sockets, I/O threads, wake-ups", "server", SERVER_RECEIVE, END),
    Moment("broker: receive, decode", "server", SERVER_PLACE, BEGIN),
    Moment("broker: check, stamp, place", "server", SERVER_PLACE, END),
    Moment("broker: write", "server", SERVER_WRITE, END),
    Moment("broker: encode the reply", "server", SERVER_SEND, BEGIN),
    Moment("to the client: sockets, I/O threads, wake-ups", "client", CLIENT_RECEIVE, END),
)
"""Of a send. A call that hands a message to a socket ends when its reader may be far already: so none ends a stage."""

RAW_TRIP: Final = (
    Moment("client: the frames", "client", CLIENT_SEND, BEGIN),
    Moment("to the server: sockets, I/O threads, wake-ups", "server", SERVER_RECEIVE, END),
    Moment("server: write", "server", SERVER_WRITE, END),
    Moment("server: the frames", "server", SERVER_SEND, BEGIN),
    Moment("to the client: sockets, I/O threads, wake-ups", "client", CLIENT_RECEIVE, END),
)
"""Of a raw round trip."""


def chains(trips: Nanoseconds, moments: Sequence[Moment], stamps: Mapping[str, Nanoseconds]) -> Nanoseconds:
    """One row a trip: its begin, its moments, its end; of those trips in which each moment came once, and in order.

    `trips`: rows of (begin, end), in order.
    """
    columns = [trips[:, 0]]
    whole = np.ones(len(trips), dtype=bool)
    for moment in moments:
        rows = stamps[moment.side]
        times = np.sort(rows[rows[:, 0] == moment.call, moment.edge])
        first, behind = np.searchsorted(times, trips[:, 0]), np.searchsorted(times, trips[:, 1], side="right")
        whole &= behind - first == 1
        columns.append(times[np.minimum(first, max(len(times) - 1, 0))] if len(times) else trips[:, 0])
    found = np.column_stack([*columns, trips[:, 1]])
    whole &= (np.diff(found, axis=1) >= 0).all(axis=1)
    return found[whole]


def stage_us(found: Nanoseconds, moments: Sequence[Moment]) -> dict[str, float]:
    """The mean of each stage over the trips around the median, microseconds; they add up to about the median. Empty
    without trips."""
    if not len(found):
        return {}
    total = found[:, -1] - found[:, 0]
    low, high = np.quantile(total, _MIDDLE)
    middle = found[(total >= low) & (total <= high)]
    means = np.diff(middle, axis=1).mean(axis=0) / 1000
    names = [*(moment.stage for moment in moments), READ]
    return {name: round(float(mean), 1) for name, mean in zip(names, means, strict=True)}


def after_reply_us(found: Nanoseconds, rows: Nanoseconds) -> float | None:
    """The median time from the begin of a reply's hand-over until queues and index have followed, for which nobody waits;
    None if it was not seen.

    `found`: chains of TRIP; `rows`: the broker's stamps.
    """
    ends = np.sort(rows[rows[:, 0] == SERVER_DISPATCH, END])
    if not len(found) or not len(ends):
        return None
    handed = found[:, -3]  # when the reply's hand-over began
    place = np.searchsorted(ends, handed)
    seen = place < len(ends)
    return round(float(np.median(ends[place[seen]] - handed[seen])) / 1000, 1) if seen.any() else None


def call_us(rows: Nanoseconds, names: Mapping[str, int], *, begin: int, end: int, requests: int) -> dict[str, float]:
    """Microseconds a request of the named calls between two times, where many requests share a turn: the median of a call, as
    often as it was made. The mean would have the times in which the thread had lost its core.
    """
    within = rows[(rows[:, BEGIN] >= begin) & (rows[:, END] <= end)]
    return {
        name: round(usual_call_us(within, call) * int((within[:, 0] == call).sum()) / max(requests, 1), 2)
        for name, call in names.items()
    }


def usual_call_us(rows: Nanoseconds, call: int) -> float:
    """How long one kind of call took, the median in microseconds; 0 without any."""
    mine = rows[rows[:, 0] == call]
    return round(float(np.median(mine[:, END] - mine[:, BEGIN])) / 1000, 2) if len(mine) else 0.0


def thread_us(used: Sequence[int], requests: int) -> dict[str, float]:
    """Microseconds a request of what threads used: on a core, of that in the kernel, waiting for a core."""
    names = ("on_core", "in_kernel", "waited")
    return {name: round(value / max(requests, 1) / 1000, 1) for name, value in zip(names, used, strict=True)}


def shares(stages: Mapping[str, float], raw_us: float) -> dict[str, float]:
    """Each time as a share of the raw round trip."""
    return {name: round(value / raw_us, 3) for name, value in stages.items()} if raw_us else {}
