"""The flush thread runs as soon as the store is open, and may have flushed before the broker is whole: that ends nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pytest

from zenitmq.broker import service
from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.service import Broker
from zenitmq.store.config import StoreConfig
from zenitmq.store.message_store import MessageStore


class FlushedAtOnce(MessageStore):
    """Tells of a flush when it has been opened, as where opening made records that are flushed at once."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._tell = named["on_flushed"]

    def __enter__(self) -> Self:
        super().__enter__()
        self._tell()
        return self


@pytest.mark.parametrize("group", [{}, {"controllers": ("127.0.0.1:1",), "replica": "a-1", "replication_port": 0}])
def test_a_flush_before_the_broker_is_whole_ends_nothing(
    group: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MessageStore", FlushedAtOnce)
    store = StoreConfig(segment_bytes=1 << 20, flush_mode="sync")
    config = BrokerConfig(port=0, namesrv=(), store_dir=str(tmp_path), store=store, **group)
    with Broker(config) as broker:
        broker.stop()
        assert broker.run() == 0
