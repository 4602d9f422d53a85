"""Spans and metrics of all clients, as OpenTelemetry's own SDK gets them."""

from __future__ import annotations

import asyncio
import http.server
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

import zenitmq.otel
from zenitmq import (
    FIRST,
    Admin,
    ConsumeResult,
    LiteConsumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    Resolution,
    SimpleConsumer,
    StoredMessage,
    TopicNotFound,
    TransactionProducer,
    aio,
)
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.testing import LocalCluster, MemoryCluster


@dataclass
class Seen:
    """A program's SDK, with everything in memory."""

    sampler: Any = ALWAYS_ON
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def __post_init__(self) -> None:
        self.tracers = TracerProvider(sampler=self.sampler)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])
        self.tracer = self.tracers.get_tracer("program")

    def instrument(self, **choices: bool) -> None:
        zenitmq.otel.instrument(tracer_provider=self.tracers, meter_provider=self.meters, **choices)

    def spans(self, name: str, count: int = 0) -> list[ReadableSpan]:
        """The ended ones of that name; waits until there are `count`."""
        deadline_ms = monotonic_ms() + 10_000
        while True:
            found = [span for span in self.exporter.get_finished_spans() if span.name == name]
            if len(found) >= count or monotonic_ms() > deadline_ms:
                return found
            sleep_ms(5)

    def sums(self, metric: str) -> dict[tuple[Any, ...], float]:
        """{(operation, topic, error): count of what was measured}."""
        data: Any = self.reader.get_metrics_data()
        found: dict[tuple[Any, ...], float] = {}
        for one in data.resource_metrics[0].scope_metrics[0].metrics if data else ():
            for point in one.data.data_points if one.name == metric else ():
                facts = point.attributes
                name = facts["messaging.operation.name"], facts["messaging.destination.name"], facts.get("error.type")
                found[name] = found.get(name, 0) + getattr(point, "value", getattr(point, "count", 0))
        return found


@pytest.fixture
def seen() -> Iterator[Seen]:
    made = Seen()
    made.instrument()
    yield made
    zenitmq.otel.uninstrument()


@pytest.fixture(scope="module")
def memory() -> Iterator[MemoryCluster]:
    with MemoryCluster() as cluster:
        yield cluster


