"""One class of request cannot starve another: a flood in one lane, and the others are answered."""

from __future__ import annotations

import time
from typing import Any

import pytest

from zenitmq.model.errors import BrokerBusy
from zenitmq.remoting.commands import (
    CreateTopic,
    Done,
    GetMaxOffset,
    Heartbeat,
    HeartbeatReply,
    Lane,
    OffsetReply,
    PullMessages,
    PullReply,
    Request,
    SendMessages,
    SendReply,
)
from zenitmq.remoting.header import decode_reply, encode_request
from zenitmq.remoting.lanes import DEFAULT_LANES, LaneLimits

PULL = PullMessages("g", "t", 0, 0, 1, 1)
FLOOD = 3000
SLOW_S = 0.001  # a pull takes this long, so that the whole flood would take three seconds

OTHERS: list[Request] = [SendMessages("t", 0, 1), GetMaxOffset("t", 0), CreateTopic("t", 1, 1), Heartbeat("c")]


def slow_pull(_: Any) -> PullReply:
    time.sleep(SLOW_S)
    return PullReply(0, 0, 0, 0, 0)


HANDLERS = {
    PullMessages: slow_pull,
    SendMessages: lambda _: SendReply(0, 0, 0, 0, b""),
    GetMaxOffset: lambda _: OffsetReply(0),
    CreateTopic: lambda _: Done(),
    Heartbeat: lambda _: HeartbeatReply(1),
}


def limits(**changed: int) -> dict[Lane, LaneLimits]:
    pull = {"queue_max": FLOOD, "in_flight_max": FLOOD, "deadline_ms": 60_000, "share": 64, **changed}
    return {**DEFAULT_LANES, Lane.PULL: LaneLimits(**pull)}


@pytest.mark.parametrize("other", OTHERS, ids=lambda request: request.lane.value)
def test_a_flood_of_pulls_leaves_the_others_their_turn(
    serve: Any, raw: Any, client: Any, until: Any, other: Request
) -> None:
    served = serve(HANDLERS, lanes=limits())
    flooder = raw(served.address, SNDHWM=0)
    for index in range(FLOOD):
        flooder.send(encode_request(PULL, index, timeout_ms=60_000))
    assert until(lambda: served.loop.statistics().lanes[Lane.PULL].queued > 0)
    client.call(served.address, other, timeout_ms=5000)
    worst_s = 0.0
    for _ in range(20):
        begin = time.monotonic()
        client.call(served.address, other, timeout_ms=5000)
        worst_s = max(worst_s, time.monotonic() - begin)
    assert served.loop.statistics().lanes[Lane.PULL].queued > 100, "the flood was over too soon to show anything"
    assert worst_s < 0.3


def test_what_is_over_the_lanes_limit_is_told_to_come_again(serve: Any, raw: Any) -> None:
    served = serve(HANDLERS, lanes=limits(queue_max=100, in_flight_max=200))
    flooder = raw(served.address, SNDHWM=0)
    for index in range(1000):
        flooder.send(encode_request(PULL, index, timeout_ms=60_000))
    answers = dict(decode_reply(flooder.receive()[0], PullReply) for _ in range(1000))
    refused = [answer for answer in answers.values() if isinstance(answer, BrokerBusy)]
    assert len(answers) == 1000
    assert refused
    assert all(answer.retry_after_ms > 0 for answer in refused)
    lane = served.loop.statistics().lanes[Lane.PULL]
    assert (lane.handled, lane.refused) == (1000 - len(refused), len(refused))
    assert lane.handled >= 100


@pytest.mark.parametrize(("lane_ms", "own_ms"), [(50, 60_000), (60_000, 50)], ids=["the lane's", "the caller's own"])
def test_what_waited_past_a_deadline_is_refused(serve: Any, raw: Any, lane_ms: int, own_ms: int) -> None:
    served = serve(HANDLERS, lanes=limits(deadline_ms=lane_ms))
    flooder = raw(served.address, SNDHWM=0)
    for index in range(400):
        flooder.send(encode_request(PULL, index, timeout_ms=own_ms))
    answers = [decode_reply(flooder.receive()[0], PullReply)[1] for _ in range(400)]
    assert any(isinstance(answer, BrokerBusy) and "too long" in answer.reason for answer in answers)
    assert any(isinstance(answer, PullReply) for answer in answers)
