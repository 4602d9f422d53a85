"""A signal's handler raises at each place of a call that goes out together with others: the others are answered, at once, and
so are those who come later."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, cast

import pytest
from interrupt_kit import Interrupted, Interrupter

from zenitmq.client.connection.waiting import Blocking, _ThreadSignal
from zenitmq.client.sending.transactions.combiner import GATHER_MS, Combiner
from zenitmq.model.errors import OutcomeUnknown

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

REMOTING = cast("Any", type("Remoting", (), {"call": None}))
PLACES_MAX = 400


class Suspend:
    """Suspends a coroutine once; it is resumed with what `wait` returns."""

    def __init__(self, signal: PlainSignal | None, timeout_ms: int | None) -> None:
        self.signal, self.timeout_ms = signal, timeout_ms

    def __await__(self) -> Generator[Suspend, bool, bool]:
        return (yield self)


class PlainSignal(_ThreadSignal):
    """Its waiter is a coroutine of `Callers`."""

    async def wait(self, timeout_ms: int | None) -> bool:
        return await Suspend(self, timeout_ms)

    @property
    def has_come(self) -> bool:
        return not self._not_yet.locked()


class PlainWaits(Blocking):
    """As a thread waits."""

    def new_signal(self) -> PlainSignal:
        return PlainSignal()


class Callers:
    """Callers of one combiner, each as in a thread of its own; the one that is `interrupted` is so at the `at`-th place."""

    def __init__(self, interrupted: str, at: int) -> None:
        self.interrupter = Interrupter(at)
        self.outcomes: dict[str, str | type[BaseException]] = {}
        self.sent: list[str] = []
        self.combiner: Combiner[str, str] = Combiner(
            PlainWaits(REMOTING), cast("Any", self._send), under_way_max=1, what="x"
        )
        self._interrupted = interrupted
        self._waiting: dict[str, tuple[Coroutine[Any, Any, str], Suspend]] = {}

    async def _send(self, items: list[str]) -> list[str]:
        self.sent += items
        await Suspend(None, 1)  # the request
        return [item.upper() for item in items]

    def begin(self, item: str) -> None:
        call = self.combiner.ask(item, size_bytes=1, total_ms=5000)
        self._step(item, call, None)

    def _step(self, item: str, call: Coroutine[Any, Any, str], sent: bool | None) -> None:
        try:
            if item == self._interrupted:
                with self.interrupter.at_work():
                    waits = call.send(sent)
            else:
                waits = call.send(sent)
        except StopIteration as ended:
            self.outcomes[item] = ended.value
        except (Interrupted, OutcomeUnknown) as error:
            self.outcomes[item] = type(error)
        else:
            self._waiting[item] = call, waits

    def resume(self, item: str) -> None:
        """Its signal has come, or its time is over."""
        call, waits = self._waiting.pop(item)
        self._step(item, call, waits.signal is not None and waits.signal.has_come)

    def finish(self) -> None:
        """All go on, those whose signal has come first. Nobody waits until its time is over, but to gather."""
        while self._waiting:
            ready = [
                item for item, (_, waits) in self._waiting.items() if waits.signal is None or waits.signal.has_come
            ] or [item for item, (_, waits) in self._waiting.items() if waits.timeout_ms == GATHER_MS]
            assert ready, f"nobody wakes {sorted(self._waiting)}"
            self.resume(ready[0])


def run(interrupted: str, together: int, at: int) -> Callers:
    """`first` is sent alone; `a` to `d` come meanwhile, or gather."""
    callers = Callers(interrupted, at)
    callers.combiner._together = together
    for item in ("first", *"abcd"):
        callers.begin(item)
    callers.finish()
    for item in ("later", "latest"):
        callers.begin(item)
    callers.finish()
    return callers


@pytest.mark.parametrize("together", [1, 2, 5, 9])
@pytest.mark.parametrize("interrupted", ["first", "a", "b", "d"])
def test_the_others_are_answered_whoever_is_interrupted(interrupted: str, together: int) -> None:
    for at in range(1, PLACES_MAX):
        callers = run(interrupted, together, at)
        hint = f"{interrupted} interrupted at place {at}, {callers.interrupter.where}"
        combiner = callers.combiner
        assert not combiner._waiting, hint
        assert not combiner._under_way, hint
        assert not combiner._lock.locked(), hint
        assert len(callers.sent) == len(set(callers.sent)), f"{hint}: sent twice"
        is_interrupted = callers.outcomes.pop(interrupted) is Interrupted
        for item, outcome in callers.outcomes.items():
            in_doubt = outcome is OutcomeUnknown and is_interrupted and {item, interrupted} <= set(callers.sent)
            assert outcome == item.upper() or in_doubt, f"{hint}: {item} {outcome}"
        if not is_interrupted:
            return
    raise AssertionError("more places than were looked at")
