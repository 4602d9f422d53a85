"""What clients do, as OpenTelemetry's spans and metrics: one span at the edge of each batch.

    create {topic}   PRODUCER  by choice: one for each message, whose context travels with it
    send {topic}     PRODUCER  a send that is waited for: its context travels with its messages
                     CLIENT    a batch in the background, or with create spans: it links to what its messages carry
    receive {topic}  CLIENT    what a consumer asked for and got; nothing for what is only fetched ahead
    process {topic}  CONSUMER  a handler's call; it links to what its messages carry, at most 128
    ack, ...         CLIENT    a broker took acknowledgements, or another end of messages

A message carries a context only if that is sampled: as its property `traceparent` (traceparent.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from opentelemetry import context as contexts
from opentelemetry.metrics import Meter
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from ....model.clock import monotonic_ns, now_ns
from ....model.queue import MessageQueue
from ....record.kernel import Accumulator, StoredMessage
from ...consuming.push.handler_pool import ConsumeResult, Handle
from ...sending.outgoing import Fill, Parts
from ...sending.ready_batch import ReadyBatch
from ..trace_records import Messages
from .conventions import (
    BATCH_COUNT,
    ERROR_TYPE,
    MESSAGE_ID,
    PARTITION,
    Value,
    attributes_of,
)
from .measures import Measures
from .traceparent import LINKS_MAX, TRACEPARENT, Ids, encoded_traceparent, has_traceparent, ids_in_records, ids_of

MS: Final = 1_000_000


class OtelTelemetry:
    """A `ClientTelemetry`. `create_spans`: a span for each message that is sent. `parent_single`: the handler's span of a
    single message is a child of what the message carries, instead of linking to it."""

    def __init__(self, tracer: Tracer, meter: Meter, *, create_spans: bool, parent_single: bool) -> None:
        self._tracer = tracer
        self._measures = Measures(meter)
        self._create_spans = create_spans
        self._parent_single = parent_single

    # ---- sending

    def begin_send(self, topic: str, message_type: str) -> OtelSend:
        """See `ClientTelemetry`."""
        kind = SpanKind.CLIENT if self._create_spans else SpanKind.PRODUCER
        attributes = attributes_of("send", topic, message_type=message_type)
        span = self._tracer.start_span(f"send {topic}", kind=kind, attributes=attributes)
        return OtelSend(span, self._measures, topic, self.created if self._create_spans else None)

    def in_context(self, topic: str, parts: Parts) -> Parts:
        """See `ClientTelemetry`."""
        if has_traceparent(parts[3]):
            return parts
        extra = self.created(topic, parts) if self._create_spans else _carried(get_current_span().get_span_context())
        return _with_property(parts, extra)

    def created(self, topic: str, parts: Parts) -> bytes:
        """The property of a message with a create span of its own; b"" if that is not sampled."""
        attributes = attributes_of("create", topic, **_facts_of(parts))
        span = self._tracer.start_span(f"create {topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        span.end()
        return _carried(span.get_span_context())

    def on_batch(
        self,
        topic: str,
        records: memoryview,
        count: int,
        queue: MessageQueue | None,
        error: BaseException | None,
        cost_ms: int,
    ) -> None:
        """See `ClientTelemetry`."""
        kind = None if error is None else _class_of(error)
        self._measures.on_sent(topic, count, cost_ms * MS, kind)
        attributes = attributes_of("send", topic, batch_count=count, partition=_partition(queue), error_type=kind)
        span = self._tracer.start_span(
            f"send {topic}",
            context=contexts.Context(),  # it is of several callers: of none of their traces
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=[Link(_remote(ids)) for ids in ids_in_records(records)],
            start_time=now_ns() - cost_ms * MS,
        )
        _end(span, error)

    # ---- consuming

    def handled(self, group: str, model: str, handle: Handle) -> Handle:
        """See `ClientTelemetry`."""

        async def handle_told(messages: list[StoredMessage]) -> ConsumeResult | None:
            self._measures.on_delivered("process", messages[0].topic, group, len(messages))
            with self.processing(messages, group=group, model=model) as told:
                result = await handle(messages)
                told.result = result
                return result

        return handle_told

    @contextmanager
    def processing(
        self, messages: Sequence[StoredMessage], *, group: str, model: str | None = None
    ) -> Iterator[Processing]:
        """A process span around what is done with messages; it is the current one meanwhile."""
        topic = messages[0].topic
        found = list(_contexts_of(messages))
        parent = contexts.get_current()
        if self._parent_single and len(messages) == 1 and found:
            parent, found = set_span_in_context(NonRecordingSpan(_remote(found[0])), parent), []
        span = self._tracer.start_span(
            f"process {topic}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=_attributes_of_messages("process", messages, group=group or None, model=model),
            links=[Link(_remote(ids)) for ids in found],
        )
        told, begun_ns = Processing(), monotonic_ns()
        token = contexts.attach(set_span_in_context(span, parent))
        error: BaseException | None = None
        try:
            yield told
        except BaseException as raised:
            error = raised
            raise
        finally:
            contexts.detach(token)
            kind = told.error_type if error is None else _class_of(error)
            self._measures.on_processed(topic, group, monotonic_ns() - begun_ns, kind)
            if kind is not None:
                span.set_attribute(ERROR_TYPE, kind)
            _end(span, error)

    def on_received(self, group: str, messages: Messages, begun_ns: int) -> None:
        """See `ClientTelemetry`. Messages of several topics make a span each."""
        duration_ns = monotonic_ns() - begun_ns
        by_topic: dict[str, list[StoredMessage]] = {}
        for message in messages:
            by_topic.setdefault(message.topic, []).append(message)
        for topic, some in by_topic.items():
            self._measures.on_delivered("receive", topic, group, len(some))
            self._measures.on_operation("receive", topic, group, duration_ns, None)
            span = self._tracer.start_span(
                f"receive {topic}",
                kind=SpanKind.CLIENT,
                attributes=_attributes_of_messages("receive", some, group=group or None),
                links=[Link(_remote(ids)) for ids in _contexts_of(some)],
                start_time=now_ns() - duration_ns,
            )
            span.end()

    def on_settled(
        self, group: str, topic: str, operation: str, count: int, begun_ns: int, error: BaseException | None
    ) -> None:
        """See `ClientTelemetry`."""
        duration_ns = monotonic_ns() - begun_ns
        kind = None if error is None else _class_of(error)
        self._measures.on_operation(operation, topic, group, duration_ns, kind)
        span = self._tracer.start_span(
            f"{operation} {topic}",
            kind=SpanKind.CLIENT,
            attributes=attributes_of(operation, topic, group=group, batch_count=count, error_type=kind),
            start_time=now_ns() - duration_ns,
        )
        _end(span, error)


class Processing:
    """What a handler answered; None until it did, and for success."""

    result: ConsumeResult | None = None

    @property
    def error_type(self) -> str | None:
        """The answer as an error; None for success."""
        return None if self.result in (None, ConsumeResult.SUCCESS) else cast(ConsumeResult, self.result).value


class OtelSend:
    """A `ToldSend`. `created`: makes the property of each message; None: all carry the send's own context."""

    def __init__(
        self, span: Span, measures: Measures, topic: str, created: Callable[[str, Parts], bytes] | None
    ) -> None:
        self._span = span
        self._measures = measures
        self._topic = topic
        self._created = created
        self._own = b"" if created is not None else _carried(span.get_span_context())
        self._begun_ns = monotonic_ns()
        self._filling: _Filling | None = None
        self._count = 1

    def filled(self, fill: Fill) -> Fill:
        """See `ToldSend`."""
        if not self._own and self._created is None and not self._span.is_recording():

            def fill_counted(accumulator: Accumulator) -> bool:
                is_whole = fill(accumulator)
                self._count = accumulator.count
                return is_whole

            return fill_counted
        properties: dict[int, bytes] = {}  # a batch that needs a larger buffer is filled once more

        def fill_told(accumulator: Accumulator) -> bool:
            self._filling = filling = _Filling(accumulator, self._property, properties)
            is_whole = fill(cast(Accumulator, filling))
            self._count = accumulator.count
            return is_whole

        return fill_told

    def _property(self, parts: Parts) -> bytes:
        if has_traceparent(parts[3]):
            return b""
        return self._own if self._created is None else self._created(self._topic, parts)

    def on_stored(self, batch: ReadyBatch, queue: MessageQueue, message_id: str | None) -> None:
        """See `ToldSend`."""
        self._measures.on_sent(self._topic, batch.count, monotonic_ns() - self._begun_ns, None)
        span = self._span
        if not span.is_recording():
            span.end()
            return
        facts: dict[str, Value | None] = {PARTITION: _partition(queue), MESSAGE_ID: message_id}
        if batch.count != 1:
            facts[BATCH_COUNT] = batch.count
        elif self._filling is not None and self._filling.first is not None:
            facts |= cast(Mapping[str, Value], attributes_of("send", self._topic, **_facts_of(self._filling.first)))
        span.set_attributes(cast(Any, {name: value for name, value in facts.items() if value is not None}))
        own = span.get_span_context()
        for ids in ids_in_records(batch.payload()):
            if ids != (own.trace_id, own.span_id):
                span.add_link(_remote(ids))
        span.end()

    def on_failed(self, error: BaseException) -> None:
        """See `ToldSend`."""
        kind = _class_of(error)
        self._measures.on_sent(self._topic, self._count, monotonic_ns() - self._begun_ns, kind)
        self._span.set_attribute(ERROR_TYPE, kind)
        _end(self._span, error)


