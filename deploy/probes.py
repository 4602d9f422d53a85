"""The probes of a canary: which are under way, and how long the last one of each group took. Pure.

    sent --> came back: its time is the group's         later than LOST_NS: counted as lost
      '----> could not be stored: counted as not sent

While a probe is under way, or was lost and none has come back since, the time since it was sent is what the group says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..metrics.family import Reading, Sample
from ..metrics.histogram import Histogram, time_histogram
from ..metrics.table import CANARY, CANARY_FAILED, CANARY_ROUND

LOST_NS: Final = 10_000_000_000
UNSENT: Final = "send"
LOST: Final = "receive"


class _Probed:
    def __init__(self) -> None:
        self.under_way: dict[int, int] = {}  # {number of the probe: when it was sent}, the oldest first
        self.last_ns: int | None = None
        self.failing_since_ns: int | None = None  # when the first was sent that failed, since one came back
        self.times: Histogram = time_histogram()
        self.failed = dict.fromkeys((UNSENT, LOST), 0)

    def on_failed(self, step: str, sent_ns: int) -> None:
        self.failed[step] += 1
        if self.failing_since_ns is None:
            self.failing_since_ns = sent_ns


class Probes:
    """Of all groups. The canary's thread changes them; another one reads copies. Times are monotonic nanoseconds."""

    def __init__(self) -> None:
        self._groups: dict[str, _Probed] = {}

    def keep(self, groups: Iterable[str]) -> None:
        """These are the cluster's groups now; what is said of others leaves."""
        kept = {name: self._groups.get(name) or _Probed() for name in sorted(groups)}
        self._groups = kept

    def on_sent(self, group: str, number: int, now_ns: int) -> None:
        """A probe is on its way."""
        self._groups[group].under_way[number] = now_ns

    def on_unsent(self, group: str, number: int) -> None:
        """It could not be stored. Its send was given up after its time was over, or at once."""
        found = self._groups.get(group)
        sent_ns = None if found is None else found.under_way.pop(number, None)
        if found is not None and sent_ns is not None:
            found.on_failed(UNSENT, sent_ns)

    def on_received(self, group: str, number: int, now_ns: int) -> None:
        """It came back. A second copy, and one that was given up, do not count."""
        found = self._groups.get(group)
        sent_ns = None if found is None else found.under_way.pop(number, None)
        if found is None or sent_ns is None:
            return
        found.last_ns, found.failing_since_ns = now_ns - sent_ns, None
        found.times.observe(found.last_ns // 1_000)

    def on_tick(self, now_ns: int) -> None:
        """Gives up what is too old."""
        for found in self._groups.values():
            while found.under_way:
                number, sent_ns = next(iter(found.under_way.items()))
                if now_ns - sent_ns < LOST_NS:
                    break
                del found.under_way[number]
                found.on_failed(LOST, sent_ns)

    def readings(self, now_ns: int) -> list[Reading]:
        """For a scrape. Any thread."""
        seconds: list[Sample] = []
        rounds: list[Sample] = []
        failed: list[Sample] = []
        for name, found in self._groups.items():
            begun = [*found.under_way.copy().values()]
            if (failing_ns := found.failing_since_ns) is not None:
                begun.append(failing_ns)
            if begun or found.last_ns is not None:
                seconds.append(((name,), max(found.last_ns or 0, *(now_ns - at for at in begun), 0) / 1e9))
            rounds.append(((name,), found.times.reading()))
            failed += [((name, step), count) for step, count in found.failed.items()]
        return [(CANARY, seconds), (CANARY_ROUND, rounds), (CANARY_FAILED, failed)]
