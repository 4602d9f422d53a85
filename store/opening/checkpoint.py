"""The checkpoint: from where a restart must read the log. RocketMQ's 4,096-byte file with a part of our own.

Big-endian. RocketMQ reads and writes the first 40 bytes, which have no checksum:

    byte 0 time of the last message flushed 8 | 8 of the last queue unit flushed 8 | 16 of the last index file flushed 8
         24 flushed offset of the master 8 | 32 confirm offset 8

Our part is two slots, at bytes 1024 and 2048, written in turn, so that one is whole after any kill or power failure:

    byte 0 magic 8 | 8 version 4 | 12 sequence 8 | 20 RocketMQ's 40 bytes again | 60 dispatched offset 8
         68 flushed offset 8 | 76 CRC-32 of bytes 0-75 4

A write goes: slot, sync, first 40 bytes, sync. So the first 40 bytes are those of the newer whole slot, or of the older
one, or a torn mix of both. Anything else was written by RocketMQ later, and then our two offsets are unknown.
"""

from __future__ import annotations

import os
import struct
from typing import Final

from ...model.errors import StoreFormatError
from ...model.plain_dataclass import dataclass
from ...model.queue import PhysicalOffset
from ...record.crc32 import crc32
from ..log.segment import SYSTEM_DISK, Disk, sync_directory, write_fully

CHECKPOINT_BYTES: Final = 4_096
SLOT_OFFSETS: Final = (1_024, 2_048)
MAGIC: Final = b"ZENITCKP"
VERSION: Final = 1
CLOCK_MARGIN_MS: Final = (
    3_000  # RocketMQ's margin: the times are those of whole flushes, messages may be a little older
)

_HEAD: Final = struct.Struct(">5Q")
_SLOT_BEGIN: Final = struct.Struct(">8sIQ")
_SLOT_END: Final = struct.Struct(">2Q")
_CRC: Final = struct.Struct(">I")
_SEQUENCE_MAX: Final = 1 << 63  # limit of a slot's sequence: no slot of ours ever gets there
_SLOT_BYTES: Final = _SLOT_BEGIN.size + _HEAD.size + _SLOT_END.size + _CRC.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Times in milliseconds since the epoch, 0 = never; the offsets are None if RocketMQ wrote the file last."""

    message_time_ms: int = 0
    queue_time_ms: int = 0
    index_time_ms: int = 0
    master_flushed_offset: int = 0
    confirm_offset: int = 0
    dispatched_offset: PhysicalOffset | None = None  # everything below is durable in every dispatcher
    flushed_offset: PhysicalOffset | None = None  # everything below was on disk

    @property
    def confirmed(self) -> int:
        """How far the log was confirmed (replication); 0 if that is unreliable because RocketMQ wrote the file last."""
        return self.confirm_offset if self.flushed_offset is not None else 0

    @property
    def recover_from_ms(self) -> int:
        """Messages stored before this time are durable in the log and in the queues."""
        return max(0, min(self.message_time_ms, self.queue_time_ms) - CLOCK_MARGIN_MS)


@dataclass(frozen=True, slots=True)
class _Slot:
    index: int
    sequence: int
    head: bytes
    dispatched_offset: int
    flushed_offset: int


def _encode_head(checkpoint: Checkpoint) -> bytes:
    return _HEAD.pack(
        checkpoint.message_time_ms,
        checkpoint.queue_time_ms,
        checkpoint.index_time_ms,
        checkpoint.master_flushed_offset,
        checkpoint.confirm_offset,
    )


def _encode_slot(checkpoint: Checkpoint, sequence: int) -> bytes:
    offsets = _SLOT_END.pack(checkpoint.dispatched_offset or 0, checkpoint.flushed_offset or 0)
    covered = _SLOT_BEGIN.pack(MAGIC, VERSION, sequence) + _encode_head(checkpoint) + offsets
    return covered + _CRC.pack(crc32(covered))


def _decode_slots(data: bytes, path: str) -> list[_Slot]:
    """The whole slots, newest first. Raises StoreFormatError if one is of a later version."""
    slots = []
    for index, at in enumerate(SLOT_OFFSETS):
        covered = data[at : at + _SLOT_BYTES - _CRC.size]
        magic, version, sequence = _SLOT_BEGIN.unpack_from(covered)
        if magic != MAGIC or _CRC.unpack_from(data, at + len(covered))[0] != crc32(covered):
            continue
        if sequence > _SEQUENCE_MAX:
            continue
        if version != VERSION:
            raise StoreFormatError(path, f"it is of version {version}, and this release knows {VERSION}; upgrade")
        head = covered[_SLOT_BEGIN.size : _SLOT_BEGIN.size + _HEAD.size]
        slots.append(_Slot(index, sequence, head, *_SLOT_END.unpack_from(covered, _SLOT_BEGIN.size + _HEAD.size)))
    return sorted(slots, key=lambda slot: -slot.sequence)


def decode_checkpoint(data: bytes, path: str = "checkpoint") -> Checkpoint:
    """The newest checkpoint in these bytes; all zeros (recover everything) if they are no checkpoint.

    Raises StoreFormatError if a later version wrote it.
    """
    if len(data) != CHECKPOINT_BYTES:
        return Checkpoint()
    head = data[: _HEAD.size]
    slots = _decode_slots(data, path)
    if not slots or not _is_mix(head, slots[0].head, slots[-1].head):
        return _checkpoint(head, None, None)
    newest = slots[0]
    return _checkpoint(newest.head, PhysicalOffset(newest.dispatched_offset), PhysicalOffset(newest.flushed_offset))


def _checkpoint(head: bytes, dispatched: PhysicalOffset | None, flushed: PhysicalOffset | None) -> Checkpoint:
    message_ms, queue_ms, index_ms, master_flushed, confirm = _HEAD.unpack(head)
    return Checkpoint(
        message_time_ms=message_ms,
        queue_time_ms=queue_ms,
        index_time_ms=index_ms,
        master_flushed_offset=master_flushed,
        confirm_offset=confirm,
        dispatched_offset=dispatched,
        flushed_offset=flushed,
    )


def _is_mix(head: bytes, newer: bytes, older: bytes) -> bool:
    """True if each byte is from one of the two: a write of `newer` over `older` that may not have finished."""
    return all(byte in pair for byte, pair in zip(head, zip(newer, older, strict=True), strict=True))


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The bytes of a new file."""
    data = bytearray(CHECKPOINT_BYTES)
    data[: _HEAD.size] = _encode_head(checkpoint)
    for sequence, at in enumerate(SLOT_OFFSETS):
        data[at : at + _SLOT_BYTES] = _encode_slot(checkpoint, sequence)
    return bytes(data)


