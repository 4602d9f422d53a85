"""A stored message as text: the JSON object that `consume`, `message` and `store dump` share, and `--format`. Pure."""

from __future__ import annotations

import base64
import string
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ..model.errors import CorruptRecordError, InvalidParameter, RemoteProtocolError
from ..model.times import iso_text

if TYPE_CHECKING:
    from ..record.kernel import StoredMessage

FIELDS: Final[dict[str, Callable[[StoredMessage], object]]] = {
    "topic": lambda message: message.topic,
    "queue_id": lambda message: message.queue_id,
    "broker_name": lambda message: message.broker_name,
    "queue_offset": lambda message: message.queue_offset,
    "physical_offset": lambda message: message.physical_offset,
    "message_id": lambda message: message.message_id,
    "offset_message_id": lambda message: message.offset_message_id,
    "tags": lambda message: message.tags or "",
    "keys": lambda message: " ".join(message.keys),
    "properties": lambda message: " ".join(f"{name}={value}" for name, value in message.properties.items()),
    "born_at": lambda message: iso_text(message.born_at_ms),
    "born_at_ms": lambda message: message.born_at_ms,
    "stored_at": lambda message: iso_text(message.stored_at_ms),
    "stored_at_ms": lambda message: message.stored_at_ms,
    "reconsume_times": lambda message: message.reconsume_times,
}
"""The fields for `--format`, besides `body`."""

_ESCAPES: Final = {"\\t": "\t", "\\n": "\n", "\\\\": "\\"}


def message_document(message: StoredMessage) -> dict[str, Any]:
    """The JSON object of a message. `body` if it is UTF-8, else `body_base64`.

    An unreadable body is shown as stored, with a field `damaged` that says why.
    """
    properties = message.properties
    document: dict[str, Any] = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "broker_name": message.broker_name,
        "queue_offset": message.queue_offset,
        "message_id": message.message_id,
        "offset_message_id": message.offset_message_id,
        "tags": properties.get("TAGS"),
        "keys": properties.get("KEYS", "").split(),
        "properties": properties,
    }
    document |= _body_fields(message)
    document |= {
        "born_at_ms": message.born_at_ms,
        "stored_at_ms": message.stored_at_ms,
        "reconsume_times": message.reconsume_times,
    }
    return document


def record_document(message: StoredMessage) -> dict[str, Any]:
    """The same with what only the log has: the record's place and flags."""
    return message_document(message) | {
        "physical_offset": message.physical_offset,
        "size_bytes": message.size_bytes,
        "sys_flag": message.sys_flag,
        "flag": message.flag,
    }


def compile_format(text: str) -> Callable[[StoredMessage], bytes]:
    """A function that prints a message by the format `text`: `{queue_id}:{queue_offset} {body}`; \\t and \\n are
    understood.

    The body is printed byte for byte. Raises InvalidParameter for an unknown field.
    """
    for escape, character in _ESCAPES.items():
        text = text.replace(escape, character)
    parts: list[tuple[bytes, str | None]] = []
    try:
        for literal, name, specification, conversion in string.Formatter().parse(text):
            if name is not None and (specification or conversion or (name != "body" and name not in FIELDS)):
                raise ValueError(name)
            parts.append((literal.encode(), name))
    except ValueError as error:
        raise InvalidParameter("--format", text, f"names of {{body}} and {', '.join(FIELDS)} ({error})") from None

    def line(message: StoredMessage) -> bytes:
        pieces = []
        for literal, name in parts:
            pieces.append(literal)
            if name is not None:
                pieces.append(message.body if name == "body" else str(FIELDS[name](message)).encode())
        return b"".join(pieces) + b"\n"

    return line


def _body_fields(message: StoredMessage) -> dict[str, str]:
    try:
        body = message.body
    except (CorruptRecordError, RemoteProtocolError) as error:
        stored = base64.b64encode(message.body_as_stored).decode()
        return {"body_base64": stored, "damaged": str(error)}
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
