"""How a command ends when it is interrupted: no process that it started outlives it."""

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
        """The signal that came last."""
        self.has_come = False
        """Whether one came."""
        self._are_ignored = False

    def take(self, *, ignored_too: bool = False) -> None:
        """From now on SIGTERM and SIGHUP end the command as Ctrl-C does: by KeyboardInterrupt, so that it tidies up.

        A signal that the starter had us ignore stays ignored: by `nohup`, or a shell that starts a command in its background.
        `ignored_too`: SIGINT and SIGTERM do not.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            is_ignored = signal.getsignal(number) is signal.SIG_IGN
            if not is_ignored or (ignored_too and number is not signal.SIGHUP):
                signal.signal(number, self._on_signal)

    def ignore(self) -> None:
        """What is left to do is short, and must be done whatever comes."""
        self._are_ignored = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if not self._are_ignored:
            self.number, self.has_come = signal.Signals(number), True
            raise KeyboardInterrupt


ENDINGS: Final = Endings()


@contextmanager
def no_child_outlives() -> Iterator[None]:
    """What was started inside, and what that started, has ended on the way out: Spark's Java goes on by itself else, for
    seconds, or for ever where it was left while it started.

    Whatever the libraries of Spark made of the KeyboardInterrupt of a signal is one again on the way out.
    """
    from ..deploy.processes import descendants_of, end_descendants

    before = descendants_of(os.getpid())  # of whatever program became this command
    try:
        yield
    except Exception as error:
        if ENDINGS.has_come:
            raise KeyboardInterrupt from error
        raise
    finally:
        ENDINGS.ignore()
        end_descendants(os.getpid(), spared=before, timeout_ms=END_TIMEOUT_MS)
