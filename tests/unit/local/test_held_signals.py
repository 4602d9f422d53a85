"""Signal handlers that wait until a turn is over."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from zenitmq.local import held_signals as module
from zenitmq.local.held_signals import HeldSignals


class Stop(Exception):
    """What a handler raises."""


class Recorder:
    """A handler."""

    def __init__(self, *, raises: bool = False) -> None:
        self.came: list[int] = []
        self._raises = raises

    def __call__(self, number: int, _: FrameType | None) -> None:
        self.came.append(number)
        if self._raises:
            raise Stop(number)


@contextmanager
def handled(handlers: dict[signal.Signals, Recorder]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_handler_runs_when_the_turn_is_over() -> None:
    held, handler = HeldSignals(), Recorder()
    with handled({signal.SIGUSR1: handler}):
        with held:
            signal.raise_signal(signal.SIGUSR1)
            signal.raise_signal(signal.SIGUSR1)
            assert not handler.came
        assert handler.came == [signal.SIGUSR1]
        assert signal.getsignal(signal.SIGUSR1) is handler
        signal.raise_signal(signal.SIGUSR1)
        assert len(handler.came) == 2


def test_what_one_raises_keeps_no_other_from_being_called() -> None:
    held = HeldSignals()
    handlers = {signal.SIGUSR1: Recorder(raises=True), signal.SIGUSR2: Recorder(raises=True)}
    with handled(handlers):
        with pytest.raises(Stop) as raised, held:
            deque(map(signal.raise_signal, handlers))
        assert raised.value.args == (signal.SIGUSR2,)
        assert isinstance(raised.value.__context__, Stop)
        for number, handler in handlers.items():
            assert handler.came == [number]
            assert signal.getsignal(number) is handler


def test_a_handler_that_was_set_since_is_the_one_that_runs() -> None:
    held, first, second = HeldSignals(), Recorder(), Recorder()
    with handled({signal.SIGUSR1: first}):
        with held:
            pass
        signal.signal(signal.SIGUSR1, second)
        with held:
            signal.raise_signal(signal.SIGUSR1)
        assert (first.came, second.came) == ([], [signal.SIGUSR1])


def test_what_python_does_not_call_is_left_alone() -> None:
    held = HeldSignals()
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        with held:
            assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("again", [False, True])
def test_a_handler_that_was_not_given_back_is_called_and_given_back(
    monkeypatch: pytest.MonkeyPatch, *, again: bool
) -> None:
    """Another one raised before its turn came."""
    held, handler = HeldSignals(), Recorder()
    set_handler, asked = module._set_handler, []

    def interrupted(number: int, given: module.Handler) -> None:
        if number == signal.SIGUSR1:
            asked.append(given)
            if given is handler:
                raise Stop
        set_handler(number, given)

    with handled({signal.SIGUSR1: handler}):
        monkeypatch.setattr(module, "_set_handler", interrupted)
        with pytest.raises(Stop), held:
            pass
        monkeypatch.undo()
        assert len(asked) == 2
        if again:
            with held:
                signal.raise_signal(signal.SIGUSR1)
                assert not handler.came
        else:
            signal.raise_signal(signal.SIGUSR1)
        assert handler.came == [signal.SIGUSR1]
        assert signal.getsignal(signal.SIGUSR1) is handler


def test_a_handler_that_raises_before_its_signal_is_held_leaves_all_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = HeldSignals()
    handlers = {signal.SIGUSR1: Recorder(), signal.SIGUSR2: Recorder(raises=True)}
    set_handler, calls = module._set_handler, []

    def with_signal(number: int, given: module.Handler) -> None:
        calls.append(number)
        if number == signal.SIGUSR2 and calls.count(number) == 1:
            signal.raise_signal(number)
        set_handler(number, given)

    with handled(handlers):
        monkeypatch.setattr(module, "_set_handler", with_signal)
        with pytest.raises(Stop), held:
            pytest.fail("it was entered")
        assert all(signal.getsignal(number) is handler for number, handler in handlers.items())
