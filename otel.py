"""Traces and metrics of clients for OpenTelemetry; needs `pip install zenitmq[otel]`. docs/guide/opentelemetry.md.

    import zenitmq.otel

    zenitmq.otel.instrument()          # before the clients are made
    producer = zenitmq.Producer("orders")

Every client that is made afterwards in this process is measured: producers and consumers of all kinds, of threads and
of asyncio, with brokers and with engines. Brokers take no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import TracerProvider, get_tracer

from .client.tracing.client_telemetry import current, measure_with
from .client.tracing.otel.conventions import SCHEMA_URL, SCOPE
from .client.tracing.otel.spans import OtelTelemetry
from .model.names import VERSION
from .record.kernel import StoredMessage

__all__ = ["instrument", "processing", "uninstrument"]


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    create_spans: bool = False,
    parent_single: bool = False,
) -> None:
    """From now on new clients make spans and metrics. Without providers those of the program (`set_tracer_provider`).

    `create_spans`: a span for each message that is sent, besides that of its batch. `parent_single`: the span of a handler
    that is called with one message is a child of the message's context, in one trace with its sender; otherwise it only links
    to it. Called again, it replaces what was chosen before, for the clients that follow.
    """
    tracer = get_tracer(SCOPE, VERSION, tracer_provider, SCHEMA_URL)
    meter = get_meter(SCOPE, VERSION, meter_provider, SCHEMA_URL)
    measure_with(OtelTelemetry(tracer, meter, create_spans=create_spans, parent_single=parent_single))


def uninstrument() -> None:
    """New clients make none any more; those that exist go on."""
    measure_with(None)


def processing(messages: Sequence[StoredMessage], *, group: str = "") -> AbstractContextManager[object]:
    """A `process` span around what a program does with messages that it pulled or received itself.

        for message in consumer.receive():
            with zenitmq.otel.processing([message], group="billing"):
                ...

    A push consumer needs none: each call of its handler has one. Does nothing without `instrument()`, or without messages.
    """
    telemetry = current()
    if not isinstance(telemetry, OtelTelemetry) or not messages:
        return nullcontext()
    return telemetry.processing(messages, group=group)
