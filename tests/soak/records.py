"""What the processes of a soak write down, a JSON array a line: [kind, fields...]. Pure.

Times are of the wall clock, in milliseconds with a fraction; all processes run on one machine. A message is known by its
stream (one sequence of one sender) and its number in it, which stand at the beginning of its body.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from typing import ClassVar

OK = "ok"


@dataclass(frozen=True, slots=True)
class Sent:
    """`outcome`: OK, or the name of the error; then the message may be stored or not."""

    kind: ClassVar[str] = "sent"
    topic: str
    stream: str
    number: int
    begun_ms: float
    ended_ms: float
    outcome: str


@dataclass(frozen=True, slots=True)
class Recalled:
    """A delayed message that was asked back; with OK it is never to be delivered."""

    kind: ClassVar[str] = "recalled"
    topic: str
    stream: str
    number: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Handled:
    """A message that a handler or a poll got. `place`: its queue, and `offset` in it. `due_ms`: before which it must not come;
    0 = at once. `tries`: how often it was sent back before."""

    kind: ClassVar[str] = "handled"
    group: str
    member: str
    place: str
    offset: int
    stream: str
    number: int
    at_ms: float
    stored_ms: float
    due_ms: float
    tries: int


@dataclass(frozen=True, slots=True)
class Moved:
    """A member joined a group or left it. `how`: start, close, exception, killed ..."""

    kind: ClassVar[str] = "moved"
    group: str
    member: str
    at_ms: float
    how: str


@dataclass(frozen=True, slots=True)
class Away:
    """A broker was away. `end_ms`: when all replicas were in sync again."""

    kind: ClassVar[str] = "away"
    broker: str
    how: str
    begun_ms: float
    ended_ms: float


@dataclass(frozen=True, slots=True)
class Stalled:
    """The machine had no time for a process that did nothing but wait: it woke this much too late."""

    kind: ClassVar[str] = "stalled"
    due_ms: float
    woke_ms: float


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `outcome`: OK, the name of the error, or "wrong reply"."""

    kind: ClassVar[str] = "asked"
    stream: str
    number: int
    took_ms: float
    outcome: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that failed with an error of ours where one may: `what` was tried, `error` is its name."""

    kind: ClassVar[str] = "refused"
    what: str
    at_ms: float
    error: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """Something that must not be: an error that is not ours, a process that ended."""

    kind: ClassVar[str] = "wrong"
    what: str
    at_ms: float
    text: str


@dataclass(frozen=True, slots=True)
class Blocks:
    """How many blocks of memory Python's objects take in a process of ours, and what malloc has given out beside them."""

    kind: ClassVar[str] = "blocks"
    process: str
    at_ms: float
    count: int
    malloc_kib: int


Record = Sent | Recalled | Handled | Moved | Away | Stalled | Asked | Refused | Wrong | Blocks
_CLASSES = {
    record.kind: record for record in (Sent, Recalled, Handled, Moved, Away, Stalled, Asked, Refused, Wrong, Blocks)
}


def encode(record: Record) -> str:
    """One line."""
    return json.dumps([record.kind, *astuple(record)]) + "\n"


def decode(line: str) -> Record:
    """Raises ValueError, KeyError or TypeError for what is no record."""
    kind, *fields = json.loads(line)
    return _CLASSES[kind](*fields)


def body_of(stream: str, number: int, size_bytes: int, due_ms: float = 0) -> bytes:
    """A message's body, filled up to a size."""
    head = f"{stream} {number} {due_ms:.3f} ".encode()
    return head + b"." * max(0, size_bytes - len(head))


def identity_of(body: bytes) -> tuple[str, int, float]:
    """(stream, number, due_ms) of a body."""
    stream, number, due_ms, _ = body.split(b" ", 3)
    return stream.decode(), int(number), float(due_ms)