@pytest.fixture
def topic(memory: MemoryCluster, request: pytest.FixtureRequest) -> str:
    return memory.create_topic(request.node.originalname[:60], queues=1)


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def pulled(namesrv: str, topic: str, count: int) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    deadline_ms = monotonic_ms() + 10_000
    with PullConsumer("pullers", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        while len(found) < count and monotonic_ms() < deadline_ms:
            found += consumer.poll(timeout=0.5)
    return found


@pytest.mark.parametrize("where", ["memory", "embedded", "local", "cluster"])
def test_a_message_is_followed_from_its_sender_to_its_reader(
    where: str, seen: Seen, memory: MemoryCluster, one_broker: LocalCluster, tmp_path: Any
) -> None:
    """On every engine, and with a broker."""
    places = {"memory": memory.namesrv, "cluster": one_broker.namesrv}
    namesrv = places.get(where, f"{where}://{tmp_path}")
    topic = f"followed-{where}"
    with Admin(namesrv) as admin:
        admin.create_topic(topic, queues=1)
        with seen.tracer.start_as_current_span("request") as caller, Producer("p", namesrv=namesrv) as producer:
            receipt = producer.send(Message(topic, b"body", tags="buy", keys=["k1", "k2"]))
        (message,) = pulled(namesrv, topic, 1)
    (sent,) = seen.spans(f"send {topic}")
    (got,) = seen.spans(f"receive {topic}")
    trace_id, span_id = ids(sent)
    assert sent.parent is not None
    assert (sent.parent.span_id, sent.kind) == (caller.get_span_context().span_id, SpanKind.PRODUCER)
    assert message.properties["traceparent"] == f"00-{trace_id:032x}-{span_id:016x}-01"
    assert (linked(got), got.kind) == ([ids(sent)], SpanKind.CLIENT)
    assert dict(sent.attributes or {}) == {
        "messaging.system.name": "zenitmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": f"{receipt.queue.broker_name}:{receipt.queue.queue_id}",
        "messaging.message.id": receipt.message_id,
        "messaging.message.body.size": 4,
        "rocketmq.message.tag": "buy",
        "rocketmq.message.keys": ("k1", "k2"),
        "rocketmq.message.type": "normal",
    }
    assert (got.attributes or {})["messaging.consumer.group.name"] == "pullers"
    assert seen.sums("messaging.client.sent.messages") == {("send", topic, None): 1}
    assert seen.sums("messaging.client.consumed.messages") == {("receive", topic, None): 1}
    assert set(seen.sums("messaging.client.operation.duration")) == {("send", topic, None), ("receive", topic, None)}


def test_a_batch_is_one_span_whose_context_each_message_carries(seen: Seen, memory: MemoryCluster, topic: str) -> None:
    with Producer(namesrv=memory.namesrv) as producer:
        producer.send_batch([Message(topic, b"1"), Message(topic, b"2")])
        producer.send_bodies(topic, [b"3", b"4", b"5"], tags=["a", "b", "c"], keys=["x", "y", "z"])
        producer.send_oneway(Message(topic, b"6"))
    messages = pulled(memory.namesrv, topic, 6)
    spans = seen.spans(f"send {topic}")
    assert [(span.attributes or {}).get("messaging.batch.message_count") for span in spans] == [2, 3, None]
    assert [message.properties["traceparent"][36:52] for message in messages] == [
        f"{ids(spans[at])[1]:016x}" for at in (0, 0, 1, 1, 1, 2)
    ]
    assert [(message.tags, message.keys) for message in messages[2:5]] == [("a", ("x",)), ("b", ("y",)), ("c", ("z",))]
    assert seen.sums("messaging.client.sent.messages") == {("send", topic, None): 6}


def test_what_is_sent_in_the_background_carries_its_callers_context(
    seen: Seen, memory: MemoryCluster, topic: str
) -> None:
    with Producer(namesrv=memory.namesrv) as producer:
        producer.post(topic, b"of nobody")
        with seen.tracer.start_as_current_span("one") as one:
            for _ in range(3):
                producer.post(topic, b"of one")
        with seen.tracer.start_as_current_span("two") as two:
            producer.send_async(Message(topic, b"of two")).result(10)
    carried = {
        message.body: message.properties.get("traceparent", "")[36:52] for message in pulled(memory.namesrv, topic, 5)
    }
    spans = {b"of one": one.get_span_context().span_id, b"of two": two.get_span_context().span_id}
    assert carried == {b"of nobody": ""} | {body: f"{span_id:016x}" for body, span_id in spans.items()}
    batches = seen.spans(f"send {topic}")
    assert sum((span.attributes or {})["messaging.batch.message_count"] for span in batches) == 5  # type: ignore[misc]
    assert {span_id for span in batches for _, span_id in linked(span)} == set(spans.values())
    assert {(span.kind, span.parent) for span in batches} == {(SpanKind.CLIENT, None)}


def test_create_spans_are_of_each_message(seen: Seen, memory: MemoryCluster, topic: str) -> None:
    seen.instrument(create_spans=True)
    with Producer(namesrv=memory.namesrv) as producer:
        producer.send_batch([Message(topic, b"1"), Message(topic, b"2" * 300_000)])  # needs a larger buffer
        producer.send_async(Message(topic, b"3"))
        producer.flush()
    carried = [message.properties["traceparent"][36:52] for message in pulled(memory.namesrv, topic, 3)]
    created = seen.spans(f"create {topic}")
    assert carried == [f"{ids(span)[1]:016x}" for span in created]
    together, alone = seen.spans(f"send {topic}")
    assert (linked(together), linked(alone)) == ([ids(span) for span in created[:2]], [ids(created[2])])
    assert {(together.kind, alone.kind, created[0].kind)} == {(SpanKind.CLIENT, SpanKind.CLIENT, SpanKind.PRODUCER)}


def test_a_context_that_the_sender_chose_stays(seen: Seen, memory: MemoryCluster, topic: str) -> None:
    own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with Producer(namesrv=memory.namesrv) as producer, seen.tracer.start_as_current_span("caller"):
        producer.send(Message(topic, b"1", properties={"traceparent": own}))
        producer.send_async(Message(topic, b"2", properties={"traceparent": own})).result(10)
    assert [message.properties["traceparent"] for message in pulled(memory.namesrv, topic, 2)] == [own, own]
    assert [f"{linked(span)[0][1]:016x}" for span in seen.spans(f"send {topic}")] == [own[36:52]] * 2


def test_what_is_not_sampled_carries_nothing_but_is_measured(memory: MemoryCluster, topic: str) -> None:
    seen = Seen(sampler=ALWAYS_OFF)
    seen.instrument()
    try:
        with Producer(namesrv=memory.namesrv) as producer, seen.tracer.start_as_current_span("caller"):
            producer.send_bodies(topic, [b"1", b"2"])
            producer.post(topic, b"3")
        assert ["traceparent" in message.properties for message in pulled(memory.namesrv, topic, 3)] == [False] * 3
    finally:
        zenitmq.otel.uninstrument()
    assert not seen.exporter.get_finished_spans()
    assert seen.sums("messaging.client.sent.messages") == {("send", topic, None): 3}


def test_an_error_is_the_spans_and_the_measurements(seen: Seen, memory: MemoryCluster) -> None:
    with Producer(namesrv=memory.namesrv, timeout=0.3) as producer, pytest.raises(TopicNotFound):
        producer.send_batch([Message("nowhere", b"1")])
    (span,) = seen.spans("send nowhere")
    assert (span.status.status_code, (span.attributes or {})["error.type"]) == (StatusCode.ERROR, "TopicNotFound")
    assert seen.sums("messaging.client.operation.duration") == {("send", "nowhere", "TopicNotFound"): 1}


def test_delayed_and_ordered_messages_and_transactions_say_so(seen: Seen, memory: MemoryCluster, topic: str) -> None:
    with Producer(namesrv=memory.namesrv) as producer:
        producer.send(Message(topic, b"1", delay=timedelta(seconds=60)))
        producer.send(Message(topic, b"2"), sharding_key="user-7")
    with TransactionProducer("t", lambda _: Resolution.COMMIT, namesrv=memory.namesrv) as transactions:
        with seen.tracer.start_as_current_span("caller") as caller:
            transactions.send(Message(topic, b"3"), execute=lambda _: Resolution.COMMIT)
        transactions.send(Message(topic, b"4"), execute=lambda _: Resolution.COMMIT)
    spans = seen.spans(f"send {topic}")
    types = [(span.attributes or {})["rocketmq.message.type"] for span in spans]
    assert types == ["delay", "fifo", "transaction", "transaction"]
    carried = {message.body: message.properties["traceparent"][36:52] for message in pulled(memory.namesrv, topic, 3)}
    assert carried[b"3"] == f"{caller.get_span_context().span_id:016x}"
    assert carried[b"4"] == f"{ids(spans[3])[1]:016x}"


def consumed(
    namesrv: str, topic: str, seen: Seen, handler: Callable[[list[StoredMessage]], Any], count: int, **settings: Any
) -> list[ReadableSpan]:
    consumer = PushConsumer("pushed", namesrv=namesrv, start_from=FIRST, **settings)
    consumer.subscribe(topic)
    consumer.on_message(handler)
    with consumer:
        return seen.spans(f"process {topic}", count)


def test_a_handlers_call_is_a_span_that_links_to_its_messages(seen: Seen, memory: MemoryCluster, topic: str) -> None:
    current = []

    def handle(messages: list[StoredMessage]) -> ConsumeResult | None:
        current.append(get_current_span().get_span_context().span_id)
        if messages[0].body == b"fails" and not messages[0].reconsume_times:
            raise ValueError("no")
        return ConsumeResult.DEAD_LETTER if messages[0].body == b"dead" else None

    with Producer(namesrv=memory.namesrv) as producer:
        for body in (b"works", b"fails", b"dead"):
            producer.send(Message(topic, body))
    spans = consumed(memory.namesrv, topic, seen, handle, 3)[:3]
    sent = seen.spans(f"send {topic}")[:3]
    assert sorted(linked(span)[0] for span in spans) == sorted(ids(span) for span in sent)
    assert {ids(span)[1] for span in spans} <= set(current)
    assert {(span.kind, span.parent) for span in spans} == {(SpanKind.CONSUMER, None)}
    errors = sorted((str((span.attributes or {}).get("error.type")), span.status.status_code.name) for span in spans)
    assert errors == [("DEAD_LETTER", "UNSET"), ("None", "UNSET"), ("ValueError", "ERROR")]
    attributes = spans[0].attributes or {}
    assert attributes["rocketmq.consumption_model"] == "clustering"
    assert attributes["messaging.consumer.group.name"] == "pushed"
    assert ("process", topic, "ValueError") in seen.sums("messaging.process.duration")
    assert seen.sums("messaging.client.consumed.messages")["process", topic, None] >= 3


def test_a_single_message_may_be_a_child(seen: Seen, memory: MemoryCluster, topic: str) -> None:
    seen.instrument(parent_single=True)
    with Producer(namesrv=memory.namesrv) as producer:
        producer.send(Message(topic, b"1"))
    (span,) = consumed(memory.namesrv, topic, seen, lambda _: None, 1)
    (sent,) = seen.spans(f"send {topic}")
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == ids(sent)
    assert not span.links


def test_a_handlers_call_links_to_128_messages_at_most(seen: Seen, memory: MemoryCluster, topic: str) -> None:
    seen.instrument(create_spans=True)
    with Producer(namesrv=memory.namesrv) as producer:
        producer.send_batch([Message(topic, b"x") for _ in range(200)])
    spans = consumed(memory.namesrv, topic, seen, lambda _: None, 1, batch_size=200)
    assert max(len(span.links) for span in spans) == 128


def test_pop_receives_and_settles(seen: Seen, memory: MemoryCluster, topic: str) -> None:
    with Producer(namesrv=memory.namesrv) as producer:
        producer.send_batch([Message(topic, b"%d" % number) for number in range(4)])
    with SimpleConsumer("popped", namesrv=memory.namesrv) as consumer:
        consumer.subscribe(topic)
        messages: list[StoredMessage] = []
        while len(messages) < 4:
            messages += consumer.receive(4, wait=1.0)
        with zenitmq.otel.processing(messages[:1], group="popped"):
            consumer.ack(messages[0])
        consumer.ack(messages[1], wait=True)
        consumer.change_invisible(messages[2], 30.0)
        consumer.dead_letter(messages[3])
    (sent,) = seen.spans(f"send {topic}")
    assert {linked(span)[0] for span in seen.spans(f"receive {topic}")} == {ids(sent)}
    assert linked(seen.spans(f"process {topic}")[0]) == [ids(sent)]
    acks = seen.spans(f"ack {topic}", 1)
    assert sum((span.attributes or {})["messaging.batch.message_count"] for span in acks) == 2  # type: ignore[misc]
    for operation in ("change_invisible", "dead_letter"):
        (span,) = seen.spans(f"{operation} {topic}")
        assert (span.attributes or {})["messaging.operation.type"] == "settle"
    assert seen.sums("messaging.client.consumed.messages") == {("receive", topic, None): 4}


def test_lite_consumers_and_iteration(seen: Seen, memory: MemoryCluster, topic: str) -> None:
    with Admin(memory.namesrv) as admin:
        admin.create_topic(f"{topic}-lite", queues=1, attributes={"message.type": "LITE"})
    with Producer(namesrv=memory.namesrv) as producer:
        producer.send(Message(f"{topic}-lite", b"1", lite_topic="session"))
        producer.send(Message(topic, b"2"))
    with LiteConsumer("lite", namesrv=memory.namesrv) as lite:
        lite.subscribe(f"{topic}-lite", ["session"])
        while not (received := lite.receive(1, wait=1.0)):
            pass
        lite.ack(received[0], wait=True)
    with PullConsumer("iterating", namesrv=memory.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        for _ in consumer:
            break
    for name in (f"{topic}-lite", topic):
        (sent,) = seen.spans(f"send {name}")
        assert linked(seen.spans(f"receive {name}")[0]) == [ids(sent)]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_asyncio_keeps_each_tasks_context(seen: Seen, memory: MemoryCluster, topic: str) -> None:
    current: dict[bytes, int] = {}

    async def handle(messages: list[StoredMessage]) -> None:
        await asyncio.sleep(0.01)
        current[messages[0].body] = get_current_span().get_span_context().span_id

    async def send(producer: aio.Producer, name: str) -> int:
        with seen.tracer.start_as_current_span(name) as span:
            producer.post(topic, b"post " + name.encode())
            await producer.send(Message(topic, b"send " + name.encode()))
            return span.get_span_context().span_id

    async def run() -> list[int]:
        async with aio.Producer(namesrv=memory.namesrv) as producer:
            callers = await asyncio.gather(*(send(producer, name) for name in "ab"))
        consumer = aio.PushConsumer("aio", namesrv=memory.namesrv, start_from=FIRST)
        await consumer.subscribe(topic)
        consumer.on_message(handle)
        async with consumer:
            await asyncio.wait_for(until(lambda: len(current) == 4), 10)
        return list(callers)

    callers = asyncio.run(run())
    spans = seen.spans(f"process {topic}", 4)
    assert {ids(span)[1] for span in spans} == set(current.values())
    parents = {span.parent.span_id for span in seen.spans(f"send {topic}") if span.parent is not None}
    assert parents == set(callers)
    links = {span_id for span in spans for _, span_id in linked(span)}
    assert set(callers) < links
    assert len(links) == 4


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes what an OTLP exporter sends over HTTP."""

    taken: list[ExportTraceServiceRequest]

    def do_POST(self) -> None:
        self.taken.append(ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_a_collector_gets_the_spans(memory: MemoryCluster, topic: str) -> None:
    Collector.taken = []
    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        tracers = TracerProvider()
        exporter = OTLPSpanExporter(f"http://127.0.0.1:{server.server_address[1]}/v1/traces")
        tracers.add_span_processor(SimpleSpanProcessor(exporter))
        zenitmq.otel.instrument(tracer_provider=tracers)
        try:
            with Producer(namesrv=memory.namesrv) as producer:
                producer.send(Message(topic, b"1", keys=["k"]))
        finally:
            zenitmq.otel.uninstrument()
            tracers.shutdown()
            server.shutdown()
            thread.join(10)
    ((scope,),) = [[scope for one in taken.resource_spans for scope in one.scope_spans] for taken in Collector.taken]
    assert (scope.scope.name, scope.schema_url) == ("zenitmq", "https://opentelemetry.io/schemas/1.45.0")
    assert [span.name for span in scope.spans] == [f"send {topic}"]
    assert "rocketmq.message.keys" in {attribute.key for attribute in scope.spans[0].attributes}


def test_without_it_nothing_of_it_is_imported_and_nobody_measures() -> None:
    script = (
        "import sys, zenitmq; from zenitmq import Producer, PushConsumer, SimpleConsumer\n"
        "producer = Producer(namesrv='memory://off')\n"
        "assert producer._in_context is None and type(producer._waited).__name__ == 'WaitedSends'\n"
        "producer.close()\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_processing_does_nothing_while_nobody_measures(memory: MemoryCluster, topic: str) -> None:
    with Producer(namesrv=memory.namesrv) as producer:
        producer.send(Message(topic, b"1"))
    messages = pulled(memory.namesrv, topic, 1)
    with zenitmq.otel.processing(messages):
        assert not get_current_span().get_span_context().is_valid
    with zenitmq.otel.processing([]):
        pass
