"""A broker whose wall clock is set: forward by an hour, back by two, over a restart too. Leases and waits do not notice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from zenitmq.model.clock import SystemClock
from zenitmq.model.properties import encode_properties
from zenitmq.record.kernel import encode_record
from zenitmq.remoting import commands
from zenitmq.remoting.delayed_places import decode_places

HOUR_MS = 3_600_000


class SetClock(SystemClock):
    """`ahead_ms`: by how much somebody has set it forward."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


def send_delayed(broker: Any, body: bytes, delay_ms: int) -> int:
    """Returns when it is due."""
    record = encode_record(topic=b"trades", body=body, properties=encode_properties({"TIMER_DELAY_MS": str(delay_ms)}))
    _, payload = broker.call(commands.SendDelayed("trades", 0, 1), record)
    return decode_places(payload, 1)[0].deliver_at_ms


def bodies(broker: Any, count: int) -> list[bytes]:
    """All of the queue, once there are so many."""
    deadline = time.monotonic() + 10
    while True:
        found = [message.body for message in broker.pull("trades")[1]]
        if len(found) >= count or time.monotonic() > deadline:
            return found
        broker.pull("trades", len(found), suspend_ms=200)


def renewed(broker: Any) -> bool:
    return bool(broker.call(commands.LockQueues("g", "c", (("trades", 0),), True))[0].queues)


def row(broker: Any) -> dict[str, Any]:
    found: dict[str, Any] = broker.ask(commands.GetConsumeStatistics("g"))["queues"][0]
    return found


def test_nothing_is_lost_nor_given_up_when_the_clock_is_set(
    serve: Callable[..., Any], record: Callable[..., bytes]
) -> None:
    clock = SetClock()
    broker = serve(clock=clock, heartbeat_ms=30_000)
    broker.create("trades", queues=1)
    subscribed = commands.Heartbeat("c", (), (("g", "CLUSTERING", (("trades", "TAG", "*"),)),))
    broker.call(subscribed)
    broker.call(commands.LockQueues("g", "c", (("trades", 0),)))
    broker.call(commands.UpdateConsumerOffsets("g", (("trades", 0, 0),), "c"))
    broker.send("trades", record("trades", b"first"))
    due_ms = send_delayed(broker, b"in half an hour", HOUR_MS // 2)
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.extend(broker.pull("trades", 1, suspend_ms=20_000)[1]))
    waiting.start()

    clock.ahead_ms = HOUR_MS
    waiting.join(10)
    assert [message.body for message in got] == [b"in half an hour"], "due by then: it wakes who waits"
    assert due_ms <= got[0].stored_at_ms
    broker.send("trades", record("trades", b"an hour ahead"))
    assert renewed(broker), "a lease is not of the wall clock"
    assert broker.ask(commands.GetConsumeStatistics("g"))["members"] == ["c"]
    assert row(broker)["lag_seconds"] >= HOUR_MS / 1000

    clock.ahead_ms = -HOUR_MS
    send_delayed(broker, b"soon", 300)
    send_delayed(broker, b"in an hour", HOUR_MS)
    broker.send("trades", record("trades", b"an hour behind"))
    all_so_far = bodies(broker, 5)
    assert all_so_far[:3] == [b"first", b"in half an hour", b"an hour ahead"]
    assert sorted(all_so_far[3:]) == [b"an hour behind", b"soon"]
    assert renewed(broker)
    assert row(broker)["lag"] == 5
    assert row(broker)["lag_seconds"] == 0, "stored in what is the future now"

    broker.restart()
    assert bodies(broker, 5) == all_so_far
    clock.ahead_ms = HOUR_MS
    broker.send("trades", record("trades", b"last"))
    assert sorted(bodies(broker, 7)[5:]) == [b"in an hour", b"last"]
    broker.restart()
    time.sleep(0.3)
    assert len(bodies(broker, 7)) == 7, "each once"
