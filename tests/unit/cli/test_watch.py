"""`--watch`: seconds that may be left out, a screen drawn over, and documents a line each."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import typer

from zenitmq.cli import watch as watching
from zenitmq.cli.output import print_json
from zenitmq.cli.watch import add_watch_option, screen_text, watched, with_seconds
from zenitmq.model.errors import ConnectionLost


@pytest.mark.parametrize(
    ("typed", "parsed"),
    [
        ("", ""),
        ("status", "status"),
        ("status --watch", "status --watch=2.0"),
        ("status --watch 5", "status --watch 5"),
        ("status --watch 0.5 --json", "status --watch 0.5 --json"),
        ("topic describe --watch orders", "topic describe --watch=2.0 orders"),
        ("status --watch --json", "status --watch=2.0 --json"),
        ("status --watch=7", "status --watch=7"),
        ("status --watch -1", "status --watch -1"),
    ],
)
def test_the_seconds_may_be_left_out(typed: str, parsed: str) -> None:
    assert with_seconds(typed.split()) == parsed.split()


def test_a_screen_is_drawn_over_the_one_before() -> None:
    """Nothing is erased before it is written: each line ends with what erases the rest of the old one."""
    assert screen_text("a\nlong line\n", columns=4, lines=9) == "\x1b[Ha\x1b[K\r\nlong\x1b[K\x1b[J"
    assert (
        screen_text("1\n2\n3\n4\n", columns=80, lines=3) == "\x1b[H1\x1b[K\r\n2\x1b[K\r\n... 2 lines more\x1b[K\x1b[J"
    )


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited; the third time Ctrl-C comes."""
    slept: list[float] = []

    def sleep(duration_ms: float) -> None:
        slept.append(duration_ms)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching, "sleep_ms", sleep)
    return slept


def command(show: Callable[[bool], None]) -> typer.Typer:
    app = typer.Typer(add_completion=False)

    @watched
    def status(as_json: bool = typer.Option(False, "--json")) -> None:
        show(as_json)

    app.command()(status)
    return app


def run(show: Callable[[bool], None], *arguments: str) -> None:
    parser = typer.main.get_command(command(show))
    add_watch_option(parser)
    parser(with_seconds(list(arguments)), standalone_mode=False)


def test_json_is_a_document_a_line_and_who_is_away_is_told(
    sleeps: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    turns = iter([1, None, 3])

    def show(as_json: bool) -> None:
        turn = next(turns)
        if turn is None:
            raise ConnectionLost("127.0.0.1:9")
        print_json({"turn": turn, "json": as_json})

    run(show, "--watch", "5", "--json")
    printed = capsys.readouterr()
    assert printed.out == '{"turn": 1, "json": true}\n{"turn": 3, "json": true}\n'
    assert printed.err == f"zenit: {ConnectionLost('127.0.0.1:9')}\n"
    assert sleeps == [5000, 5000, 5000]


def test_what_is_wrong_from_the_start_ends_it() -> None:
    def show(as_json: bool) -> None:
        raise ConnectionLost(str(as_json))

    with pytest.raises(ConnectionLost):
        run(show, "--watch")


def test_on_a_terminal_the_last_one_stays(
    sleeps: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    turns = iter("abc")
    run(lambda _: print(next(turns)), "--watch")
    printed = capsys.readouterr().out
    assert printed.startswith(watching.ENTER_SCREEN)
    assert printed.count(watching.HOME) == len(sleeps) == 3
    assert printed.endswith(f"{watching.LEAVE_SCREEN}c\n")


def test_a_command_that_is_not_marked_has_no_such_option() -> None:
    app = typer.Typer(add_completion=False)
    app.command()(lambda: None)
    parser = typer.main.get_command(app)
    add_watch_option(parser)
    assert [option.name for option in parser.params] == []
