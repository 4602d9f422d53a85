"""What waits is kept: past retention, through a lost index, in stores that RocketMQ wrote, and each is delivered once."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_kit import unpack_golden

from zenitmq.model.properties import encode_properties
from zenitmq.record.kernel import encode_record
from zenitmq.remoting import commands
from zenitmq.remoting.delayed_places import decode_places


def send_delayed(broker: Any, topic: str, *bodies: bytes, delay_ms: int) -> list[Any]:
    properties = encode_properties({"TIMER_DELAY_MS": str(delay_ms)})
    records = [encode_record(topic=topic.encode(), body=body, properties=properties) for body in bodies]
    _, payload = broker.call(commands.SendDelayed(topic, 0, len(records)), b"".join(records))
    return decode_places(payload, len(records))


def wait_until(holds: Callable[[], bool], within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def count(broker: Any, topic: str) -> int:
    offset: int = broker.call(commands.GetMaxOffset(topic, 0))[0].offset
    return offset


def delays(broker: Any) -> dict[str, Any]:
    document: dict[str, Any] = broker.ask(commands.GetBrokerStatistics())["delays"]
    return document


def log_begin(broker: Any) -> int:
    begin: int = broker.ask(commands.GetBrokerStatistics())["store"]["begin_offset"]
    return begin


def test_a_message_outlives_the_segment_it_waits_in(serve: Callable[..., Any], record: Callable[..., bytes]) -> None:
    broker = serve(
        store={
            "segment_bytes": 32 << 10,
            "record_bytes_max": 16 << 10,
            "body_bytes_max": 8 << 10,
            "retention_ms": 500,
            "checkpoint_interval_ms": 50,
            "delete_unconsumed": True,
        }
    )
    broker.create("t")
    broker.create("noise")
    began = time.monotonic()
    places = send_delayed(broker, "t", b"one", b"two", delay_ms=20_000)
    last = places[-1].physical_offset

    def rolled_past() -> bool:
        broker.send("noise", *(record("noise", bytes(4000)) for _ in range(5)))
        return log_begin(broker) > last

    wait_until(rolled_past, 18)
    assert delays(broker)["waiting"] == 2
    assert time.monotonic() - began < 20, "the machine was too slow to show it"
    broker.restart()
    wait_until(lambda: count(broker, "t") == 2)
    messages = broker.pull("t")[1]
    assert [message.body for message in messages] == [b"one", b"two"]
    assert all(message.stored_at_ms >= place.deliver_at_ms for message, place in zip(messages, places, strict=True))
    time.sleep(0.5)
    assert count(broker, "t") == 2


def test_an_index_that_is_lost_is_made_again_from_the_log(serve: Callable[..., Any], tmp_path: Path) -> None:
    broker = serve()
    broker.create("t")
    send_delayed(broker, "t", b"soon", delay_ms=100)
    send_delayed(broker, "t", b"late", delay_ms=4000)
    wait_until(lambda: count(broker, "t") == 1)
    broker.stop()
    shutil.rmtree(tmp_path / "store" / "timers")
    broker.start()
    assert delays(broker)["waiting"] == 1
    wait_until(lambda: count(broker, "t") == 2)
    time.sleep(0.3)
    assert [message.body for message in broker.pull("t")[1]] == [b"soon", b"late"]


def test_damage_where_a_message_waits_costs_that_message_only(serve: Callable[..., Any], tmp_path: Path) -> None:
    broker = serve()
    broker.create("t")
    damaged, _ = send_delayed(broker, "t", b"damaged", b"whole", delay_ms=3000)
    segment = tmp_path / "store" / "commitlog" / f"{0:020d}"
    with open(segment, "r+b") as file:
        file.seek(damaged.physical_offset + 90)
        file.write(b"?")
    wait_until(lambda: count(broker, "t") == 1)
    assert [message.body for message in broker.pull("t")[1]] == [b"whole"]
    wait_until(lambda: delays(broker)["lost"] == 1)
    told = delays(broker)
    assert (told["waiting"], told["discarded"], told["damaged"]) == (1, 0, 1)


@pytest.mark.parametrize("name", ["file-clean", "file-killed"])
def test_what_rocketmq_left_waiting_is_delivered_once(name: str, serve: Callable[..., Any], tmp_path: Path) -> None:
    store = unpack_golden(name, tmp_path / "golden")
    sent = [json.loads(line) for line in (store.parent / "expected.jsonl").read_text().splitlines()]
    wanted = Counter(entry["msg_id"] for entry in sent if entry["topic"] == "reminders")
    broker = serve("golden/store", store={"segment_bytes": 65_536, "retention_ms": 1 << 40})

    def arrived() -> Counter[str]:
        found: Counter[str] = Counter()
        for queue_id in range(8):
            try:
                found.update(message.message_id for message in broker.pull("reminders", queue_id=queue_id)[1])
            except Exception:  # noqa: BLE001  # no such queue
                break
        return found

    wait_until(lambda: arrived() == wanted)
    broker.restart()
    time.sleep(1)
    assert arrived() == wanted
    assert delays(broker)["waiting"] == 0
