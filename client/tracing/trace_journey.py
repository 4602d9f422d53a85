"""The journey of one message, combined from the traces of producers and consumers and from the log. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from .trace_format import Consumed, Delivered, Published, TraceRecord, TransactionEnded

Document = dict[str, Any]

_ORDER: Final = ("produced", "stored", "transaction", "recalled", "retried", "dead_lettered", "delivered", "consumed")


@dataclass(frozen=True, slots=True)
class Told:
    """One record of a trace message. `client`: "ip" of the client that recorded it."""

    record: TraceRecord
    client: str


@dataclass(frozen=True, slots=True)
class Found:
    """A copy of the message in the log. `event`: stored, retried or dead_lettered."""

    event: str
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    offset_message_id: str
    stored_at_ms: int
    attempt: int


def journey(message_id: str, told: Iterable[Told], found: Iterable[Found]) -> Document:
    """{message_id, topic, events: [{event, at_ms, ...}]}, the events by time, without records about other messages."""
    mine = [each for each in told if each.record.message_id == message_id]
    deliveries = {each.record.request_id: each.record for each in mine if isinstance(each.record, Delivered)}
    events = [_event(each, deliveries) for each in mine] + [_copy(each) for each in found]
    events.sort(key=lambda event: (event["at_ms"], _ORDER.index(event["event"])))
    topics = [event["topic"] for event in events if event["event"] in ("stored", "produced")]
    return {"message_id": message_id, "topic": topics[0] if topics else None, "events": events}


def groups_of(message_id: str, told: Iterable[Told]) -> list[str]:
    """The consumer groups that the message was delivered to; sorted."""
    return sorted(
        {
            each.record.group
            for each in told
            if each.record.message_id == message_id
            and isinstance(each.record, Delivered | Consumed)
            and each.record.group
        }
    )


def _event(told: Told, deliveries: dict[str, Delivered]) -> Document:
    record = told.record
    by = {"group": record.group, "client": told.client}
    match record:
        case Published():
            return {
                "event": "produced",
                "at_ms": record.at_ms,
                **by,
                "topic": record.topic,
                "tags": record.tags or None,
                "keys": record.keys.split(),
                "body_bytes": record.body_bytes,
                "message_type": record.message_type.name.lower(),
                "cost_ms": record.cost_ms,
                "ok": record.is_ok,
                "store_host": record.store_host or None,
                "offset_message_id": record.offset_message_id or None,
            }
        case Delivered():
            return {
                "event": "delivered",
                "at_ms": record.at_ms,
                **by,
                "request_id": record.request_id,
                "attempt": record.retry_times,
            }
        case Consumed():
            delivery = deliveries.get(record.request_id)
            if delivery is not None:
                by["group"] = record.group or delivery.group
            return {
                "event": "consumed",
                "at_ms": record.at_ms or (delivery.at_ms + record.cost_ms if delivery is not None else 0),
                **by,
                "request_id": record.request_id,
                "attempt": delivery.retry_times if delivery is not None else None,
                "cost_ms": record.cost_ms,
                "ok": record.is_ok,
                "result": record.code.name.lower(),
            }
        case TransactionEnded():
            return {
                "event": "transaction",
                "at_ms": record.at_ms,
                **by,
                "topic": record.topic,
                "transaction_id": record.transaction_id or None,
                "state": record.state,
                "from_check": record.from_check,
            }
        case _:
            return {"event": "recalled", "at_ms": record.at_ms, **by, "topic": record.topic, "ok": record.is_ok}


def _copy(found: Found) -> Document:
    return {
        "event": found.event,
        "at_ms": found.stored_at_ms,
        "topic": found.topic,
        "broker_name": found.broker_name,
        "queue_id": found.queue_id,
        "queue_offset": found.queue_offset,
        "physical_offset": found.physical_offset,
        "offset_message_id": found.offset_message_id,
        "attempt": found.attempt,
    }
