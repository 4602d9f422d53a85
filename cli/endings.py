"""The end of an interrupted command: no process that it started outlives it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

END_TIMEOUT_MS: Final = 5_000


class Endings:
    """The signals that end this process. Belongs to the main thread."""

    def __init__(self) -> None:
        self.number = signal.SIGINT
        """The last signal."""
        self.has_come = False
        """Whether a signal came."""
        self._are_ignored = False

    def take(self, *, ignored_too: bool = False) -> None:
        """Makes SIGTERM and SIGHUP end the command as Ctrl-C does: by KeyboardInterrupt, so that it cleans up.

        A signal that was ignored at the start stays ignored, as under `nohup`, or in a background command of a shell.
        `ignored_too`: but not SIGINT and SIGTERM.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            is_ignored = signal.getsignal(number) is signal.SIG_IGN
            if not is_ignored or (ignored_too and number is not signal.SIGHUP):
                signal.signal(number, self._on_signal)

    def ignore(self) -> None:
        """Ignores further signals, for a short last step that must be completed."""
        self._are_ignored = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if not self._are_ignored:
            self.number, self.has_come = signal.Signals(number), True
            raise KeyboardInterrupt


ENDINGS: Final = Endings()


@contextmanager
def no_child_outlives() -> Iterator[None]:
    """Ends all processes that were started inside, with their descendants. Otherwise Spark's Java would continue for
    seconds, or for ever if it was left while starting.

    If the libraries of Spark converted a signal's KeyboardInterrupt to another exception, it is raised again.
    """
    from ..deploy.processes import descendants_of, end_descendants

    before = descendants_of(os.getpid())  # of the program that became this command
    try:
        yield
    except Exception as error:
        if ENDINGS.has_come:
            raise KeyboardInterrupt from error
        raise
    finally:
        ENDINGS.ignore()
        end_descendants(os.getpid(), spared=before, timeout_ms=END_TIMEOUT_MS)
