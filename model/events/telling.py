"""How a process tells events: into its log, and to those in the process who keep them.

    log = logging.getLogger(__name__)
    tell(log, LOGIN_REFUSED, peer="10.0.0.7", user="app", why="its key is revoked", code=9030)

Any thread. The log line is written as `log.level` says; who keeps events gets all of them. With `limit_repeats`, as servers
set it, what is told again within its kind's time, mostly a second, is counted only; the count comes with the next one, or
after that time with the next event of any kind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ..clock import monotonic_ms, now_ms
from .event import REPEATED, Event, EventKind, plain_fact
from .repeats import Repeats

ATTRIBUTE: Final = "zenit_event"
"""Of a log record: its `Event`."""

Keeper = Callable[[Event], object]


class _Process:
    """Who keeps this process's events, and what was told lately.

    Without a lock: two threads that tell the same at the same moment may at worst be told twice, or counted once.
    """

    def __init__(self) -> None:
        self.keepers: tuple[Keeper, ...] = ()
        self.repeats: Repeats | None = None


_PROCESS: Final = _Process()


def tell(log: logging.Logger, kind: EventKind, **facts: object) -> None:
    """Tells an event. Its facts are those of the kind's row; one without a value may be left out or None."""
    assert facts.keys() <= set(kind.fields), f"{kind.name} has no {facts.keys() - set(kind.fields)}"
    plain = tuple((name, plain_fact(facts[name])) for name in kind.fields if name in facts)
    repeats = _PROCESS.repeats
    told = [(kind, plain, 0)] if repeats is None else repeats.on_told(kind, plain, monotonic_ms())
    for each, its_facts, count in told:
        counted = (*its_facts, (REPEATED, count)) if count else its_facts
        _tell_now(log, Event(each, now_ms(), counted), _PROCESS.keepers)


def _tell_now(log: logging.Logger, event: Event, keepers: tuple[Keeper, ...]) -> None:
    shown = [(name, value) for name, value in event.facts if value is not None and value != ""]
    template = " ".join((event.kind.text, *(f"{name}=%s" for name, _ in shown)))
    log.log(event.kind.level, template, *(value for _, value in shown), extra={ATTRIBUTE: event}, stacklevel=3)
    for keep in keepers:
        keep(event)


@contextmanager
def kept_by(keeper: Keeper) -> Iterator[None]:
    """`keeper` gets every event of this process until the context is left. It is called by any thread, and must not raise."""
    _PROCESS.keepers = (*_PROCESS.keepers, keeper)
    try:
        yield
    finally:
        left = list(_PROCESS.keepers)
        left.remove(keeper)
        _PROCESS.keepers = tuple(left)


def limit_repeats() -> None:
    """From now on what is told again within its kind's time is counted only."""
    _PROCESS.repeats = Repeats()