class _Filling:
    """Stands for an accumulator while a batch is filled: adds a property to each message."""

    def __init__(
        self, accumulator: Accumulator, property_of: Callable[[Parts], bytes], properties: dict[int, bytes]
    ) -> None:
        self._append = accumulator.append
        self._property_of = property_of
        self._properties = properties
        self._count = 0
        self.first: Parts | None = None

    def append(self, *parts: Any) -> bool:
        """See `Accumulator`."""
        whole = cast(Parts, (*parts, *(None, None, b"", 0, 0)[len(parts) - 1 :]))
        if self.first is None:
            self.first = whole
        extra = self._properties.get(self._count)
        if extra is None:
            extra = self._properties[self._count] = self._property_of(whole)
        self._count += 1
        return self._append(*_with_property(whole, extra))

    def append_many(self, bodies: list[bytes], begin: int, tags: str | list[str] | None, keys: list[Any] | None) -> int:
        """See `Accumulator`."""
        for index in range(begin, len(bodies)):
            tag = tags[index] if isinstance(tags, list) else tags
            if not self.append(bodies[index], tag, None if keys is None else keys[index]):
                return index
        return len(bodies)


def _with_property(parts: Parts, extra: bytes) -> Parts:
    """The same kind of parts, with one more encoded property."""
    if not extra:
        return parts
    kind = cast("Callable[[Parts], Parts]", type(parts))  # of delayed messages it is another
    body, tags, keys, properties, flag, sys_flag = parts
    return kind((body, tags, keys, properties + extra, flag, sys_flag))


