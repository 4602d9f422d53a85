"""The effects that replication cores ask of their shell, as values; a list of effects is carried out in its order.

Effects that change the disk (`DiskEffect`) are carried out one at a time, in the order given. When one is durable, the
shell hands the same object back: `on_done(effect)`. Until then the core acts as if the effect had not happened. All other
effects need no answer. An effect on a session concerns only the socket of that session. Pure.
"""

from __future__ import annotations

from ...model.errors import CutRefused, SegmentsDiffer, TooManyEpochs
from ...model.plain_dataclass import dataclass
from .epochs import EpochList
from .frames import Chunk, Frame


@dataclass(frozen=True, slots=True)
class Effect:
    """The base of all effects."""


@dataclass(frozen=True, slots=True)
class DiskEffect(Effect):
    """An effect on the disk; `on_done` answers it."""


# ---- towards other replicas


@dataclass(frozen=True, slots=True)
class SendFrame(Effect):
    """Send to the replica `peer`, on the socket of the frame's session."""

    peer: str
    frame: Frame


@dataclass(frozen=True, slots=True)
class SendChunk(Effect):
    """Read [begin, end) of the log, encode it, send both frames. `chunk` has no CRC yet; `lz4`: the slave asked for it."""

    peer: str
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class OpenSession(Effect):
    """Of a slave: open a fresh socket to the master `peer`; its frames follow."""

    peer: str
    session: int


@dataclass(frozen=True, slots=True)
class CloseSession(Effect):
    """Close the socket of this session, or on a ROUTER forget its identity; what still arrives from it is dropped."""

    peer: str
    session: int


# ---- towards the controller


@dataclass(frozen=True, slots=True)
class ProposeInSync(Effect):
    """Propose this in-sync set, on condition of the node's version. No answer is needed: only newer news settle it."""

    version: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TellMasterGone(Effect):
    """The master's end closed the session's socket: report that to the controller at once."""

    peer: str
    epoch: int


@dataclass(frozen=True, slots=True)
class AskController(Effect):
    """Our news of the group, or another replica's, are old: read the node."""


# ---- towards the broker


@dataclass(frozen=True, slots=True)
class ConfirmMoved(Effect):
    """Everything below `offset` may be read."""

    offset: int


@dataclass(frozen=True, slots=True)
class Acknowledge(Effect):
    """Sends that end at or below `up_to` may be answered."""

    up_to: int


@dataclass(frozen=True, slots=True)
class WritesAllowed(Effect):
    """Whether the master takes new messages: as many replicas are in sync as the group requires."""

    allowed: bool


@dataclass(frozen=True, slots=True)
class Halt(Effect):
    """This replica takes no part in this term, and `reason` says what an operator can do: CutRefused if the master asked it
    to cut what may be confirmed (R4), TooManyEpochs if the list of epochs is full, SegmentsDiffer if its log files have
    another size than the master's."""

    reason: CutRefused | SegmentsDiffer | TooManyEpochs


@dataclass(frozen=True, slots=True)
class Lead(Effect):
    """This replica is master of `epoch` from `start` on: make a MasterState, accept appends."""

    epoch: int
    start: int


@dataclass(frozen=True, slots=True)
class StopLeading(Effect):
    """Acknowledge nothing more, accept no appends, drop the MasterState."""


@dataclass(frozen=True, slots=True)
class Follow(Effect):
    """Be a slave of `master` in `epoch`: `SlaveState.on_master`."""

    master: str
    epoch: int


@dataclass(frozen=True, slots=True)
class StopFollowing(Effect):
    """`SlaveState.on_stop`; when that core says `Stopped`, `RoleState.on_stopped`."""


@dataclass(frozen=True, slots=True)
class Stopped(Effect):
    """The slave core follows nobody, and no effect of it is pending on the disk."""


# ---- towards the disk


@dataclass(frozen=True, slots=True)
class PersistPromise(DiskEffect):
    """Persist the highest epoch seen, in a field that nothing lowers (R2)."""

    epoch: int


@dataclass(frozen=True, slots=True)
class PersistIntent(DiskEffect):
    """Persist the intent to cut the log, before the cut (R4)."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class ClearIntent(DiskEffect):
    """The cut is complete: delete the intent."""


@dataclass(frozen=True, slots=True)
class CutLog(DiskEffect):
    """End the log at `offset` and fsync that; what was behind it never comes back. Done even if the log already ends there."""

    offset: int


@dataclass(frozen=True, slots=True)
class PersistEpochs(DiskEffect):
    """Write the whole epoch list."""

    epochs: EpochList


@dataclass(frozen=True, slots=True)
class Append(DiskEffect):
    """Append the bytes of a chunk at the log's end, which is the chunk's begin. Done when written, flushed or not."""

    chunk: Chunk
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class CutTail(DiskEffect):
    """Of a new master: cut a partial record at the log's end and report the end (`on_position`), then done."""


@dataclass(frozen=True, slots=True)
class SyncLog(DiskEffect):
    """Fsync everything written and report it (`on_position`), then done."""


@dataclass(frozen=True, slots=True)
class StartAnew(DiskEffect):
    """Delete the log and everything derived from it; begin an empty one at `begin`, with these epochs (R12).

    The master's snapshots of state are fetched first. When this is done, the log may be appended to.
    """

    begin: int
    epochs: EpochList
