"""`--watch [SECONDS]`: repeats a listing until Ctrl-C.

On a terminal each one replaces the one before, line by line, without flicker; the last one stays. In a pipe or a file they
follow each other: --json one document per line, else separated by empty lines.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final, TypeVar

import typer

from ..model.clock import now_ms, sleep_ms
from ..model.errors import ZenitError
from ..model.times import iso_text
from .output import note, reader_is_gone

OPTION: Final = "--watch"
USUAL_SECONDS: Final = 2.0
LEAST_SECONDS: Final = 0.1
_MARK: Final = "zenit_can_be_watched"
_NUMBER: Final = re.compile(r"[-+]?[0-9.]+", re.ASCII)

ENTER_SCREEN, LEAVE_SCREEN, HOME, END_OF_LINE, END_OF_SCREEN = (
    "\x1b[?1049h",
    "\x1b[?1049l",
    "\x1b[H",
    "\x1b[K",
    "\x1b[J",
)

_F = TypeVar("_F", bound=Callable[..., Any])


def watched(function: _F) -> _F:
    """Marks a command that prints a state: it gets the option --watch."""
    setattr(function, _MARK, True)
    return function


def add_watch_option(command: Any) -> None:
    """Adds `--watch` to a marked command, or to each marked subcommand."""
    for below in getattr(command, "commands", {}).values():
        add_watch_option(below)
    if getattr(command.callback, _MARK, False):
        carrier = typer.Typer(add_completion=False)
        carrier.command()(_with_watch)
        command.params += typer.main.get_command(carrier).params
        command.callback = _repeating(command.callback)


def with_seconds(arguments: Sequence[str]) -> list[str]:
    """The command line with seconds after each --watch: the parser has no options with an optional value."""
    following = [*arguments, ""][1:]
    return [
        f"{OPTION}={USUAL_SECONDS}" if argument == OPTION and not _NUMBER.fullmatch(after) else argument
        for argument, after in zip(arguments, following, strict=True)
    ]


def screen_text(text: str, *, columns: int, lines: int) -> str:
    """The output that draws a text over the one before on a terminal of that size; the rest of the text is left out."""
    shown = text.splitlines()
    if len(shown) > lines:
        shown = [*shown[: lines - 1], f"... {len(shown) - lines + 1} lines more"]
    return HOME + "\r\n".join(line[:columns] + END_OF_LINE for line in shown) + END_OF_SCREEN


def _with_watch(
    watch: Annotated[
        float | None,
        typer.Option(
            OPTION,
            metavar="[SECONDS]",
            min=LEAST_SECONDS,
            max=86_400,
            help=f"Print again every SECONDS ({USUAL_SECONDS:g}), until Ctrl-C.",
        ),
    ] = None,
) -> None:
    """Carries the option that all watched commands get."""


def _repeating(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*, watch: float | None, **arguments: Any) -> Any:
        if watch is None:
            return function(**arguments)
        return _watch(lambda: function(**arguments), watch, as_json=arguments["as_json"])

    return run


def _watch(show: Callable[[], object], seconds: float, *, as_json: bool) -> None:
    text = _shown(show)  # an error at the start ends the command
    if sys.stdout.isatty() and not as_json:
        _watch_on_terminal(text, show, seconds)
    while True:
        sys.stdout.write(text if as_json else f"{text}\n")
        sys.stdout.flush()
        text = ""
        while not text:
            sleep_ms(seconds * 1000)
            if reader_is_gone():
                return
            try:
                text = _shown(show)
            except ZenitError as error:  # it may come back
                note(f"zenit: {error}")


def _watch_on_terminal(text: str, show: Callable[[], object], seconds: float) -> None:
    with _own_screen() as last:
        while True:
            last[:] = [text]
            size = shutil.get_terminal_size()
            head = f"{iso_text(now_ms())}, each {seconds:g} s; Ctrl-C ends it"
            sys.stdout.write(screen_text(f"{head}\n{text}", columns=size.columns, lines=size.lines))
            sys.stdout.flush()
            sleep_ms(seconds * 1000)
            try:
                text = _shown(show)
            except ZenitError as error:
                text = f"zenit: {error}\n"


@contextlib.contextmanager
def _own_screen() -> Iterator[list[str]]:
    """Uses the terminal's second screen; prints the last list on the first one at the end."""
    last: list[str] = []
    sys.stdout.write(ENTER_SCREEN)
    try:
        yield last
    finally:
        sys.stdout.write(LEAVE_SCREEN + "".join(last))
        sys.stdout.flush()


def _shown(show: Callable[[], object]) -> str:
    """The output of the command."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        show()
    return printed.getvalue()
