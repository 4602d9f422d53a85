"""A command that was told to end ends that way, whatever became of the KeyboardInterrupt on its way."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest

from zenitmq.cli import endings


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[endings.Endings]:
    """The process's endings, as if it were a command."""
    mine = endings.Endings()
    monkeypatch.setattr(endings, "ENDINGS", mine)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    mine.take()
    yield mine
    for number, handler in before.items():
        signal.signal(number, handler)


def test_an_error_that_was_made_of_an_interruption_is_one(taken: endings.Endings) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), endings.no_child_outlives():
        raise RuntimeError("the connection was closed")
    assert taken.number == signal.SIGTERM


def test_an_error_of_its_own_stays_one(taken: endings.Endings) -> None:
    with pytest.raises(RuntimeError), endings.no_child_outlives():
        raise RuntimeError("no table")
    assert not taken.has_come
