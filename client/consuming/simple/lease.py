"""What a popped message carries with it: by which handle its broker knows it, and for how long. Pure.

A handle is of all messages that came from one queue in one reply; its bits tell them apart. A changed invisible time gives a
message a handle of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ....model.errors import InvalidParameter
from ....model.handles.receipt_handle import ReceiptHandle, split_index, with_index
from ....record.kernel import StoredMessage
from ...tracing.trace_format import ConsumeCode


@dataclass(frozen=True, slots=True)
class LeasedPart:
    """The messages of one handle. `until_ms`: when their invisible time is over (monotonic)."""

    group: str
    broker_name: str
    topic: str
    handle: str
    until_ms: int


class Lease:
    """One message's: of the `index`-th message of a part. `trace`: is told how it ended; None if it
    is not traced."""

    __slots__ = ("index", "part", "trace")

    def __init__(self, part: LeasedPart, index: int) -> None:
        self.part = part
        self.index = index
        self.trace: Callable[[ConsumeCode], None] | None = None

    def on_done(self, code: ConsumeCode) -> None:
        """The consumer says how it ended."""
        if self.trace is not None:
            self.trace(code)

    @property
    def handle(self) -> str:
        """Names the message to any process of the group."""
        return with_index(self.part.handle, self.index)


def lease_of(message: StoredMessage, group: str) -> Lease:
    """Of a message that a consumer of the group popped. Raises InvalidParameter."""
    lease = message.lease if isinstance(message, StoredMessage) else None
    if not isinstance(lease, Lease) or lease.part.group != group:
        what = message.message_id if isinstance(message, StoredMessage) else type(message).__name__
        raise InvalidParameter("message", what, f"a message that a SimpleConsumer of {group} received, or its handle")
    return lease


def lease_of_handle(handle: str, group: str, *, now_ms: int, since_epoch_ms: int) -> Lease:
    """Of a message that any process of the group has. Both times are of the present: monotonic, and since the epoch.

    Raises HandleRefused (malformed)."""
    of_all, index = split_index(handle)
    named = ReceiptHandle.read(of_all)
    left_ms = named.pop_ms + named.invisible_ms - since_epoch_ms
    return Lease(LeasedPart(group, named.broker_name, named.topic, of_all, now_ms + left_ms), index)


def leased_parts(leases: Iterable[Lease]) -> dict[LeasedPart, int]:
    """{part: the bits of its messages among these}."""
    bits: dict[LeasedPart, int] = {}
    for lease in leases:
        bits[lease.part] = bits.get(lease.part, 0) | 1 << lease.index
    return bits
