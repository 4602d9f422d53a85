"""How long each test file takes: measured by a run that is asked to, kept beside this file, read by parts.

`durations.json` holds seconds of wall clock on two busy cores, sorted by file. What takes less than a tenth is left out: of the
others many are short, and without those one part would get them all.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).with_name("durations.json")
SHORTEST_S = 0.1


def kept() -> dict[str, float]:
    """Seconds by file, named from the root of the repository."""
    return dict(json.loads(KEPT.read_text(encoding="utf-8")))


def keep(measured: dict[str, float]) -> None:
    """Writes what a whole run measured."""
    rounded = {file: round(seconds, 1) for file, seconds in sorted(measured.items()) if seconds >= SHORTEST_S}
    KEPT.write_text(json.dumps(rounded, indent=2) + "\n", encoding="utf-8")


class Stopwatch:
    """A plugin of pytest: adds up what the tests of a file took, and writes it to `report` at the end."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        self._report.write_text(json.dumps(self._seconds), encoding="utf-8")
