"""Which code plays which role. Imported when it is wanted: Spark and asyncio only where they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from .worker import Worker

Role = Callable[[Worker], None]


def _lazily(module: str, name: str) -> Callable[[], Role]:
    def load() -> Role:
        role: Role = getattr(import_module(f".{module}", __package__), name)
        return role

    return load


ROLES: Final[Mapping[str, Callable[[], Role]]] = {
    "producers": _lazily("senders", "produce"),
    "push": _lazily("readers", "push"),
    "pull": _lazily("readers", "pull"),
    "churn": _lazily("readers", "churn"),
    "visitor": _lazily("readers", "visit"),
    "aio-sending": _lazily("aio_clients", "send"),
    "aio-reading": _lazily("aio_clients", "read"),
    "asking": _lazily("requests", "ask"),
    "answering": _lazily("requests", "answer"),
    "passing": _lazily("passing_topics", "make_and_delete"),
    "stream": _lazily("stream_query", "copy"),
    "watching": _lazily("stalls", "watch"),
}
STOP_FIRST: Final = ("producers", "aio-sending", "asking", "passing", "churn")
"""These end before the accounts are closed; the other consumers go on until all is handled."""
