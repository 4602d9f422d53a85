"""The document binds the JSON shape of `zenit bench`, and its figures follow from what was measured."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import numpy as np

from zenitmq.bench.document import picture, result_document
from zenitmq.bench.measure import Measured
from zenitmq.bench.options import BenchOptions
from zenitmq.bench.raw.raw_path import limit_document, raw_shape
from zenitmq.bench.stages import added_stages, broker_stages, client_stages

PROMISED = {
    "work", "size", "batch", "seconds", "messages", "messages_per_second", "bytes_per_second", "latency_us", "limit",
    "share_of_limit", "broker_cpu_seconds_per_million", "kernel", "environment",
}  # fmt: skip


def measured(messages: int, seconds: float = 2.0) -> Measured:
    return Measured(
        messages=messages,
        bytes=messages * 128,
        seconds=seconds,
        latencies=np.array([1000, 2000, 3000], dtype=np.int64),
        timeline=((0.25, 10.0), (0.5, 12.0)),
    )


def document(work: str = "produce") -> dict[str, object]:
    limit = limit_document([measured(3_000_000), measured(5_000_000)], of="raw")
    return result_document(
        BenchOptions(work=work),
        measured(1_000_000),
        batch=256,
        limit=limit,
        cpu_seconds=1.5,
        extra={"kernel": "compiled", "environment": {}},
    )


def test_every_promised_field_is_there_and_is_json() -> None:
    made = document()
    assert set(made) >= PROMISED
    assert json.loads(json.dumps(made)) == made


def test_the_share_is_of_the_mean_of_before_and_after() -> None:
    made = document()
    assert made["messages_per_second"] == 500_000.0
    assert made["bytes_per_second"] == 64_000_000.0
    assert made["share_of_limit"] == 0.25
    assert made["broker_cpu_seconds_per_million"] == 1.5


def test_an_open_loop_has_no_share() -> None:
    assert document("e2e")["share_of_limit"] is None


def test_without_a_limit_there_is_no_share() -> None:
    made = result_document(BenchOptions(work="produce"), measured(10), batch=1, limit=None, cpu_seconds=None, extra={})
    assert (made["limit"], made["share_of_limit"], made["broker_cpu_seconds_per_million"]) == (None, None, None)


def test_the_picture_is_well_formed() -> None:
    ET.fromstring(picture(document(), measured(1_000_000)))


def test_the_raw_load_has_the_shape_of_the_work() -> None:
    post = raw_shape(BenchOptions(work="produce", size=128))
    assert 500 < post.batch < 1200  # 256 KiB of records of 128 B bodies
    assert post.in_flight == 4
    ready = raw_shape(BenchOptions(work="produce", prebuilt=True, batch=256, producers=2))
    assert (ready.batch, ready.in_flight, ready.clients) == (256, 8, 2)
    singles = raw_shape(BenchOptions(work="produce", prebuilt=True, batch=1, in_flight=64))
    assert (singles.batch, singles.in_flight) == (1, 64)
    send = raw_shape(BenchOptions(work="produce", api="send", in_flight=64))
    assert (send.batch, send.in_flight) == (1, 64)
    assert raw_shape(BenchOptions(work="consume", consumers=3)).clients == 3
    popped = raw_shape(BenchOptions(work="pop", consumers=3, at_a_time=8))
    assert (popped.clients, popped.batch, popped.in_flight) == (3, 8, 1)
    assert raw_shape(BenchOptions(work="latency", batch=256)).batch == 1


def test_broker_stages_are_per_message_of_the_sampled_turns() -> None:
    before = added_stages([{"stage": {"ns": 100, "calls": 1}, "commit": {"ns": 50, "calls": 1}}])
    after = added_stages(
        [
            {"stage": {"ns": 2000, "calls": 4}, "commit": {"ns": 3000, "calls": 2}},
            {"stage": {"ns": 2100, "calls": 7}, "commit": {"ns": 1050, "calls": 2}},
        ]
    )
    assert broker_stages(before, after, batch=100) == {"stage": 4.0, "commit": 4.0}
    assert broker_stages(after, after, batch=100) == {}


def test_what_is_left_of_the_wall_clock_is_the_queue() -> None:
    stages = client_stages(build_ns=100, encode_ns=50, send_ns=25, processes=2, messages_per_second=1_000_000)
    assert stages == {"build": 100.0, "encode": 50.0, "send": 25.0, "queue": 1825.0}