def _carried(context: SpanContext) -> bytes:
    """The property for messages of this context; b"" if it is not sampled."""
    if not context.trace_flags.sampled or not context.is_valid:
        return b""
    return encoded_traceparent(context.trace_id, context.span_id)


def _remote(ids: Ids) -> SpanContext:
    return SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _contexts_of(messages: Iterable[StoredMessage]) -> Iterator[Ids]:
    """What messages carry, each once, at most LINKS_MAX."""
    seen: dict[Ids, None] = {}
    for message in messages:
        ids = ids_of(message.properties.get(TRACEPARENT))
        if ids is not None and ids not in seen:
            seen[ids] = None
            yield ids
            if len(seen) == LINKS_MAX:
                return


def _attributes_of_messages(
    operation: str, messages: Sequence[StoredMessage], **more: Value | None
) -> dict[str, Value]:
    """Of what a consumer has: several messages by their number, one by what it is."""
    first = messages[0]
    if len(messages) > 1:
        more["batch_count"] = len(messages)
    else:
        more |= {"message_id": first.message_id, "tag": first.tags or None, "keys": tuple(first.keys) or None}
        more |= {"body_size": len(first.body), "partition": f"{first.broker_name}:{first.queue.queue_id}"}
    return attributes_of(operation, first.topic, **more)


def _facts_of(parts: Parts) -> dict[str, Value | None]:
    body, tags, keys = parts[:3]
    listed = (keys,) if isinstance(keys, str) else tuple(keys or ())
    return {"body_size": len(body), "tag": tags or None, "keys": listed or None}


def _partition(queue: MessageQueue | None) -> str | None:
    """Unique within the topic: queues are numbered at each broker."""
    return None if queue is None else f"{queue.broker_name}:{queue.queue_id}"


def _class_of(error: BaseException) -> str:
    return type(error).__qualname__


def _end(span: Span, error: BaseException | None) -> None:
    if error is not None and span.is_recording():
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, str(error)[:200]))
    span.end()
