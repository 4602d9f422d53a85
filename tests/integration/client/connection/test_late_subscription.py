"""A route that changes while a client begins to listen to its name server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from zenitmq import PullConsumer
from zenitmq.model.clock import monotonic_ms
from zenitmq.remoting.client import RemotingClient

TOPIC = "trades"
SUBSCRIBES_AFTER_S = 0.5
WITHIN_MS = 15_000  # the next look by time comes after 30 s


def test_what_changed_before_the_name_server_was_heard_is_asked_for(
    namesrv: str, new_broker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe, late = RemotingClient.subscribe, []

    def subscribe_late(*arguments: Any) -> None:
        late.append(threading.Timer(SUBSCRIBES_AFTER_S, subscribe, arguments))
        late[-1].start()

    monkeypatch.setattr(RemotingClient, "subscribe", subscribe_late)
    new_broker("a", **{TOPIC: 1})
    with PullConsumer("g", namesrv=namesrv) as consumer:
        consumer.subscribe(TOPIC)
        new_broker("b", **{TOPIC: 1})
        deadline_ms = monotonic_ms() + WITHIN_MS
        while len(consumer.assignment()) < 2:
            assert monotonic_ms() < deadline_ms
            consumer.poll(timeout=0.05)
        late[0].join()
    assert len(late) == 1
