"""What was acknowledged and what could be read, and the invariants over it (the names are the model's).

    I1  what was acknowledged is in the log of every master of a later epoch
    I3  what could be read never changes, and is in the log of every master of a later epoch
    I4  confirm offset of a life and promise of a replica never go back; an epoch has one master
    I6  no slave is asked to cut below its guard
    one value for ever per (queue, queue offset); what a producer saw acknowledged lies in the order it was sent

Bytes are compared when something has changed them: a confirm offset that moves, a log that is cut or overwritten below
it, a master that begins. Nothing else can break an invariant, so this is a check after every event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .records import RECORD, decode

if TYPE_CHECKING:
    from .broker import Broker


class Violation(AssertionError):
    """An invariant does not hold. Its text begins with the invariant's name."""


class Account:
    """A prefix of one log, as it became known bit by bit, with the epoch each range became known in."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ranges: list[tuple[int, int, int]] = []  # (begin, end, epoch)

    def note(self, begin: int, data: bytes, epoch: int) -> None:
        """Bytes [begin, ...) are known in `epoch`; zeros are where nothing is known."""
        end = begin + len(data)
        if end > len(self.data):
            self.data += bytes(end - len(self.data))
        self.data[begin:end] = data
        if self.ranges and self.ranges[-1][1] == begin and self.ranges[-1][2] == epoch:
            self.ranges[-1] = (self.ranges[-1][0], end, epoch)
        else:
            self.ranges.append((begin, end, epoch))


class Ledger:
    """`seen`: below a confirm offset somewhere. `acked`: acknowledged by a master, in its own term."""

    def __init__(self) -> None:
        self.seen = Account()
        self.acked = Account()
        self.masters: dict[int, tuple[str, int]] = {}  # epoch -> life
        self.leading: dict[str, Broker] = {}
        self.counts_acks = True
        self.heard: dict[tuple[int, int], int] = {}  # (producer, queue) -> offset of what was acknowledged last
        self._queue_ends: dict[int, int] = {}

    # ---- events

    def on_master(self, broker: Broker, epoch: int) -> None:
        """A master begins: it must hold all that is known of earlier epochs."""
        life = (broker.name, broker.incarnation.starts)
        other = self.masters.setdefault(epoch, life)
        if other != life:
            raise Violation(f"I4: epoch {epoch} has two masters, {other} and {life}")
        self.leading[broker.name] = broker
        for what, account in (("I1: acknowledged", self.acked), ("I3: seen", self.seen)):
            for begin, end, since in account.ranges:
                if since < epoch:
                    self._check_held(broker, what, account, begin, end, epoch)

    def on_deposed(self, broker: Broker) -> None:
        """It leads no more."""
        self.leading.pop(broker.name, None)

    def on_confirm(self, broker: Broker, confirm: int, end: int) -> None:
        """Everything below may be read at this replica."""
        if confirm < broker.confirm_seen:
            raise Violation(f"I4: the confirm offset of {broker.name} goes back to {confirm}")
        broker.confirm_seen = confirm
        disk = broker.disk
        broker.checked = begin = max(min(broker.checked, disk.changed_from), disk.begin)
        disk.changed_from = end = min(confirm, end)
        if end <= begin:
            return
        data = bytes(disk.log[begin:end])
        known = self.seen.data
        both = min(end, len(known))
        if begin < both and data[: both - begin] != known[begin:both]:
            raise Violation(f"I3: what was seen from {begin} to {both} is something else at {broker.name}")
        broker.checked = end
        if end > len(known):
            self._extend(broker, max(begin, len(known)), end)

    def on_acknowledged(self, broker: Broker, begin: int, end: int) -> None:
        """A master answers for the records [begin, end) of its term."""
        epoch = broker.replica.epoch
        data = bytes(broker.disk.log[begin:end])
        known = bytes(self.acked.data[begin:end])
        for at in range(0, len(known), RECORD):
            if known[at : at + RECORD].strip(b"\0") and known[at : at + RECORD] != data[at : at + RECORD]:
                raise Violation(f"I1: two records were acknowledged at {begin + at}")
        self.acked.note(begin, data, epoch)
        self._check_later_masters("I1: acknowledged", self.acked, begin, end, epoch)

    def on_answered(self, producer: int, queue: int, offset: int) -> None:
        """A producer, which sends one message after the other, is told where its message lies."""
        if self.counts_acks and offset <= self.heard.get((producer, queue), -1):
            raise Violation(f"order: producer {producer} was told of {offset} after {self.heard[producer, queue]}")
        self.heard[producer, queue] = offset

    # ---- checks

    def _extend(self, broker: Broker, begin: int, end: int) -> None:
        epoch = broker.replica.epoch
        known_end = len(self.seen.data)
        if begin > known_end:
            raise Violation(f"I3: {broker.name} shows {begin} and nothing was seen from {known_end} on")
        self.seen.note(begin, bytes(broker.disk.log[begin:end]), epoch)
        for at in range(begin, end, RECORD):
            record = decode(self.seen.data, at)
            expected = self._queue_ends.get(record.queue, 0)
            if record.queue_offset != expected:
                raise Violation(f"queue {record.queue}: offset {record.queue_offset} where {expected} was due")
            self._queue_ends[record.queue] = expected + 1
        self._check_later_masters("I3: seen", self.seen, begin, end, epoch)

    def _check_later_masters(self, what: str, account: Account, begin: int, end: int, epoch: int) -> None:
        for name, master in self.leading.items():
            if master.replica.epoch > epoch:
                self._check_held(master, f"{what} by {name}'s predecessor", account, begin, end, master.replica.epoch)

    def _check_held(self, broker: Broker, what: str, account: Account, begin: int, end: int, epoch: int) -> None:
        begin = max(begin, broker.disk.begin)
        if begin < end and account.data[begin:end] != broker.disk.log[begin:end]:
            raise Violation(f"{what} from {begin} to {end} is not at {broker.name}, master of epoch {epoch}")

    def is_held(self, log: bytearray, begin: int) -> bool:
        """Whether a log has all that is known, from where it is kept on."""
        if len(self.seen.data) > len(log) or self.seen.data[begin:] != log[begin : len(self.seen.data)]:
            return False
        return not self.counts_acks or all(
            self.acked.data[max(start, begin) : end] == log[max(start, begin) : end]
            for start, end, _ in self.acked.ranges
        )
