"""Starts the process of the second load, and takes what it found."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final, Self

from ..load_processes import READY_MS, Child, wait_children
from .load import DRAIN_S, DeliveryJob

STOP_MS: Final = round(3 * DRAIN_S * 1000)


class DeliveryLoad:
    """Context manager: inside, a transfer was committed and a popped message acknowledged. One thread."""

    def __init__(self, job: DeliveryJob) -> None:
        self._job = job

    def __enter__(self) -> Self:
        self._child = Child(f"{__package__}.load", asdict(self._job))
        try:
            wait_children([self._child], lambda child: child.is_ready, READY_MS, "the first transfers and pops")
        except BaseException:
            self._child.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()

    def look(self) -> None:
        """Raises SystemFault if the process has ended."""
        self._child.read()

    def stop(self) -> dict[str, Any]:
        """Sends no more, waits until all is decided and acknowledged, and returns what the process found. Raises
        SystemFault."""
        self._child.say_stop()
        wait_children([self._child], lambda child: child.is_done, STOP_MS, "the end of transfers and pops")
        return self._child.found
