"""Encodes and decodes the frames of the replication port, by the table in `frames`. Pure.

Any bytes that are not a valid frame raise RemoteProtocolError and nothing else; lengths are checked before anything is built.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import attrgetter
from typing import Final

from ...model.errors import RemoteProtocolError
from ...model.groups.group import Incarnation
from .epochs import ROWS_MAX, EpochList
from .frames import (
    CHUNK_SPAN_MAX,
    FRAME_BYTES_MAX,
    FRAMES,
    HEADER,
    MAGIC,
    SESSION_MAX,
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
_REFUSED: Final = _STRUCTS[3]


def _values_of(layout: FrameLayout) -> Callable[[Frame], tuple[int, ...]]:
    return attrgetter("group", "epoch", "session", *(field.name for field in layout.fields))


_ENCODERS: Final = {
    layout.cls: (_STRUCTS[layout.kind].pack, layout.kind, _values_of(layout))
    for layout in FRAMES
    if layout.cls not in (Opening, Refused)
}


def encode(frame: Frame) -> bytes:
    """The bytes of a frame."""
    if isinstance(frame, Opening):
        return _encode_opening(frame)
    if isinstance(frame, Refused):
        return _encode_refused(frame)
    pack, kind, values = _ENCODERS[type(frame)]
    return pack(MAGIC, VERSION, kind, *values(frame))


def decode(data: bytes | memoryview, at: Side) -> Frame:
    """Decodes a frame, for a receiver `at` this side. Raises RemoteProtocolError if the bytes are no valid frame."""
    if not _HEAD.size <= len(data) <= FRAME_BYTES_MAX:
        raise RemoteProtocolError(f"a replication frame of {len(data)} bytes")
    magic, version, kind = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise RemoteProtocolError(f"not a replication frame of version {VERSION}: {bytes(data[:4]).hex()}")
    layout = _LAYOUTS.get(kind)
    if layout is None or at not in layout.to:
        raise RemoteProtocolError(f"a replication frame of kind {kind} at the {at.value}")
    form = _STRUCTS[kind]
    varies = layout.cls in (Opening, Refused)
    if len(data) != form.size and (not varies or len(data) < form.size):
        raise RemoteProtocolError(f"{layout.cls.__name__} of {len(data)} bytes, expected {form.size}")
    values = form.unpack_from(data)[3:]
    if min(values) < 0:
        raise RemoteProtocolError(f"{layout.cls.__name__} with a negative number")
    if varies:
        return _decode_opening(data, values) if layout.cls is Opening else _decode_refused(data, values)
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
    return b"".join((head, name, store_id, _encode_rows(frame.epochs)))


def _encode_refused(frame: Refused) -> bytes:
    stamp = (frame.group, frame.epoch, frame.session)
    numbers = (frame.reason, frame.offset, frame.log_begin, len(frame.epochs.rows))
    return _REFUSED.pack(MAGIC, VERSION, 3, *stamp, *numbers) + _encode_rows(frame.epochs)


def _encode_rows(epochs: EpochList) -> bytes:
    return b"".join(_ROW.pack(row.number, row.begin) for row in epochs.rows)


def _decode_rows(data: bytes | memoryview, *, epoch: int, end: int) -> EpochList:
    """The rows up to the end of the frame. Their epochs are at most `epoch`, and none begins behind `end`."""
    try:
        epochs = EpochList.of(_ROW.iter_unpack(data))
    except ValueError as error:
        raise RemoteProtocolError(f"a list of epochs: {error}") from error
    if epochs.rows and (epochs.rows[0].begin < 0 or epochs.rows[-1].begin > end or epochs.newest > epoch):
        raise RemoteProtocolError(f"epochs that begin behind {end} or are above {epoch}")
    return epochs


def _decode_opening(data: bytes | memoryview, values: tuple[int, ...]) -> Opening:
    group, epoch, session, starts, end, flushed, lz4, name_bytes, store_id_bytes, count = values
    names_at = _OPENING.size
    rows_at = names_at + name_bytes + store_id_bytes
    if not name_bytes or not store_id_bytes or count > ROWS_MAX or len(data) != rows_at + count * _ROW.size:
        raise RemoteProtocolError(f"Opening of {len(data)} bytes, {count} epochs")
    if flushed > end or session > SESSION_MAX:
        raise RemoteProtocolError(f"Opening of session {session} with {flushed} flushed of {end}")
    try:
        name = str(data[names_at : names_at + name_bytes], "utf-8")
        store_id = str(data[names_at + name_bytes : rows_at], "utf-8")
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"Opening: {error}") from error
    epochs = _decode_rows(data[rows_at:], epoch=epoch, end=end)
    return Opening(group, epoch, session, name, Incarnation(store_id, starts), end, flushed, epochs, _flag(lz4))


def _decode_chunk(
    group: int, epoch: int, session: int, data_epoch: int, begin: int, end: int, confirm: int, crc: int, lz4: int
) -> Chunk:
    if not begin < end <= begin + CHUNK_SPAN_MAX or data_epoch > epoch:
        raise RemoteProtocolError(f"Chunk [{begin}, {end}) of epoch {data_epoch} in epoch {epoch}")
    return Chunk(group, epoch, session, data_epoch, begin, end, confirm, crc, _flag(lz4))


def _decode_refused(data: bytes | memoryview, values: tuple[int, ...]) -> Refused:
    group, epoch, session, reason, offset, log_begin, count = values
    if count > ROWS_MAX or len(data) != _REFUSED.size + count * _ROW.size:
        raise RemoteProtocolError(f"Refused of {len(data)} bytes, {count} epochs")
    try:
        known = RefusalReason(reason)
    except ValueError as error:
        raise RemoteProtocolError(f"Refused for reason {reason}") from error
    if known is RefusalReason.STALE_SESSION and offset > SESSION_MAX:
        raise RemoteProtocolError(f"Refused below session {offset}")
    epochs = _decode_rows(data[_REFUSED.size :], epoch=epoch, end=log_begin)
    return Refused(group, epoch, session, known, offset, log_begin, epochs)


def _decode_ack(group: int, epoch: int, session: int, written: int, flushed: int) -> Ack:
    if flushed > written:
        raise RemoteProtocolError(f"Ack of {flushed} flushed of {written}")
    return Ack(group, epoch, session, written, flushed)


def _flag(value: int) -> bool:
    if value > 1:
        raise RemoteProtocolError(f"a flag of {value}")
    return value == 1


_DECODERS: Final[dict[type[Frame], Callable[..., Frame]]] = {
    layout.cls: layout.cls for layout in FRAMES if layout.cls not in (Opening, Refused)
} | {Chunk: _decode_chunk, Ack: _decode_ack}
