"""Where `zenit top` shows its figures: live on a terminal with keys, or as documents, or once. Main thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ...model.clock import now_ms
from ..output import print_json, reader_is_gone
from .figures import ClusterFigures, Order
from .figures_text import KEYS, Line, lines_of
from .sampling import PacedAdmin, Sampling

ORDERS: Final = {"i": Order.IN, "o": Order.OUT, "l": Order.LAG}
QUIT: Final = "q"
KEYS_MAX: Final = 64
"""That wait to be handled; what is typed beyond is dropped."""
STYLES: Final = {"head": "bold", "bad": "red", "": ""}


async def show_once(admin: PacedAdmin, figures: ClusterFigures, interval_ms: int, *, as_json: bool) -> None:
    """Two rounds, of which the figures are; then one document, or its tables."""
    sampling = Sampling(admin, figures, interval_ms)
    await sampling.round()
    await asyncio.sleep(interval_ms / 1000)
    await sampling.round()
    if as_json:
        print_json(figures.document(now_ms()))
    else:
        sys.stdout.write("".join(f"{line.text}\n" for line in lines_of(figures.document(now_ms()))))


async def print_documents(admin: PacedAdmin, figures: ClusterFigures, interval_ms: int) -> None:
    """A document a line each interval, until the reader of the output is gone or the command is interrupted."""
    sampling = Sampling(admin, figures, interval_ms)
    await sampling.round()  # an error at the start ends the command
    async with _beside(sampling):
        while not reader_is_gone():
            print_json(figures.document(now_ms()))
            sys.stdout.flush()
            await asyncio.sleep(interval_ms / 1000)


async def show_live(admin: PacedAdmin, figures: ClusterFigures, interval_ms: int) -> None:
    """Draws the tables each interval and at each key, until `q`. The last ones stay on the terminal."""
    sampling = Sampling(admin, figures, interval_ms)
    await sampling.begin()  # an error at the start ends the command
    console = Console()

    def drawn(*, is_last: bool = False) -> Text:
        lines = None if is_last else console.size.height
        return _text(lines_of(figures.document(now_ms()), keys="" if is_last else KEYS, lines=lines))

    async with _beside(sampling):
        with _keys() as pressed, Live(drawn(), console=console, screen=True, auto_refresh=False) as live:
            key = ""
            while key != QUIT:
                figures.order = ORDERS.get(key, figures.order)
                live.update(drawn(), refresh=True)
                key = ""
                with contextlib.suppress(TimeoutError):
                    key = await asyncio.wait_for(pressed.get(), interval_ms / 1000)
    console.print(drawn(is_last=True))


@contextlib.asynccontextmanager
async def _beside(sampling: Sampling) -> AsyncIterator[None]:
    """Goes on asking while the figures are shown."""
    task = asyncio.create_task(sampling.go_on())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=1)


@contextlib.contextmanager
def _keys() -> Iterator[asyncio.Queue[str]]:
    """The keys that are pressed, one by one and not shown; none if stdin is no terminal."""
    pressed: asyncio.Queue[str] = asyncio.Queue(KEYS_MAX)
    if not sys.stdin.isatty():
        yield pressed
        return
    stdin, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(stdin)

    def on_readable() -> None:
        typed = os.read(stdin, KEYS_MAX).decode("ascii", "ignore").lower()
        if not typed:  # the terminal is gone
            loop.remove_reader(stdin)
        for key in typed:
            if not pressed.full():
                pressed.put_nowait(key)

    try:
        tty.setcbreak(stdin)
        loop.add_reader(stdin, on_readable)
        yield pressed
    finally:
        loop.remove_reader(stdin)
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)


def _text(lines: list[Line]) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for place, line in enumerate(lines):
        text.append(("\n" if place else "") + line.text, STYLES[line.mark])
    return text
