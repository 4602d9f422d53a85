# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""The light queues that a record names, and its offset in each of them (model/topics/light_queues). Pure.

    INNER_MULTI_DISPATCH 01 %LMQ%a,%LMQ%b 02    INNER_MULTI_QUEUE_OFFSET 01 0000000000000000005,0000000000000000017 02

The sender leaves the room for the offsets, 19 digits each; the broker writes them when it stages the record.
"""

from __future__ import annotations

from collections.abc import Callable

import cython

from .codes import (
    BAD_LIGHT_NAMES,
    BAD_LIGHT_ROOM,
    COMMA,
    LIGHT_DIGITS,
    LIGHT_LENGTH_MAX,
    LIGHT_NAMES_MAX,
    LIGHT_PREFIX_BYTES,
    UNIT_BYTES,
    VALUE_END,
)
from .primitives import OFFSET_MAX, find_byte, find_topic, get32, topic_size

_NAMES = cython.declare(bytes, b"INNER_MULTI_DISPATCH\x01")
_OFFSETS = cython.declare(bytes, b"INNER_MULTI_QUEUE_OFFSET\x01")
_PREFIX = cython.declare(bytes, b"%LMQ%")


@cython.cfunc
@cython.inline
def begins_with(
    buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t, text: bytes
) -> cython.bint:
    """Whether `text` stands at `at`, and something behind it, before `end`."""
    i: cython.Py_ssize_t = 0
    length: cython.Py_ssize_t = len(text)
    if end - at <= length:
        return False
    while i < length and buf[at + i] == text[i]:
        i += 1
    return i == length


@cython.cfunc
@cython.inline
def names_lights(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether the property at `at` names light queues."""
    return begins_with(buf, at, end, _NAMES)


@cython.cfunc
def find_inner(
    buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t, name: bytes
) -> cython.Py_ssize_t:
    """The begin of a property's value among the properties [begin, end), of the last one of that name; -1: none."""
    at: cython.Py_ssize_t = begin
    found: cython.Py_ssize_t = -1
    while at < end:
        if begins_with(buf, at, end, name):
            found = at + len(name)
        at = find_byte(buf, at, end, VALUE_END) + 1
    return found


