"""How clients find the engines of this process, which are built on brokers, as clients are not.

`local` provides the opener; it is imported when the first engine is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast

from ...remoting.client import RemotingClient
from .engine_url import EngineUrl


class Engine(Protocol):
    """An engine that runs for whoever holds it."""

    address: str
    """Of its name server, within this process."""

    def new_client(self) -> RemotingClient:
        """What reaches it."""

    def release(self) -> None:
        """Whoever opened it needs it no longer. Once for each opening."""

    def drop(self) -> None:
        """Ends it, whoever holds it, and with it what is in memory. Idempotent."""


def open_engine(url: EngineUrl) -> Engine:
    """The engine of that name, started if none runs. Raises StoreLocked, and what else keeps a broker from starting."""
    opener = import_module(f"{__name__.partition('.')[0]}.local.engines").open_engine
    return cast("Callable[[EngineUrl], Engine]", opener)(url)
