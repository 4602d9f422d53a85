"""How valid bytes and documents become nearly valid ones: by what decoders count on, which is lengths, counts and offsets."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Field = tuple[int, int]
"""Where a number stands, and its width in bytes (1, 2, 4 or 8)."""

EDGES = (
    *(
        0,
        1,
        2,
        3,
        7,
        8,
        19,
        20,
        40,
        83,
        84,
        87,
        88,
        90,
        91,
        92,
        0x7F,
        0x80,
        0xFF,
        0x100,
        0x7FFE,
        0x7FFF,
        0x8000,
        0xFFFF,
    ),
    *(
        0x10000,
        0x7FFFFFFE,
        0x7FFFFFFF,
        0x80000000,
        0x80000001,
        0xFFFFFFFE,
        0xFFFFFFFF,
        0xDAA320A7,
        0xDAA320AB,
        0xCBD43194,
    ),
    *(1 << 32, 1 << 40, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
)
_FORMS = {1: ">B", 2: ">H", 4: ">I", 8: ">Q"}
_TEXTS = (
    "",
    "0",
    "-1",
    "null",
    "x" * 300,
    "%RETRY%g",
    "../../etc",
    "a\x00b",
    "\ud800",
    "é",
    "9" * 5000,
    "1e400",
    "@",
    "a@b@c",
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**40, 0.5, 1e308),
    *(float("inf"), float("nan"), [], {}, [[]], [None], {"": None}, [1, 2, 3, 4], ["a"], {"a": {"a": {}}}),
)


def some_number(draw: Random, size_bytes: int) -> int:
    """An edge, a number near the size of the whole, or any."""
    kind = draw.randrange(4)
    if kind == 0:
        return size_bytes + draw.randrange(-4, 5)
    if kind == 1:
        return draw.randrange(1 << draw.choice((8, 16, 32, 63)))
    return draw.choice(EDGES)


def put_number(data: bytearray, field: Field, number: int) -> None:
    """Writes it where it fits."""
    at, width = field
    if 0 <= at <= len(data) - width:
        struct.pack_into(_FORMS[width], data, at, number & ((1 << 8 * width) - 1))


def mutated(data: bytearray, draw: Random, fields: Sequence[Field] = ()) -> bytearray:
    """The same with nothing to several things changed."""
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3, 6))):
        if data:
            draw.choice(_MUTATIONS)(data, draw, fields)
    return data


def _flip(data: bytearray, draw: Random, _: Sequence[Field]) -> None:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _set_byte(data: bytearray, draw: Random, _: Sequence[Field]) -> None:
    data[draw.randrange(len(data))] = draw.choice((0, 1, 2, 9, 10, 32, 34, 47, 92, 127, 128, 192, 255))


def _set_number(data: bytearray, draw: Random, _: Sequence[Field]) -> None:
    put_number(data, (draw.randrange(len(data)), draw.choice((1, 2, 4, 8))), some_number(draw, len(data)))


def _set_field(data: bytearray, draw: Random, fields: Sequence[Field]) -> None:
    if not fields:
        return _set_number(data, draw, fields)
    return put_number(data, draw.choice(fields), some_number(draw, len(data)))


def _nudge_field(data: bytearray, draw: Random, fields: Sequence[Field]) -> None:
    if not fields:
        return _flip(data, draw, fields)
    at, width = draw.choice(fields)
    return put_number(data, (at, width), int.from_bytes(data[at : at + width], "big") + draw.choice((-2, -1, 1, 2)))


def _cut(data: bytearray, draw: Random, _: Sequence[Field]) -> None:
    del data[draw.randrange(len(data)) :]


def _remove(data: bytearray, draw: Random, _: Sequence[Field]) -> None:
    at = draw.randrange(len(data))
    del data[at : at + draw.choice((1, 2, 4, 8, 20))]


def _insert(data: bytearray, draw: Random, _: Sequence[Field]) -> None:
    at = draw.randrange(len(data) + 1)
    data[at:at] = draw.choice((bytes(draw.randrange(1, 9)), draw.randbytes(draw.randrange(1, 9)), b"\xff" * 8))


def _repeat(data: bytearray, draw: Random, _: Sequence[Field]) -> None:
    at = draw.randrange(len(data))
    part = data[at : at + draw.choice((1, 4, 20, 100, 5000))]
    data[at:at] = part * draw.choice((1, 1, 2, 50))
    del data[200_000:]


def _append(data: bytearray, draw: Random, _: Sequence[Field]) -> None:
    data += draw.choice((bytes(draw.randrange(100)), draw.randbytes(draw.randrange(40)), b"\x00"))


_MUTATIONS: tuple[Callable[[bytearray, Random, Sequence[Field]], None], ...] = (
    *(_flip, _set_byte, _set_number, _set_field, _set_field, _set_field, _nudge_field, _nudge_field),
    *(_cut, _remove, _insert, _repeat, _append),
)


# ---- documents


def mutated_document(document: Any, draw: Random) -> Any:
    """A JSON value with nothing to several of its parts changed. The given one may be changed too."""
    for _ in range(draw.choice((0, 1, 1, 1, 2, 4))):
        document = _with_change(document, draw)
    return document


def _with_change(document: Any, draw: Random) -> Any:
    places = list(_places(document))
    if not places:
        return copy.deepcopy(draw.choice(_VALUES))
    holder, key = draw.choice(places)
    kind = draw.randrange(8)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[draw.choice((*_TEXTS, *holder))] = holder.pop(key)
    elif kind == 2 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif kind == 3:
        holder[key] = copy.deepcopy(draw.choice(places)[0]) if draw.randrange(2) else [holder[key]]
    elif kind == 4:
        holder[key] = draw.choice(_TEXTS)
    elif kind == 5 and type(holder[key]) is int:
        holder[key] += draw.choice((-1, 1, 1 << 31, -(1 << 40), 1 << 63))
    elif kind == 6:
        holder[key] = str(holder[key])[:1000] if not isinstance(holder[key], str) else len(holder[key])
    else:
        holder[key] = copy.deepcopy(draw.choice(_VALUES))
    return document


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        for key, part in value.items():
            found += [(value, key), *_places(part)]
    elif isinstance(value, list):
        for index, part in enumerate(value):
            found += [(value, index), *_places(part)]
    return found


def document_bytes(document: Any, draw: Random) -> bytes:
    """Its text, now and then nested without end, or with a byte changed."""
    text = json.dumps(document, ensure_ascii=draw.randrange(4) == 0)
    if draw.randrange(40) == 0:
        depth = draw.choice((30, 900, 1100, 60_000))
        text = (
            text.replace("null", "[" * depth + "]" * depth, 1)
            if "null" in text
            else '{"a":' * depth + text + "}" * depth
        )
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    return bytes(mutated(data, draw) if draw.randrange(5) == 0 else data)
