"""An exported message, and the lines of a file of them (docs/formats/export.md). Pure.

    {"zenit_export": 1, "topics": {...}}                    the head
    {"topic": "orders", "queue_id": 3, ...}                 one line a message, in the order of the log
    {"end": {"messages": 1, "damaged_ranges": 0, ...}}      the end: a file without it was cut

A line is decoded by itself: `ValueError` says what is wrong with it, and the reader adds where.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .errors import InvalidParameter, MessageIllegal, MessageTooLarge
from .ids import HostAddress
from .properties import KEYS, TAGS, decode_properties, encode_properties

VERSION: Final = 1
LINE_BYTES_MAX: Final = 256 << 20
_HEAD: Final = "zenit_export"
_END: Final = "end"
_INT64: Final = 1 << 63
_HOST_BYTES: Final = (8, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedMessage:
    """All that a producer said of a message, and where it lay. `properties`: the bytes of the record's field. `body`: plain.
    `born_host`, `store_host`: 8 or 20 bytes.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    message_id: str
    properties: bytes
    body: bytes
    flag: int
    sys_flag: int
    born_at_ms: int
    born_host: bytes
    stored_at_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int


_NUMBERS: Final = (
    "queue_id",
    "queue_offset",
    "physical_offset",
    "flag",
    "sys_flag",
    "born_at_ms",
    "stored_at_ms",
    "reconsume_times",
    "prepared_transaction_offset",
)


def encode_head(topics: Mapping[str, Any]) -> bytes:
    """The first line. `topics`: {topic: its settings}."""
    return _line({_HEAD: VERSION, "topics": dict(topics)})


def encode_end(counts: Mapping[str, int]) -> bytes:
    """The last line."""
    return _line({_END: dict(counts)})


def encode_message(message: ExportedMessage) -> bytes:
    """The line of a message."""
    properties = decode_properties(message.properties)
    document: dict[str, Any] = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "message_id": message.message_id,
        "tags": properties.get(TAGS),
        "keys": properties.get(KEYS, "").split(),
        "properties": properties,
    }
    if not _says_all(properties, message.properties):
        document["properties_base64"] = base64.b64encode(message.properties).decode()
    document |= body_fields(message.body)
    document |= {name: getattr(message, name) for name in _NUMBERS if name not in document}
    document["born_host"] = host_text(message.born_host)
    document["store_host"] = host_text(message.store_host)
    return _line(document)


def decode_head(line: bytes) -> dict[str, Any]:
    """The settings of the topics in the first line. Raises ValueError."""
    document = _object(line)
    return checked_topics(document.get(_HEAD), document.get("topics"))


def checked_topics(version: object, topics: object) -> dict[str, Any]:
    """`topics`, the settings by topic, if the head of an export says this version and these. Raises ValueError."""
    if version != VERSION:
        raise ValueError(f"it does not begin an export of version {VERSION}")
    if not isinstance(topics, dict) or not all(isinstance(settings, dict) for settings in topics.values()):
        raise ValueError("topics: expected an object of objects")
    return topics


def decode_line(line: bytes) -> ExportedMessage | dict[str, Any]:
    """The message of a line, or the counts of the last line. Raises ValueError."""
    if not line.endswith(b"\n"):
        raise ValueError("it has no end")
    document = _object(line)
    if _END in document:
        counts = document[_END]
        if not isinstance(counts, dict) or not all(_is_number(count) for count in counts.values()):
            raise ValueError("end: expected an object of numbers")
        return counts
    numbers = {name: document.get(name) for name in _NUMBERS}
    for name, value in numbers.items():
        if not _is_number(value):
            raise ValueError(f"{name}: expected a number of 64 bits")
    return ExportedMessage(
        topic=_text(document, "topic"),
        message_id=_text(document, "message_id"),
        properties=_properties(document),
        body=_body(document),
        born_host=host_bytes(_text(document, "born_host")),
        store_host=host_bytes(_text(document, "store_host")),
        **{name: value for name, value in numbers.items() if isinstance(value, int)},
    )


def body_fields(body: bytes) -> dict[str, str]:
    """`body` if it is UTF-8 and shorter as text, else `body_base64`."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
    if len(json.dumps(text, ensure_ascii=False)) > 2 * len(body) + 2:  # control characters take six
        return {"body_base64": base64.b64encode(body).decode()}
    return {"body": text}


def host_text(host: bytes) -> str:
    """`10.0.0.1:4711`, `[::1]:4711`. The port keeps all its 32 bits, which are not always a port's."""
    return str(HostAddress(host[:-4], int.from_bytes(host[-4:], "big")))


def host_bytes(text: str) -> bytes:
    """The reverse. Raises ValueError."""
    address, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) >> 32:
        raise ValueError(f"{text[:64]!r} is no address with a port")
    try:
        ip = HostAddress.parse(address.removeprefix("[").removesuffix("]"), 0).ip
    except InvalidParameter as error:
        raise ValueError(f"{text[:64]!r} is no address with a port") from error
    return ip + int(port).to_bytes(4, "big")


def _says_all(properties: Mapping[str, str], stored: bytes) -> bool:
    try:
        return encode_properties(properties) == stored
    except (MessageIllegal, MessageTooLarge):  # names that hold separators, and characters that were no UTF-8
        return False


def _properties(document: Mapping[str, Any]) -> bytes:
    if "properties_base64" in document:
        return _base64(document, "properties_base64")
    properties = document.get("properties")
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise ValueError("properties: expected an object of texts")
    try:
        return encode_properties(properties)
    except (MessageIllegal, MessageTooLarge, UnicodeEncodeError) as error:
        raise ValueError(f"properties: {error}") from error


def _body(document: Mapping[str, Any]) -> bytes:
    if "body_base64" in document:
        return _base64(document, "body_base64")
    try:
        return _text(document, "body").encode()
    except UnicodeEncodeError as error:
        raise ValueError("body: half a character") from error


def _base64(document: Mapping[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(_text(document, name), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name}: {error}") from error


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name}: expected a text")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64


def _object(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise ValueError("it is no JSON") from error
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    return document


def _line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
