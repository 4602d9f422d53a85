"""The configuration that a server goes on with when SIGHUP has it read again. Main thread.

Python runs a signal's handler between any two instructions, also of the handler itself: a second signal during a reading is
noted, and read for after it. `hold_hangups` keeps a signal that comes before anybody can read: a server that only starts, or
recovers its log, would be ended by it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Generic, TypeVar

_C = TypeVar("_C")


def hold_hangups() -> None:
    """From now on SIGHUP waits for `Reloading.listen`. Threads that begin meanwhile never get it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))


class Reloading(Generic[_C]):
    """`present`: what the server goes on with. `reread`: gets it, and returns what goes on instead."""

    def __init__(self, present: _C, reread: Callable[[_C], _C]) -> None:
        self.present = present
        self._reread = reread
        self._is_reading = False
        self._is_wanted = False
        self.on_reloaded: Callable[[_C], None] | None = None
        """Called with it after each reading; None while there is nobody to be told."""

    def listen(self) -> None:
        """SIGHUP reads again from now on; one that was held does at once."""
        signal.signal(signal.SIGHUP, self.on_hangup)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))

    def on_hangup(self, _number: int, _frame: object) -> None:
        """The signal."""
        self._is_wanted = True
        if self._is_reading:
            return
        self._is_reading = True
        try:
            while self._is_wanted:
                self._is_wanted = False
                self.present = self._reread(self.present)
                if self.on_reloaded is not None:
                    self.on_reloaded(self.present)
        finally:
            self._is_reading = False
