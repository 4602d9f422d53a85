"""The events of a message's journey as rows for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def journey_row(event: Mapping[str, Any]) -> tuple[str, str, str]:
    """(the event; who reported it, or where the copy is; the result)."""
    who = (
        f"{event['group']} at {event['client']}" if "group" in event else f"{event['broker_name']}:{event['queue_id']}"
    )
    return event["event"].replace("_", " "), who, _how(event)


def _how(event: Mapping[str, Any]) -> str:
    match event["event"]:
        case "produced":
            outcome = f"{event['cost_ms']} ms, {event['body_bytes']} bytes"
            return f"{outcome} to {event['store_host'] or '?'}" if event["ok"] else f"failed after {outcome}"
        case "delivered":
            return f"attempt {event['attempt'] + 1}"
        case "consumed":
            return f"{event['result']} after {event['cost_ms']} ms"
        case "transaction":
            return f"{event['state']}{' when asked' if event['from_check'] else ''}"
        case "recalled":
            return "taken back" if event["ok"] else "too late"
        case _:
            return f"queue offset {event['queue_offset']}, id {event['offset_message_id']}"
