"""What the cores of replication ask of their shell. Values; the cores return them in lists, in the order to be done.

Effects that change the disk (`DiskEffect`) are carried out one at a time, in the order given, each durable before it
counts; the shell then hands the same object back: `on_done(effect)`. Until then the core acts as if it had not
happened. All others need no answer. What a core says about a session means the socket of that session alone. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...model.errors import CutRefused, SegmentsDiffer, TooManyEpochs
from .epochs import EpochList
from .frames import Chunk, Frame


@dataclass(frozen=True, slots=True)
class Effect:
    """Root of all."""


@dataclass(frozen=True, slots=True)
class DiskEffect(Effect):
    """To be answered by `on_done`."""


# ---- towards other replicas


@dataclass(frozen=True, slots=True)
class SendFrame(Effect):
    """Send to the replica `peer`, on the socket of the frame's session."""

    peer: str
    frame: Frame


@dataclass(frozen=True, slots=True)
class SendChunk(Effect):
    """Read [begin, end) of the log, `seal` it, send both frames. `chunk` has no CRC yet; `lz4`: it was asked for."""

    peer: str
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class OpenSession(Effect):
    """A slave's: a fresh socket to the master `peer`; its frames follow."""

    peer: str
    session: int


@dataclass(frozen=True, slots=True)
class CloseSession(Effect):
    """Close the socket of this session, or as ROUTER forget its identity; what still arrives from it is dropped."""

    peer: str
    session: int


# ---- towards the controller


@dataclass(frozen=True, slots=True)
class ProposeInSync(Effect):
    """Ask for this in-sync set, conditionally on the node's version. No answer is needed: only newer news settle it."""

    version: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TellMasterGone(Effect):
    """The master's end closed the session's socket: the controller should know at once."""

    peer: str
    epoch: int


@dataclass(frozen=True, slots=True)
class AskController(Effect):
    """What we know of the group is old, or another's is: fetch the node."""


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
    """Whether the master takes new messages: as many replicas are in sync as the group demands."""

    allowed: bool


@dataclass(frozen=True, slots=True)
class Halt(Effect):
    """This replica takes no part in this term and says so, with what an operator can do: `reason` is CutRefused where the
    master asked it to forget what may be confirmed (R4), TooManyEpochs where the list of epochs is full, SegmentsDiffer where
    its log files are of another size than the master's."""

    reason: CutRefused | SegmentsDiffer | TooManyEpochs


@dataclass(frozen=True, slots=True)
class Lead(Effect):
    """This replica is master of `epoch` from `start` on: make a MasterState, take appends."""

    epoch: int
    start: int


@dataclass(frozen=True, slots=True)
class StopLeading(Effect):
    """Acknowledge nothing more, take no appends, drop the MasterState."""


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
    """The slave core follows nobody and waits for nothing on the disk."""


# ---- towards the disk


@dataclass(frozen=True, slots=True)
class PersistPromise(DiskEffect):
    """Write the highest epoch seen, in a field that nothing lowers (R2)."""

    epoch: int


@dataclass(frozen=True, slots=True)
class PersistIntent(DiskEffect):
    """Write down that the log is about to be cut, before it is (R4)."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class ClearIntent(DiskEffect):
    """The cut is complete: forget the intent."""


@dataclass(frozen=True, slots=True)
class CutLog(DiskEffect):
    """End the log at `offset` and fsync that; what was behind it never comes back. Done even where it ends there."""

    offset: int


@dataclass(frozen=True, slots=True)
class PersistEpochs(DiskEffect):
    """Write the whole epoch list."""

    epochs: EpochList


@dataclass(frozen=True, slots=True)
class Append(DiskEffect):
    """Append the bytes of a chunk at the log's end, which is the chunk's begin. Need not be flushed to count as done."""

    chunk: Chunk
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class CutTail(DiskEffect):
    """A new master's: cut what is no whole record at the log's end; say where it ends (`on_position`), then done."""


@dataclass(frozen=True, slots=True)
class SyncLog(DiskEffect):
    """Fsync all that is written; say so (`on_position`), then done."""


@dataclass(frozen=True, slots=True)
class StartAnew(DiskEffect):
    """Delete the log and all that was derived from it; begin an empty one at `begin`, under these epochs (R12).

    The master's snapshots of state are fetched first; done means that the log may be appended to.
    """

    begin: int
    epochs: EpochList