@cython.cfunc
def is_light_name(
    buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """The rule of `check_light_queue`: such a name may become a path."""
    at: cython.Py_ssize_t
    c: cython.uchar
    if end - begin > LIGHT_LENGTH_MAX or not begins_with(buf, begin, end, _PREFIX):
        return False
    for at in range(begin + LIGHT_PREFIX_BYTES, end):
        c = buf[at]
        if not (97 <= c <= 122 or 48 <= c <= 57 or 65 <= c <= 90 or c in (36, 37, 45, 95, 124)):
            return False
    return True


@cython.cfunc
@cython.inline
def _offset_in(
    buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    """The number in buf[begin:end]; -1 if it is none, or no offset."""
    at: cython.Py_ssize_t
    value: cython.ulonglong = 0
    if end == begin or end - begin > LIGHT_DIGITS:
        return -1
    for at in range(begin, end):
        if not 48 <= buf[at] <= 57:
            return -1
        value = value * 10 + (buf[at] - 48)
    if value > cython.cast(cython.ulonglong, OFFSET_MAX):
        return -1
    return cython.cast(cython.longlong, value)


@cython.cfunc
@cython.inline
def _text(buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> str:
    """A proven name."""
    if not cython.compiled:
        return bytes(buf[begin:end]).decode("ascii")
    return cython.cast("const char *", cython.address(buf[begin]))[: end - begin].decode("ascii")


@cython.cfunc
def _entries(
    buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """How many entries a list with commas has."""
    at: cython.Py_ssize_t
    count: cython.Py_ssize_t = 1
    for at in range(begin, end):
        if buf[at] == COMMA:
            count += 1
    return count


def write_light_offsets(
    buffer: cython.uchar[::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    ends: dict[str, int],
    find: Callable[[str], int],
) -> int:
    """Writes the offsets of the records (proven) in buffer[begin:end] in the light queues that they name.

    `ends`: the next offset of each light queue, moved on; `find(name)` gives one that is not there. Returns how many offsets
    were written, or a BAD_ reason; then, and if `find` raises, `ends` has moved nowhere.
    """
    return _write_offsets(buffer, begin, end, ends, find)


@cython.cfunc
def _write_offsets(
    buffer: cython.uchar[::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    ends: dict[str, int],
    find: Callable[[str], int],
) -> cython.Py_ssize_t:
    view: cython.const[cython.uchar][::1] = buffer
    at: cython.Py_ssize_t = begin
    stop: cython.Py_ssize_t
    names: cython.Py_ssize_t
    names_end: cython.Py_ssize_t
    room: cython.Py_ssize_t
    count: cython.Py_ssize_t
    total: cython.Py_ssize_t = 0
    places: list[int] = []
    found: list[str] = []
    seen: set[str]
    while at < end:
        stop = at + get32(view, at)
        names = find_topic(view, at)
        room = names + topic_size(view, at, names) + 2
        at = stop
        names = find_inner(view, room, stop, _NAMES)
        if names < 0:
            continue
        room = find_inner(view, room, stop, _OFFSETS)
        names_end = find_byte(view, names, stop, VALUE_END)
        count = _entries(view, names, names_end)
        if count > LIGHT_NAMES_MAX:
            return BAD_LIGHT_NAMES
        if room < 0 or find_byte(view, room, stop, VALUE_END) - room != count * (LIGHT_DIGITS + 1) - 1:
            return BAD_LIGHT_ROOM
        seen = set()
        while names < names_end:
            stop = find_byte(view, names, names_end, COMMA)
            if not is_light_name(view, names, stop):
                return BAD_LIGHT_NAMES
            name = _text(view, names, stop)
            if name not in ends:
                ends[name] = find(name)
            if count > 1:
                seen.add(name)
            found.append(name)
            names = stop + 1
            total += 1
        if count > 1 and len(seen) != count:
            return BAD_LIGHT_NAMES
        places.append(room)
        places.append(count)
    _write_digits(buffer, ends, found, places)
    return total


@cython.cfunc
def _write_digits(buffer: cython.uchar[::1], ends: dict[str, int], found: list[str], places: list[int]):
    """Of the light queues `found`, in this order, at `places`: begin, how many; begin, ..."""
    index: cython.Py_ssize_t = 0
    place: cython.Py_ssize_t
    at: cython.Py_ssize_t
    left: cython.Py_ssize_t
    i: cython.Py_ssize_t
    offset: cython.longlong
    rest: cython.longlong
    for place in range(0, len(places), 2):
        at = places[place]
        left = places[place + 1]
        while left > 0:
            offset = ends[found[index]]
            ends[found[index]] = offset + 1
            rest = offset
            for i in range(LIGHT_DIGITS - 1, -1, -1):
                buffer[at + i] = 48 + rest % 10
                rest = rest // 10
            left -= 1
            index += 1
            at += LIGHT_DIGITS + 1
            if left:
                buffer[at - 1] = COMMA


def light_units(
    records: cython.const[cython.uchar][::1], units: cython.const[cython.uchar][::1]
) -> list[tuple[str, int, bytes]]:
    """(light queue, offset there, unit) of each light queue that these records (proven, contiguous) name, in their order.

    `units`: theirs, in their own queue. A record whose two properties do not fit together names none, as in RocketMQ.
    """
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = len(records)
    unit_at: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t
    names: cython.Py_ssize_t
    names_end: cython.Py_ssize_t
    offsets: cython.Py_ssize_t
    offsets_end: cython.Py_ssize_t
    name_end: cython.Py_ssize_t
    offset_end: cython.Py_ssize_t
    offset: cython.longlong
    found: list[tuple[str, int, bytes]] = []
    while at < end:
        stop = at + get32(records, at)
        names = find_topic(records, at)
        offsets = names + topic_size(records, at, names) + 2
        at = stop
        unit_at += UNIT_BYTES
        names = find_inner(records, offsets, stop, _NAMES)
        if names < 0:
            continue
        offsets = find_inner(records, offsets, stop, _OFFSETS)
        if offsets < 0:
            continue
        names_end = find_byte(records, names, stop, VALUE_END)
        offsets_end = find_byte(records, offsets, stop, VALUE_END)
        if _entries(records, names, names_end) != _entries(records, offsets, offsets_end):
            continue
        unit = bytes(units[unit_at - UNIT_BYTES : unit_at])
        while names < names_end:
            name_end = find_byte(records, names, names_end, COMMA)
            offset_end = find_byte(records, offsets, offsets_end, COMMA)
            offset = _offset_in(records, offsets, offset_end)
            if offset >= 0 and is_light_name(records, names, name_end):
                found.append((_text(records, names, name_end), int(offset), unit))
            names = name_end + 1
            offsets = offset_end + 1
    return found


@cython.cfunc
def light_offset(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, queue: bytes) -> cython.longlong:
    """The offset of the proven record at `at` in this light queue; -1 if it is not in there."""
    stop: cython.Py_ssize_t = at + get32(buf, at)
    names: cython.Py_ssize_t = find_topic(buf, at)
    offsets: cython.Py_ssize_t = names + topic_size(buf, at, names) + 2
    names_end: cython.Py_ssize_t
    offsets_end: cython.Py_ssize_t
    name_end: cython.Py_ssize_t
    offset_end: cython.Py_ssize_t
    length: cython.Py_ssize_t = len(queue)
    i: cython.Py_ssize_t
    names = find_inner(buf, offsets, stop, _NAMES)
    offsets = find_inner(buf, offsets, stop, _OFFSETS)
    if names < 0 or offsets < 0:
        return -1
    names_end = find_byte(buf, names, stop, VALUE_END)
    offsets_end = find_byte(buf, offsets, stop, VALUE_END)
    if _entries(buf, names, names_end) != _entries(buf, offsets, offsets_end):
        return -1
    while names < names_end:
        name_end = find_byte(buf, names, names_end, COMMA)
        offset_end = find_byte(buf, offsets, offsets_end, COMMA)
        if name_end - names == length:
            i = 0
            while i < length and buf[names + i] == queue[i]:
                i += 1
            if i == length:
                return _offset_in(buf, offsets, offset_end)
        names = name_end + 1
        offsets = offset_end + 1
    return -1


@cython.cfunc
@cython.inline
def is_light(topic: bytes) -> cython.bint:
    """Whether this is the name of a light queue."""
    return topic[:LIGHT_PREFIX_BYTES] == _PREFIX
