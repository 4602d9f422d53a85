"""A batch that its master refused goes to the next master as soon as that is known, however long it has been refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from interrupt_kit import NAMESRV, TOPIC, Stage, on

from zenitmq import Message, Producer
from zenitmq.model.errors import NotMaster
from zenitmq.remoting import commands as c

REFUSED_MS = 700
"""The pauses are 10, 20, 40, 80, 160, 320 ms by then, and the next is over half a second later."""


class Place(Stage):
    """A broker that leads again at the end."""

    leads = True
    refusals = 0

    def _serve(self, request: c.Request, payload: Any) -> tuple[Any, bytes]:
        if isinstance(request, c.SendMessages) and not self.leads:
            self.refusals += 1
            raise NotMaster("a", 1)
        return super()._serve(request, payload)


def test_a_new_route_ends_the_pause_of_a_batch() -> None:
    place = Place()
    with on(place):
        producer = Producer(namesrv=NAMESRV, batch_timeout=10.0)
        producer.send(Message(TOPIC, b"before"))
        routes = producer._connection.routes
        place.leads = False
        future = producer.send_async(Message(TOPIC, b"refused"))
        place.pump(REFUSED_MS)
        refused = place.refusals
        assert refused > 3
        place.leads = True
        route = routes.cached(TOPIC)
        assert route is not None
        routes._adopt(TOPIC, replace(route, queues=(*route.queues, replace(route.queues[0], broker_name="b"))))
        place.pump(5)
        assert (future.done(), place.refusals) == (True, refused)
        producer.close(5)
    assert sorted(place.stored) == [b"before", b"refused"]