def plan_update(data: bytes, checkpoint: Checkpoint) -> tuple[tuple[int, bytes], ...]:
    """The writes (position, bytes) that change the file `data` to `checkpoint`, each to be synced before the next.

    After a kill or a torn write anywhere in between, the file decodes to the old or the new checkpoint. Empty if the file
    has no whole slot of ours: then it must be replaced by `encode_checkpoint`.
    """
    slots = _decode_slots(data, "") if len(data) == CHECKPOINT_BYTES else []
    if not slots or not _is_mix(data[: _HEAD.size], slots[0].head, slots[-1].head):
        return ()
    slot = _encode_slot(checkpoint, slots[0].sequence + 1)
    return (SLOT_OFFSETS[1 - slots[0].index], slot), (0, _encode_head(checkpoint))


def read_checkpoint(path: str) -> Checkpoint:
    """The checkpoint of a store, all zeros if it has none. Raises StoreFormatError, OSError."""
    return decode_checkpoint(_read(path), path)


def write_checkpoint(path: str, checkpoint: Checkpoint, disk: Disk = SYSTEM_DISK) -> None:
    """Replaces the checkpoint, durably; takes two syncs, so not for the loop. Raises OSError."""
    writes = plan_update(_read(path), checkpoint)
    if not writes:
        _replace(path, encode_checkpoint(checkpoint), disk)
        return
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        for at, data in writes:
            write_fully(fd, data, at)
            disk.fdatasync(fd)
    finally:
        os.close(fd)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(CHECKPOINT_BYTES + 1)
    except FileNotFoundError:
        return b""


def _replace(path: str, data: bytes, disk: Disk) -> None:
    temporary = f"{path}.new"
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        write_fully(fd, data, 0)
        disk.fdatasync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path) or ".")
