"""The command `zenit` inside the process of a test: for tests of what it prints, which need no process of its own."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

from zenitmq.cli import main

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_zenit(*arguments: str, home: Path, environment: Mapping[str, str] | None = None) -> CompletedProcess[str]:
    """What it printed and its status, for a user whose home that is. Nothing comes from its standard input."""
    settings = {name: value for name, value in os.environ.items() if name != "ZENIT_NAMESRV"}
    settings |= {"HOME": str(home), **(environment or {})}
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        contextlib.chdir(home),
        patch.dict(os.environ, settings, clear=True),
        patch("sys.argv", ["zenit", *arguments]),
        patch.object(sys.modules["__main__"], "__package__", ""),  # else it would be called as pytest is
        patch("sys.stdin", io.TextIOWrapper(io.BytesIO())),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _signals_given_back(),
    ):
        status = 0
        try:
            main.run()
        except SystemExit as ending:
            status = ending.code if isinstance(ending.code, int) else 0
    printed, told = (each.buffer.getvalue().decode() for each in (out, err))  # type: ignore[attr-defined]
    return CompletedProcess(["zenit", *arguments], status, printed, told)


@contextlib.contextmanager
def _signals_given_back() -> Iterator[None]:
    before = [signal.getsignal(each) for each in SIGNALS]
    try:
        yield
    finally:
        for each, handler in zip(SIGNALS, before, strict=True):
            signal.signal(each, handler)
