"""A real broker in a thread of the test, and a client that speaks to it in requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.service import Broker
from zenitmq.model.properties import encode_properties
from zenitmq.record.kernel import decode_batch, encode_record
from zenitmq.remoting import commands
from zenitmq.remoting.client import RemotingClient
from zenitmq.store.config import StoreConfig

TIMEOUT_MS = 10_000

SMALL = {
    "segment_bytes": 1 << 20,
    "queue_file_units": 1000,
    "index_slots": 1000,
    "index_entries": 2000,
    "preallocate_segments": 1,
    "body_bytes_max": 64 << 10,
    "record_bytes_max": 128 << 10,
    "frame_bytes_max": 1 << 20,
    "flush_interval_ms": 50,
}


def record(
    topic: str, body: bytes = b"body", *, tags: str | None = None, key: str | None = None, **fields: Any
) -> bytes:
    """What a producer sends: one record whose broker-assigned fields are zero."""
    properties = {name: value for name, value in (("TAGS", tags), ("KEYS", key)) if value}
    return encode_record(topic=topic.encode(), body=body, properties=encode_properties(properties), **fields)


class Served:
    """One broker that runs in a thread. `stop` ends it, `start` opens the same directory again."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        store = StoreConfig(**{**SMALL, **settings.pop("store", {})})
        port = settings.pop("port", 0)
        self._clock = settings.pop("clock", None)
        self._metrics = settings.pop("metrics_endpoint", None)
        self.config = BrokerConfig(store_dir=str(directory), port=port, store=store, **{"namesrv": (), **settings})
        self.status: int | None = None
        self.start()
        self.client = RemotingClient()

    def start(self) -> None:
        self.broker = Broker(self.config, clock=self._clock, metrics=self._metrics)
        self.broker.__enter__()
        self.address = self.broker.address
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.status = self.broker.run()
        finally:
            self.broker.__exit__(None, None, None)

    def stop(self) -> None:
        self.broker.stop()
        self.thread.join(20)
        assert not self.thread.is_alive()

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        if self.thread.is_alive():
            self.stop()
        self.client.close()

    def call(
        self, request: commands.Request, payload: bytes | None = None, timeout_ms: int = TIMEOUT_MS
    ) -> tuple[Any, bytes]:
        return self.client.call(self.address, request, payload, timeout_ms=timeout_ms)

    def ask(self, request: commands.Request) -> Any:
        """The document of a JsonReply."""
        return json.loads(self.call(request)[1])

    def create(self, topic: str, queues: int = 2, **settings: Any) -> None:
        self.call(commands.CreateTopic(topic, queues, queues, **settings))

    def send(self, topic: str, *records: bytes, queue_id: int = 0) -> commands.SendReply:
        request = commands.SendMessages(topic, queue_id, len(records))
        reply: commands.SendReply = self.call(request, b"".join(records))[0]
        return reply

    def pull(
        self, topic: str, offset: int = 0, *, queue_id: int = 0, suspend_ms: int = 0, **other: Any
    ) -> tuple[Any, list[Any]]:
        fields = {"group": "g", "max_messages": 100, "max_bytes": 1 << 20, **other}
        request = commands.PullMessages(
            topic=topic, queue_id=queue_id, queue_offset=offset, suspend_ms=suspend_ms, **fields
        )
        reply, payload = self.call(request)
        return reply, list(decode_batch(payload))  # type: ignore[call-overload]

    def written(self) -> int:
        position: int = self.ask(commands.GetBrokerStatistics())["positions"]["written_offset"]
        return position


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts brokers on directories of their own; ends them all."""
    started: list[Served] = []

    def start(name: str = "store", **settings: Any) -> Served:
        served = Served(tmp_path / name, **settings)
        started.append(served)
        return served

    yield start
    for served in started:
        served.close()


@pytest.fixture
def broker(serve: Callable[..., Served]) -> Served:
    """One broker with default settings, small files and no name server."""
    return serve()


@pytest.fixture(name="record")
def record_fixture() -> Callable[..., bytes]:
    """Encodes one record."""
    return record
