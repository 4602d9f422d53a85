"""Notes when a stage begins and ends, by methods that are replaced in a process of the benchmark.

Only that process pays for it, some 0.3 us a stage: the shipped code has no branch for it. Times are of CLOCK_MONOTONIC, which
all processes of a machine share.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...model.clock import monotonic_ns
from ..percentiles import Nanoseconds

ROWS_MAX: Final = 4_000_000  # 96 MB
_NUMBERS: Final = 3  # of a row: stage, begin, end


class Stamps:
    """(stage, begin, end) of each call, in the order of their ends. Any thread; keeps the first ROWS_MAX."""

    def __init__(self) -> None:
        self._numbers = array("q")

    def watch(self, owner: type, method: str, stage: int) -> None:
        """Replaces a method of a class for the rest of the process's life; objects made later have the new one."""
        inner: Callable[..., Any] = getattr(owner, method)
        numbers, full = self._numbers, ROWS_MAX * _NUMBERS

        def stamped(*args: Any, **keywords: Any) -> Any:
            begin_ns = monotonic_ns()
            try:
                return inner(*args, **keywords)
            finally:
                if len(numbers) < full:
                    numbers.extend((stage, begin_ns, monotonic_ns()))

        setattr(owner, method, stamped)

    def watch_all(self, methods: Sequence[tuple[type, str]]) -> None:
        """The same for several; a stage is its place in the sequence."""
        for stage, (owner, method) in enumerate(methods):
            self.watch(owner, method, stage)

    def clear(self) -> None:
        """Forgets all."""
        del self._numbers[:]

    def rows(self) -> Nanoseconds:
        """A copy of all so far, one row a call."""
        return np.array(self._numbers, dtype=np.int64).reshape(-1, _NUMBERS)

    def save(self, path: str) -> None:
        """The same as a file for `numpy.load`."""
        np.save(path, self.rows())
