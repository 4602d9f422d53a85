"""The frames of the replication port, and one table of their byte layouts, which frame_codec uses.

A slave opens a session; the master accepts it with a truncation point, or refuses it; the slave grants credit; the
master sends chunks of the log, and idle frames when there is nothing to send; the slave acknowledges positions.

    slave   Opening ............ Credit ........ Ack ....... Ack Credit
    master          Accepted            Chunk Chunk   Chunk             Idle

Every frame names the group, the epoch of the master's term, and the session (R2, R14). The
bytes of a chunk travel in a second ZeroMQ frame (chunk_payload). All numbers are big-endian. docs/formats/replication.md
shows the same table. Pure.
"""

from __future__ import annotations

import hashlib
from enum import Enum, IntEnum
from typing import Final

from ...model.groups.group import Incarnation
from ...model.plain_dataclass import dataclass
from ...store.config import RECORD_BYTES_LIMIT, SEGMENT_BYTES_LIMIT
from .epochs import NO_EPOCHS, EpochList

MAGIC: Final = b"ZR"
VERSION: Final = 1
CHUNK_BYTES: Final = 1024 * 1024
"""The most bytes of a chunk, unless a single record is longer."""
CHUNK_BYTES_MAX: Final = RECORD_BYTES_LIMIT + 8
"""The absolute limit of a chunk: the longest record that a store may allow, and the 8 bytes of a blank's header."""
CHUNK_SPAN_MAX: Final = SEGMENT_BYTES_LIMIT
"""The longest range of the log that a chunk names: within one segment, and the filler behind a blank's header is not sent."""
SESSION_MAX: Final = 1 << 62
"""The limit of session numbers: a number from a stranger must leave room for the next one."""
FRAME_BYTES_MAX: Final = 1024 * 1024
"""The limit of a frame without a chunk's bytes: an opening with a full list of epochs."""


class Side(Enum):
    """The receiver of a frame."""

    MASTER = "master"
    SLAVE = "slave"


class RefusalReason(IntEnum):
    """Why a master refuses a session."""

    OTHER_EPOCH = 1
    """The opening names another epoch than the master's, which the refusal carries."""
    STALE_SESSION = 2
    """The number is not above the highest seen from this slave; `offset` is that number."""
    NOT_A_MEMBER = 3
    """The group's node, as this master knows it, does not name the replica, or names another store for it."""
    BEHIND_RETENTION = 4
    """The truncation point `offset` is before `log_begin`: the slave must begin anew there, with `epochs`."""
    CLOSED = 5
    """The session was open, and the master has closed it: the slave should open a new one."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The fields of every frame: the group's key, the epoch of the master's term, the session."""

    group: int
    epoch: int
    session: int


@dataclass(frozen=True, slots=True)
class Opening(Frame):
    """A slave asks for a session. `epoch`: the highest it promised. `end`, `flushed`: of its log; `epochs`: its rows."""

    name: str
    incarnation: Incarnation
    end: int
    flushed: int
    epochs: EpochList
    wants_lz4: bool


@dataclass(frozen=True, slots=True)
class Accepted(Frame):
    """The session is open. The slave cuts its log to `truncate_at`, which counts in this session only (R4)."""

    truncate_at: int


@dataclass(frozen=True, slots=True)
class Refused(Frame):
    """The session is refused. `epoch`: the master's own. The meaning of the other fields depends on the reason.

    `epochs`: the rows that begin before `log_begin`. A log that begins anew keeps these rows without their bytes,
    because two logs can only be compared by complete lists.
    """

    reason: RefusalReason
    offset: int = 0
    log_begin: int = 0
    epochs: EpochList = NO_EPOCHS


@dataclass(frozen=True, slots=True)
class Credit(Frame):
    """The slave accepts bytes of the log up to this offset. It is a total, so lost or repeated frames do no harm."""

    up_to: int


@dataclass(frozen=True, slots=True)
class Chunk(Frame):
    """Bytes [begin, end) of the log, whole records of `data_epoch`; `crc` of the bytes before lz4 was applied (R5)."""

    data_epoch: int
    begin: int
    end: int
    confirm: int
    crc: int
    lz4: bool


@dataclass(frozen=True, slots=True)
class Idle(Frame):
    """Nothing to send: everything below `sent` was sent, so a lost last chunk is noticed. The slave answers with an Ack."""

    sent: int
    confirm: int


