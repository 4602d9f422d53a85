"""Frames of the replication port to bytes and back, by the table in frames.

Whatever a stranger sends is a RemoteProtocolError and nothing else; lengths are proved before anything is built.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import attrgetter
from typing import Final

from ...model.errors import RemoteProtocolError
from ...model.group import Incarnation
from .epochs import ROWS_MAX, EpochList
from .frames import (
    CHUNK_BYTES_MAX,
    FRAME_BYTES_MAX,
    FRAMES,
    HEADER,
    MAGIC,
    VERSION,
    Ack,
    Chunk,
    Frame,
    FrameField,
    FrameLayout,
    Opening,
    RefusalReason,
    Refused,
    Side,
)


def _compiled(fields: tuple[FrameField, ...]) -> struct.Struct:
    return struct.Struct(">2s" + "".join(field.code for field in (*HEADER, *fields))[1:])


_HEAD: Final = struct.Struct(">2sBB")
_ROW: Final = struct.Struct(">qq")
_STRUCTS: Final = {layout.kind: _compiled(layout.fields) for layout in FRAMES}
_LAYOUTS: Final = {layout.kind: layout for layout in FRAMES}
_OPENING: Final = _STRUCTS[1]


def _values_of(layout: FrameLayout) -> Callable[[Frame], tuple[int, ...]]:
    return attrgetter("group", "epoch", "session", *(field.name for field in layout.fields))


_ENCODERS: Final = {
    layout.cls: (_STRUCTS[layout.kind].pack, layout.kind, _values_of(layout))
    for layout in FRAMES
    if layout.cls is not Opening
}


def encode(frame: Frame) -> bytes:
    """The frame's bytes."""
    if isinstance(frame, Opening):
        return _encode_opening(frame)
    pack, kind, values = _ENCODERS[type(frame)]
    return pack(MAGIC, VERSION, kind, *values(frame))


def decode(data: bytes | memoryview, at: Side) -> Frame:
    """The frame that these bytes are, for a receiver `at` this side. Raises RemoteProtocolError, whatever they hold."""
    if not _HEAD.size <= len(data) <= FRAME_BYTES_MAX:
        raise RemoteProtocolError(f"a replication frame of {len(data)} bytes")
    magic, version, kind = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise RemoteProtocolError(f"not a replication frame of version {VERSION}: {bytes(data[:4]).hex()}")
    layout = _LAYOUTS.get(kind)
    if layout is None or at not in layout.to:
        raise RemoteProtocolError(f"a replication frame of kind {kind} at the {at.value}")
    form = _STRUCTS[kind]
    if len(data) != form.size and (layout.cls is not Opening or len(data) < form.size):
        raise RemoteProtocolError(f"{layout.cls.__name__} of {len(data)} bytes, expected {form.size}")
    values = form.unpack_from(data)[3:]
    if min(values) < 0:
        raise RemoteProtocolError(f"{layout.cls.__name__} with a negative number")
    if layout.cls is Opening:
        return _decode_opening(data, values)
    return _DECODERS[layout.cls](*values)


def _encode_opening(frame: Opening) -> bytes:
    name, store_id = frame.name.encode(), frame.incarnation.store_id.encode()
    head = _OPENING.pack(
        MAGIC,
        VERSION,
        1,
        frame.group,
        frame.epoch,
        frame.session,
        frame.incarnation.starts,
        frame.end,
        frame.flushed,
        frame.wants_lz4,
        len(name),
        len(store_id),
        len(frame.epochs.rows),
    )
    return b"".join((head, name, store_id, *(_ROW.pack(row.number, row.begin) for row in frame.epochs.rows)))


def _decode_opening(data: bytes | memoryview, values: tuple[int, ...]) -> Opening:
    group, epoch, session, starts, end, flushed, lz4, name_bytes, store_id_bytes, count = values
    names_at = _OPENING.size
    rows_at = names_at + name_bytes + store_id_bytes
    if not name_bytes or not store_id_bytes or count > ROWS_MAX or len(data) != rows_at + count * _ROW.size:
        raise RemoteProtocolError(f"Opening of {len(data)} bytes, {count} epochs")
    if flushed > end:
        raise RemoteProtocolError(f"Opening with {flushed} flushed of {end}")
    try:
        name = str(data[names_at : names_at + name_bytes], "utf-8")
        store_id = str(data[names_at + name_bytes : rows_at], "utf-8")
        epochs = EpochList.of(_ROW.iter_unpack(data[rows_at:]))
    except ValueError as error:
        raise RemoteProtocolError(f"Opening: {error}") from error
    if epochs.rows and (epochs.rows[0].begin < 0 or epochs.rows[-1].begin > end or epochs.newest > epoch):
        raise RemoteProtocolError(f"Opening of epoch {epoch}, end {end}: epochs outside of that")
    return Opening(group, epoch, session, name, Incarnation(store_id, starts), end, flushed, epochs, _flag(lz4))


def _decode_chunk(
    group: int, epoch: int, session: int, data_epoch: int, begin: int, end: int, confirm: int, crc: int, lz4: int
) -> Chunk:
    if not begin < end <= begin + CHUNK_BYTES_MAX or data_epoch > epoch:
        raise RemoteProtocolError(f"Chunk [{begin}, {end}) of epoch {data_epoch} in epoch {epoch}")
    return Chunk(group, epoch, session, data_epoch, begin, end, confirm, crc, _flag(lz4))


def _decode_refused(group: int, epoch: int, session: int, reason: int, *offsets: int) -> Refused:
    try:
        known = RefusalReason(reason)
    except ValueError as error:
        raise RemoteProtocolError(f"Refused for reason {reason}") from error
    return Refused(group, epoch, session, known, *offsets)


def _decode_ack(group: int, epoch: int, session: int, written: int, flushed: int) -> Ack:
    if flushed > written:
        raise RemoteProtocolError(f"Ack of {flushed} flushed of {written}")
    return Ack(group, epoch, session, written, flushed)


def _flag(value: int) -> bool:
    if value > 1:
        raise RemoteProtocolError(f"a flag of {value}")
    return value == 1


_DECODERS: Final[dict[type[Frame], Callable[..., Frame]]] = {
    layout.cls: layout.cls for layout in FRAMES if layout.cls is not Opening
} | {Chunk: _decode_chunk, Refused: _decode_refused, Ack: _decode_ack}
