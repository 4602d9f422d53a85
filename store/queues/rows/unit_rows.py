"""Consume queues as rows of RocksDB, byte for byte as RocketMQ's (`docs/formats/rocksdb_queues.md`). Pure.

    family "default"   topic length 4 | 01 | topic | 01 | queue id 4 | 01 | queue offset 8
                       -> physical offset 8 | record size 4 | tags code 8 | store time 8
    family "offset"    topic length 4 | 01 | topic | 01 | "max" or "min" | 01 | queue id 4
                       -> physical offset 8 | queue offset 8        of the newest message, of the first one kept
                       of CHECKPOINT_TOPIC, queue 0, "max" -> the dispatched position 8

All numbers are big-endian. In place of the last 01, 00 and 02 are the bounds of all rows of a queue.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..queue_places import UNIT_BYTES

OFFSET_FAMILY: Final = "offset"
ROW_BYTES: Final = 28
TIME: Final = struct.Struct(">q")
_NUMBER: Final = struct.Struct(">Q")
_LENGTH: Final = struct.Struct(">i")
_END: Final = struct.Struct(">qq")
_MARK: Final = b"\x01"
_BELOW: Final = b"\x00"
_ABOVE: Final = b"\x02"
_KINDS: Final = {b"max": True, b"min": False}
_QUEUE_ID_BYTES: Final = 4
_MANY: Final = 64  # from so many on a table made at once takes half the time


def _topic_prefix(topic: str) -> bytes:
    name = topic.encode("utf-8", "replace")  # a damaged record may name anything
    return _LENGTH.pack(len(name)) + _MARK + name + _MARK


def queue_prefix(topic: str, queue_id: int) -> bytes:
    """What the keys of a queue's units begin with; the queue offset follows."""
    return _topic_prefix(topic) + _LENGTH.pack(queue_id) + _MARK


def unit_key(prefix: bytes, queue_offset: int) -> bytes:
    """The key of one unit of the queue with this prefix."""
    return prefix + _NUMBER.pack(queue_offset)


def offset_of(key: bytes) -> int:
    """The queue offset in a unit's key."""
    return int(_NUMBER.unpack_from(key, len(key) - _NUMBER.size)[0])


def bounds(prefix: bytes) -> tuple[bytes, bytes]:
    """[begin, end) of the keys of a queue's units."""
    return prefix[:-1] + _BELOW, prefix[:-1] + _ABOVE


def unit_keys(prefix: bytes, begin: int, end: int) -> list[bytes]:
    """The keys of the units [begin, end) of a queue."""
    count, size = end - begin, len(prefix)
    if count >= _MANY:
        keys = np.empty((count, size + _NUMBER.size), np.uint8)
        keys[:, :size] = np.frombuffer(prefix, np.uint8)
        keys[:, size:] = np.arange(begin, end, dtype=">u8").view(np.uint8).reshape(count, _NUMBER.size)
        return _texts(keys)
    numbers = struct.pack(f">{count}Q", *range(begin, end))
    return [prefix + number for (number,) in struct.iter_unpack("8s", numbers)]


def rows(units: bytes, store_timestamp_ms: int) -> list[bytes]:
    """The values of units of one store time."""
    time, count = TIME.pack(store_timestamp_ms), len(units) // UNIT_BYTES
    if count >= _MANY:
        values = np.empty((count, ROW_BYTES), np.uint8)
        values[:, :UNIT_BYTES] = np.frombuffer(units, np.uint8).reshape(count, UNIT_BYTES)
        values[:, UNIT_BYTES:] = np.frombuffer(time, np.uint8)
        return _texts(values)
    return [unit + time for (unit,) in struct.iter_unpack("20s", units)]


def _texts(table: np.ndarray[Any, Any]) -> list[bytes]:
    found: list[bytes] = table.view(f"V{table.shape[1]}").ravel().tolist()
    return found


def units_of(values: list[bytes]) -> bytes:
    """The units in these values."""
    return np.frombuffer(b"".join(values), np.uint8).reshape(-1, ROW_BYTES)[:, :UNIT_BYTES].tobytes()


def stored_ms_of(value: bytes) -> int:
    """The store time in a unit's value."""
    return int(TIME.unpack_from(value, UNIT_BYTES)[0])


def end_key(topic: str, queue_id: int, *, is_max: bool) -> bytes:
    """The key of a queue's end: of its newest message (`is_max`), or of the first one that is kept."""
    return _topic_prefix(topic) + (b"max" if is_max else b"min") + _MARK + _LENGTH.pack(queue_id)


def end_key_of(prefix: bytes) -> bytes:
    """The key of the newest message's row, of the queue with this prefix."""
    cut = -_QUEUE_ID_BYTES - len(_MARK)
    return prefix[:cut] + b"max" + _MARK + prefix[cut:-1]


POSITION_KEY: Final = end_key("CHECKPOINT_TOPIC", 0, is_max=True)


def position_value(position: int) -> bytes:
    """The value of the dispatched position: the end of the last record whose unit is in the rows."""
    return _NUMBER.pack(position)


def end_value(physical: int, queue_offset: int) -> bytes:
    """The value of a queue's end."""
    return _END.pack(physical, queue_offset)


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """A row of the offset family. `physical`: where the record of the message at `queue_offset` is."""

    topic: str
    queue_id: int
    is_max: bool
    physical: int
    queue_offset: int


def decode_end(key: bytes, value: bytes) -> QueueEnd | None:
    """A row of the offset family; None for one that is of no queue, as the dispatched position."""
    tail = len(key) - _QUEUE_ID_BYTES - len(_MARK) - 3
    if tail < _LENGTH.size + 2 or len(value) != _END.size or key[tail : tail + 3] not in _KINDS:
        return None
    size = _LENGTH.unpack_from(key)[0]
    if size != tail - _LENGTH.size - 2:
        return None
    topic = key[_LENGTH.size + 1 : tail - 1].decode("utf-8", "replace")
    queue_id = _LENGTH.unpack_from(key, len(key) - _QUEUE_ID_BYTES)[0]
    physical, queue_offset = _END.unpack(value)
    return QueueEnd(topic, queue_id, _KINDS[key[tail : tail + 3]], physical, queue_offset)


def decode_position(value: bytes | None) -> int:
    """The dispatched position; 0 if there is none."""
    return 0 if value is None or len(value) != _NUMBER.size else int(_NUMBER.unpack(value)[0])
