"""The format of trace records, as RocketMQ writes them into the bodies of trace messages. Pure.

    Pub 0x01 time 0x01 region ... 0x01 success 0x02  SubBefore 0x01 ... 0x02          one record after the other, UTF-8

A class lists the fields of its record in their order on the wire: decimal numbers, `true` / `false`, texts. An absent text
is written `null`, as in Java, whose decoder drops empty fields at the end. Older clients wrote shorter records; the missing
fields get their defaults here.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final

from ...model.errors import TraceDamaged
from ...model.plain_dataclass import dataclass

FIELD_SEPARATOR: Final = "\x01"
RECORD_SEPARATOR: Final = "\x02"
REGION: Final = "DefaultRegion"

_ABSENT: Final = "null"
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class TracedType(enum.IntEnum):
    """The kind of a sent message."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3
    ORDER = 4


class ConsumeCode(enum.IntEnum):
    """How a consumer's handling of a message ended."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURNED_NULL = 3
    FAILED = 4


@dataclass(frozen=True, slots=True)
class Published:
    """A message was sent, or the send failed. Times in ms since the epoch, costs in ms; `store_host`: "ip:port"."""

    kind: ClassVar[str] = "Pub"
    at_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str
    keys: str
    store_host: str
    body_bytes: int
    cost_ms: int
    message_type: TracedType
    offset_message_id: str
    is_ok: bool
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message is passed to a consumer. `request_id`: of this delivery; `Consumed` has the same."""

    kind: ClassVar[str] = "SubBefore"
    at_ms: int
    region: str
    group: str
    request_id: str
    message_id: str
    retry_times: int
    keys: str


@dataclass(frozen=True, slots=True)
class Consumed:
    """The consumer is done with a delivery. `at_ms` 0, `group` empty: an older client did not report them."""

    kind: ClassVar[str] = "SubAfter"
    request_id: str
    message_id: str
    cost_ms: int
    is_ok: bool
    keys: str
    code: ConsumeCode = ConsumeCode.SUCCESS
    at_ms: int = 0
    group: str = ""


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A half message was committed or rolled back. `state`: COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW (sic)."""

    kind: ClassVar[str] = "EndTransaction"
    at_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str
    keys: str
    store_host: str
    message_type: TracedType
    transaction_id: str
    state: str
    from_check: bool


@dataclass(frozen=True, slots=True)
class Recalled:
    """A delayed message was recalled."""

    kind: ClassVar[str] = "Recall"
    at_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    is_ok: bool


TraceRecord = Published | Delivered | Consumed | TransactionEnded | Recalled

OLD_PUBLISHED_FIELDS: Final = 12  # after the kind: without the offset message id, before RocketMQ 4.5


class _Layout:
    """How one class is encoded and decoded."""

    def __init__(self, cls: type[TraceRecord]) -> None:
        hints = typing.get_type_hints(cls)
        fields = dataclasses.fields(cls)
        self.cls = cls
        self.names = [field.name for field in fields]
        self.decoders: list[Callable[[str], Any]] = [_DECODERS.get(hints[field.name]) or _text for field in fields]
        self.count_min = sum(1 for field in fields if field.default is dataclasses.MISSING)

    def decode(self, texts: Sequence[str]) -> TraceRecord:
        """The record of these fields. Raises TraceDamaged."""
        if self.cls is Published and len(texts) == OLD_PUBLISHED_FIELDS:
            texts = [*texts[:-1], "", texts[-1]]
        if not self.count_min <= len(texts) <= len(self.names):
            raise TraceDamaged(f"{self.cls.kind} with {len(texts)} fields")
        return self.cls(*(decode(text) for decode, text in zip(self.decoders, texts, strict=False)))


def _number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None or not -(1 << 63) <= int(text) < 1 << 63:
        raise TraceDamaged(f"a number that is {text[:32]!r}")
    return int(text)


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise TraceDamaged(f"neither true nor false: {text[:32]!r}")
    return text == "true"


def _text(text: str) -> str:
    return "" if text == _ABSENT else text


def _member(kind: type[enum.IntEnum]) -> Callable[[str], enum.IntEnum]:
    known = {int(member): member for member in kind}

    def decode(text: str) -> enum.IntEnum:
        number = _number(text)
        if number not in known:
            raise TraceDamaged(f"{kind.__name__} {number}")
        return known[number]

    return decode


_DECODERS: Final[dict[Any, Callable[[str], Any]]] = {
    int: _number,
    bool: _truth,
    TracedType: _member(TracedType),
    ConsumeCode: _member(ConsumeCode),
}
_LAYOUTS: Final = {cls.kind: _Layout(cls) for cls in typing.get_args(TraceRecord)}


def encode_trace(records: Iterable[TraceRecord]) -> bytes:
    """The body of a trace message. Raises TraceDamaged if a text contains a separator."""
    return "".join(map(_encoded, records)).encode()


def _encoded(record: TraceRecord) -> str:
    names = _LAYOUTS[record.kind].names
    if isinstance(record, Published) and not record.client_host:
        names = names[:-1]  # RocketMQ's own clients do not write it
    texts = [record.kind]
    for name in names:
        value = getattr(record, name)
        if isinstance(value, bool):
            texts.append("true" if value else "false")
        elif isinstance(value, int):
            texts.append(str(int(value)))
        elif FIELD_SEPARATOR in value or RECORD_SEPARATOR in value:
            raise TraceDamaged(f"{name} holds a separator")
        else:
            texts.append(value or _ABSENT)
    return FIELD_SEPARATOR.join(texts) + RECORD_SEPARATOR


def decode_trace(body: bytes) -> list[TraceRecord]:
    """The records of a trace message's body. Raises TraceDamaged."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise TraceDamaged("its text is not UTF-8") from error
    records = []
    for entry in text.removesuffix(RECORD_SEPARATOR).split(RECORD_SEPARATOR) if text else ():
        kind, *fields = entry.split(FIELD_SEPARATOR)
        layout = _LAYOUTS.get(kind)
        if layout is None:
            raise TraceDamaged(f"a record of kind {kind[:32]!r}")
        records.append(layout.decode(fields))
    return records
