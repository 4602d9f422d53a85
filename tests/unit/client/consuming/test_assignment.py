"""What a member says of a topic that was deleted and made again."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.client.connection.membership import Member
from zenitmq.client.connection.waiting import run_blocking
from zenitmq.client.consuming.allocation import ALLOCATIONS
from zenitmq.client.consuming.assignment import Assignment
from zenitmq.model.errors import TopicNotFound
from zenitmq.model.queue import MessageQueue
from zenitmq.model.route import BrokerData, QueueData, TopicRoute
from zenitmq.remoting.commands import ConsumerListReply

MEMBER = Member("me", consumer=("g", "CLUSTERING", (("t", "TAG", "*"),)))


class Network:
    """Name server, broker and connection: `life` is the topic's incarnation, None while there is none."""

    life: int | None = 1

    @property
    def routes(self) -> Network:
        return self

    @property
    def members(self) -> Network:
        return self

    async def route(self, topic: str, _waits: object, *, timeout_ms: int) -> TopicRoute:
        if self.life is None:
            raise TopicNotFound(topic)
        return TopicRoute(topic, (QueueData("b", 2, 2, 6, self.life),), (BrokerData("z", "b", {0: "b:1"}),))

    async def announce(self, *_: object, timeout_ms: int) -> None:
        """It is known at once."""

    async def call(self, _address: str, _request: object, *, timeout_ms: int) -> tuple[ConsumerListReply, bytes]:
        return ConsumerListReply(("me",), True), b""


@pytest.mark.parametrize("is_assigned", [False, True])
@pytest.mark.parametrize(
    ("lives", "warnings"),
    [
        ([1, 1], 0),
        ([1, 2, 2], 1),
        ([1, None, 2, 2], 1),
        ([1, None, 1], 0),
        ([1, 0, 2], 1),
        ([0, 2], 0),
        ([1, 2, 3], 2),
    ],
    ids=str,
)
def test_a_topic_that_was_made_again_is_told_once(
    caplog: pytest.LogCaptureFixture, lives: list[int | None], warnings: int, is_assigned: bool
) -> None:
    """Whether or not a look found it gone: 0 is a broker that does not say which life it is."""
    network: Any = Network()
    share = Assignment(network, network, "g", "me", ALLOCATIONS["averaging"])
    for life in lives:
        network.life = life
        looked = (
            share.as_routed([MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)], timeout_ms=1)
            if is_assigned
            else share.queues_of(["t"], MEMBER, timeout_ms=1)
        )
        if life is None:
            with pytest.raises(TopicNotFound):
                run_blocking(looked)
        else:
            run_blocking(looked)
    told = [record.getMessage() for record in caplog.records if "made anew" in record.message]
    assert len(told) == warnings
    assert all("group=g topic=t brokers=['b']" in line for line in told)
