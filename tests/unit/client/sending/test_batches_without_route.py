"""What is sent in the background while no broker serves its topic ends once its time is over, as if a broker did not answer."""

from __future__ import annotations

from typing import Any

import pytest
from interrupt_kit import NAMESRV, TOPIC, Stage, on

from zenitmq import FailedSend, Message, Producer
from zenitmq.client.sending import batching
from zenitmq.model.errors import NoRoute, SendFailed
from zenitmq.remoting import commands as c


class Place(Stage):
    """Where a topic may be served by nobody."""

    is_served = True

    def _serve(self, request: c.Request, payload: Any) -> tuple[Any, bytes]:
        if isinstance(request, c.GetRoute) and not self.is_served:
            raise NoRoute(request.topic, "nobody is registered")
        return super()._serve(request, payload)


@pytest.mark.parametrize("sharding_key", [None, "k"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_a_batch_without_a_route_fails_in_time(
    monkeypatch: pytest.MonkeyPatch, idempotent: bool, sharding_key: str | None
) -> None:
    place = Place(queues=2)
    told: list[FailedSend] = []
    with on(place):
        monkeypatch.setattr(batching, "monotonic_ns", lambda: place.now_ms * 1_000_000)
        producer = Producer(namesrv=NAMESRV, batch_timeout=3.0, idempotent=idempotent, on_error=told.extend)
        producer.send(Message(TOPIC, b"before"))
        future = producer.send_async(Message(TOPIC, b"future"), sharding_key=sharding_key)
        producer.post(TOPIC, b"posted", sharding_key=sharding_key)
        place.is_served = False
        producer._connection.routes._adopt(TOPIC, None)
        place.pump(2_900)
        assert not future.done()
        assert not told
        place.pump(300)
        assert isinstance(future.exception(0), NoRoute)
        assert [(each.body, type(each.error)) for each in told] == [(b"posted", NoRoute)]
        assert producer._background.waiting_messages() == 0
        place.is_served = True
        with pytest.raises(SendFailed):
            producer.flush(5)
        producer.send(Message(TOPIC, b"sent after"))
        producer.post(TOPIC, b"after", sharding_key=sharding_key)
        future = producer.send_async(Message(TOPIC, b"after too"), sharding_key=sharding_key)
        producer.close(5)
        assert future.exception(0) is None
        assert sorted(place.stored) == [b"after", b"after too", b"before", b"sent after"]
