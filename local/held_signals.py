"""Signal handlers that wait until a turn is over: what one raises must not end it half done.

Python calls its handlers in the main thread, between any two steps of a program. While the signals are held, each that has
such a handler has one of ours instead, which notes it. Handlers that Python does not call, the system's and those of
libraries, are left alone.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

Handler = Callable[[int, FrameType | None], Any]

# The functions of `signal` make an enumeration of each number and handler, which takes ten times as long.
_handler_of: Final = _signal.getsignal
_set_handler: Final = _signal.signal
_SIGNALS: Final = sorted(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


class HeldSignals:
    """A context manager, not re-entrant. The main thread's; others must not enter it."""

    def __init__(self) -> None:
        self._found: list[Any] = []
        self._theirs: dict[int, Handler] = {}
        self._came: dict[int, FrameType | None] = {}
        self._note: Final = self._on_signal  # one object, which is known again
        self._is_held = False

    def __enter__(self) -> None:
        found = list(map(_handler_of, _SIGNALS))  # a program may set another handler at any time
        if found != self._found:
            self._learn(found)
        self._is_held = True
        try:
            for number in self._theirs:
                _set_handler(number, self._note)
        except BaseException:  # of a handler that was still there
            self._give_back()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        if self._came:
            self._call_next()

    def _call_next(self) -> None:
        number = next(iter(self._came))
        try:
            self._theirs[number](number, self._came.pop(number))
        finally:
            if self._came:
                self._call_next()

    def _learn(self, found: list[Any]) -> None:
        handlers = dict(zip(_SIGNALS, found, strict=True))
        for number, handler in handlers.items():
            if handler == self._note:  # it was not given back
                handlers[number] = self._theirs[number]
        self._theirs = {number: handler for number, handler in handlers.items() if callable(handler)}
        self._found = list(handlers.values())

    def _give_back(self) -> None:
        """What a handler raises that is back may keep others from being so: they follow when their signals come."""
        self._is_held = False
        for number, handler in self._theirs.items():
            _set_handler(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._is_held:
            self._came[number] = frame  # once, as Python does with signals that come faster than it looks
        else:
            handler = self._theirs[number]
            _set_handler(number, handler)
            handler(number, frame)


held_signals: Final = HeldSignals()
"""Those of this process."""
