"""Progress bars: on a terminal only, on stderr, at most ten times a second."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

from ..model.clock import monotonic_ms

REPORT_MS: Final = 100
CHECK_EVERY: Final = 64  # lines between two reads of the clock


@contextmanager
def line_progress(stream: BinaryIO) -> Iterator[Callable[[int, int], None]]:
    """Yields a callback for (lines, bytes) so far; it draws a bar on a terminal, else does nothing."""
    if not sys.stderr.isatty():
        yield lambda _lines, _size_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("0 messages", total=_size_of(stream))
        next_ms = 0

        def report(lines: int, size_bytes: int) -> None:
            nonlocal next_ms
            if lines % CHECK_EVERY and next_ms:
                return
            now = monotonic_ms()
            if now >= next_ms:
                next_ms = now + REPORT_MS
                bar.update(task, completed=size_bytes + lines, description=f"{lines:,} messages")

        yield report


@contextmanager
def count_progress(noun: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a callback for (done, in all); it draws a bar on a terminal, else does nothing."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(noun), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(noun, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def bytes_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a callback for (bytes done, in all); it draws a bar on a terminal, else does nothing."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def search_progress() -> Iterator[Callable[[int, str], None]]:
    """Yields a callback for (messages looked at, back to which time); it draws a line on a terminal, else does nothing."""
    if not sys.stderr.isatty():
        yield lambda _examined, _reached: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("searching", total=None)
        yield lambda examined, reached: bar.update(
            task, description=f"looked at {examined:,} messages, back to {reached or 'now'}"
        )


def _size_of(stream: BinaryIO) -> int | None:
    """The size of a regular file; None for a pipe or a terminal, whose end is unknown."""
    facts = os.fstat(stream.fileno())
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None