@dataclass(frozen=True, slots=True)
class Ack(Frame):
    """How far the slave's log is written, and how far it is on the disk."""

    written: int
    flushed: int


@dataclass(frozen=True, slots=True)
class Goodbye(Frame):
    """The sender stops; the receiver need not wait for a time-out."""


def group_key(cluster: str, broker_name: str) -> int:
    """The number of a group in every frame: a slave of another group or cluster is never mistaken for a member."""
    digest = hashlib.blake2b(f"{cluster}\0{broker_name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


_SIZES: Final = {"q": 8, "I": 4, "H": 2, "B": 1}


@dataclass(frozen=True, slots=True)
class FrameField:
    """A number: its name, its `struct` code (q: 63 bits, never negative), its meaning."""

    name: str
    code: str
    meaning: str

    @property
    def size_bytes(self) -> int:
        """Its size in bytes."""
        return _SIZES[self.code]


@dataclass(frozen=True, slots=True)
class FrameLayout:
    """One kind of frame. `tail` describes what follows the numbers, if its length varies."""

    kind: int
    cls: type[Frame]
    to: tuple[Side, ...]
    fields: tuple[FrameField, ...] = ()
    tail: str = ""


HEADER: Final = (
    FrameField("magic", "H", "`ZR`"),
    FrameField("version", "B", "of this protocol: 1"),
    FrameField("kind", "B", "which frame"),
    FrameField("group", "q", "the first 63 bits of the BLAKE2b (8 bytes) of cluster, a zero byte, broker name"),
    FrameField("epoch", "q", "of the term the frame belongs to"),
    FrameField("session", "q", "number the slave gave the session"),
)

FRAMES: Final = (
    FrameLayout(
        1,
        Opening,
        (Side.MASTER,),
        (
            FrameField("starts", "q", "incarnation: how often a process was started on the store"),
            FrameField("end", "q", "end of the slave's log"),
            FrameField("flushed", "q", "how far this process has synced it"),
            FrameField("lz4", "B", "1: chunks may be compressed"),
            FrameField("name_bytes", "B", "length of the replica's name"),
            FrameField("store_id_bytes", "B", "length of the store's identity"),
            FrameField("rows", "H", "number of epochs, at most 60000"),
        ),
        "name, store identity (UTF-8), then each row: epoch 8, begin 8",
    ),
    FrameLayout(2, Accepted, (Side.SLAVE,), (FrameField("truncate_at", "q", "where the slave's log must end"),)),
    FrameLayout(
        3,
        Refused,
        (Side.SLAVE,),
        (
            FrameField("reason", "B", "1 other epoch, 2 stale session, 3 not a member, 4 behind retention, 5 closed"),
            FrameField(
                "offset",
                "q",
                "for 2: the highest session seen, 2^62 at most, as in an Opening; for 4: the truncation point; else 0",
            ),
            FrameField("log_begin", "q", "for 4: where the master's log begins; else 0"),
            FrameField("rows", "H", "for 4: number of epochs that begin before it; else 0"),
        ),
        "each row: epoch 8, begin 8",
    ),
    FrameLayout(4, Credit, (Side.MASTER,), (FrameField("up_to", "q", "the log may be sent up to here"),)),
    FrameLayout(
        5,
        Chunk,
        (Side.SLAVE,),
        (
            FrameField("data_epoch", "q", "in which the bytes were written"),
            FrameField("begin", "q", "of the bytes in the log"),
            FrameField("end", "q", "just past them"),
            FrameField("confirm", "q", "the master's confirm offset"),
            FrameField("crc", "I", "CRC-32 of the bytes as they are in the log"),
            FrameField("lz4", "B", "1: the second frame is one lz4 frame"),
        ),
        "second ZeroMQ frame: the bytes; of a blank record that ends a segment only its first 8",
    ),
    FrameLayout(
        6,
        Idle,
        (Side.SLAVE,),
        (
            FrameField("sent", "q", "everything below was sent in this session"),
            FrameField("confirm", "q", "the master's confirm offset"),
        ),
    ),
    FrameLayout(
        7,
        Ack,
        (Side.MASTER,),
        (
            FrameField("written", "q", "end of the slave's log"),
            FrameField("flushed", "q", "how far it is on the slave's disk"),
        ),
    ),
    FrameLayout(8, Goodbye, (Side.MASTER, Side.SLAVE)),
)
