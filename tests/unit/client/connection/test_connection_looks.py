"""Whether the cluster of a shared connection is still there: one looks, whoever else asks meanwhile waits for what it sees."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from zenitmq.client.connection.connection import Connection
from zenitmq.model.errors import RequestTimeout


def test_who_comes_during_a_look_shares_no_connection_that_turns_out_doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(("127.0.0.1:9",))
    begun, may_end = threading.Event(), threading.Event()

    async def refresh(*_: Any, **__: Any) -> None:
        begun.set()
        assert may_end.wait(5)
        raise RequestTimeout("GetRoute", 500)

    monkeypatch.setattr(connection.routes, "refresh", refresh)
    connection.remoting.name_cluster("a" * 16)
    try:
        with ThreadPoolExecutor(2) as threads:
            first = threads.submit(connection.is_outdated)
            assert begun.wait(5)
            second = threads.submit(connection.is_outdated)
            with pytest.raises(TimeoutError):
                second.result(0.1)
            may_end.set()
            assert first.result(5)
            assert second.result(5)
    finally:
        may_end.set()
        connection.close()
