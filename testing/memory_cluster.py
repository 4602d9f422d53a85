"""An engine in memory for one test: there at once, gone afterwards."""

from __future__ import annotations

import secrets
from types import TracebackType
from typing import Self

from ..client.admin import Admin
from ..client.connection.engine_url import MEMORY, EngineUrl
from ..client.connection.engines import Engine, open_engine


class MemoryCluster:
    """Context manager: `namesrv` names an engine that nobody else has; left, it is gone, with its messages.

    Close its clients before that.
    """

    def __init__(self) -> None:
        self._url = EngineUrl(MEMORY, f"test-{secrets.token_hex(8)}")
        self._engine: Engine | None = None

    @property
    def namesrv(self) -> str:
        """As clients take it."""
        return str(self._url)

    def __enter__(self) -> Self:
        self._engine = open_engine(self._url)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._engine is not None:
            self._engine.drop()

    def create_topic(self, name: str, queues: int = 4) -> str:
        """Creates a topic; returns its name."""
        with Admin(self.namesrv) as admin:
            admin.create_topic(name, queues=queues)
        return name
