"""Decides the next request to one queue, and what an answer means, until a range of it is read. Pure.

    begin <= position <= ... strips in order ... <= end          queue offsets

Without a filter each offset has a message, so the range is cut into strips of about one answer each, and several are
requested at the same time. If an answer is shorter than its strip, the rest is requested. With a filter nobody knows how
far an answer reaches: there is one strip, with one request at a time. So it is once an answer has reached beyond its strip:
the topic takes batches, which come whole, or it is compacted, and has no message for many offsets. Answers are returned in
order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ...model.errors import DataLost, OffsetOutOfRange, RangeUnread, RemoteProtocolError, ZenitError
from ...model.get_status import GetStatus
from ...remoting.commands import PullReply

STRIPS_MAX: Final = 3
READY_MAX: Final = 2  # answers of a strip that wait to be taken, before more is requested
MESSAGES_MAX: Final = 65_536  # of one answer; the broker's own limit is lower
ANSWER_BYTES: Final = 1 << 20  # the assumed size of an answer at first
ROW_BYTES: Final = 1_280  # and of a record
ANSWER_BYTES_MIN: Final = 4_096
PAUSE_MS: Final = 50
PAUSE_MS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class PullLimits:
    """When a read fails: after more than `retries` tries in a row without a result, or `timeout_ms` of such tries."""

    bytes_max: int  # of one answer
    timeout_ms: int
    retries: int
    fail_on_data_loss: bool


@dataclass(frozen=True, slots=True)
class NextPull:
    """A pull to send now: messages [offset, end), at most `messages_max` of them.

    `is_doubted`: the last answer for this offset was damaged.
    """

    strip: int
    offset: int
    end: int
    messages_max: int
    is_replica_good: bool
    is_doubted: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """The next answer in order: its records in [begin, end) count. `missing`: offsets there without a record, as damage
    leaves them. `count`: how many messages it holds from `begin` on, also behind `end`."""

    payload: bytes
    begin: int
    end: int
    missing: int
    count: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets [begin, end) that do not exist any more.

    `is_damage`: their bytes are damaged; otherwise retention deleted them.
    """

    begin: int
    end: int
    is_damage: bool = False


@dataclass(slots=True)
class _Strip:
    number: int
    position: int  # the next offset to request
    end: int
    in_flight: bool = False
    not_before_ms: int = 0
    ready: deque[Taken] = field(default_factory=deque)

    @property
    def is_wanting(self) -> bool:
        return not self.in_flight and self.position < self.end and len(self.ready) < READY_MAX


class RangePulls:
    """The reading of one range of one queue. One thread; times are passed in."""

    def __init__(
        self, queue: str, begin: int, end: int, limits: PullLimits, *, is_filtered: bool, is_replica_good: bool
    ) -> None:
        """`is_filtered`: by the broker. `is_replica_good`: a replica may be asked, until one lacks the requested messages."""
        self._queue = queue
        self._end = end
        self._limits = limits
        self._is_filtered = is_filtered
        self._is_replica_good = is_replica_good
        self._is_in_one = is_filtered  # one strip
        self._next = begin  # the first offset that is not in a strip yet
        self._number = 0
        self._strips: deque[_Strip] = deque()
        self._answer_bytes = min(limits.bytes_max, ANSWER_BYTES)
        self._row_bytes = ROW_BYTES
        self._failures = 0
        self._failing_since_ms = 0
        self._doubted: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether all was returned."""
        return not self._strips and self._next >= self._end

    def asks(self, now_ms: int) -> list[NextPull]:
        """The pulls to send now; each counts as in flight until it is answered."""
        while len(self._strips) < STRIPS_MAX and self._next < self._end:
            end = self._end if self._is_in_one else min(self._end, self._next + self._rows())
            self._number += 1
            self._strips.append(_Strip(self._number, self._next, end))
            self._next = end
        found = []
        for strip in self._strips:
            if strip.is_wanting and strip.not_before_ms <= now_ms:
                strip.in_flight = True
                messages = MESSAGES_MAX if self._is_in_one else min(MESSAGES_MAX, strip.end - strip.position)
                is_doubted = strip.position == self._doubted
                is_replica_good = self._is_replica_good and not is_doubted  # the master's copy may have been repaired
                found.append(NextPull(strip.number, strip.position, strip.end, messages, is_replica_good, is_doubted))
        return found

    def next_due_ms(self) -> int | None:
        """When `asks` will have more without an answer; None: an answer must come first."""
        return min((strip.not_before_ms for strip in self._strips if strip.is_wanting), default=None)

    def take(self) -> Taken | None:
        """The next answer in order; None if it has not come yet, or all was returned."""
        while self._strips:
            strip = self._strips[0]
            if strip.ready:
                return strip.ready.popleft()
            if strip.position < strip.end:
                return None
            self._strips.popleft()
        return None

    def restart(self, offset: int, *, is_doubted: bool = False) -> None:
        """Begins again at `offset`: drops what was pulled beyond it and not returned."""
        self._strips.clear()
        self._next = offset
        self._doubted = offset if is_doubted else None

    def on_error(self, ask: NextPull, error: ZenitError, now_ms: int) -> None:
        """A pull failed. Raises the error if a retry cannot help, RangeUnread if retries did not help for too long."""
        strip = self._answered(ask)
        if strip is None:
            return
        if not error.retriable:
            raise error
        if self._is_hopeless(strip, ask, now_ms):
            raise RangeUnread(self._queue, ask.offset, now_ms - self._failing_since_ms, str(error))

    def on_reply(self, ask: NextPull, reply: PullReply, payload: bytes, now_ms: int) -> Lost | None:
        """Takes an answer; returns what was lost, if that is no error.

        Raises DataLost, OffsetOutOfRange (the queue ends before the range does), RangeUnread, RemoteProtocolError.
        """
        strip = self._answered(ask)
        if strip is None:
            return None
        status = reply.status
        if status == GetStatus.FOUND and payload:
            self._on_found(strip, ask, reply, payload)
        elif status == GetStatus.NO_MATCHED_MESSAGE and reply.next_offset > ask.offset:
            self._hand_out(strip, reply, b"")
        elif status == GetStatus.MESSAGES_LOST and ask.offset <= reply.lost_from < reply.next_offset:
            return self._on_lost(strip, reply)
        elif status == GetStatus.OFFSET_TOO_SMALL and reply.next_offset > ask.offset and not ask.is_replica_good:
            if self._limits.fail_on_data_loss:
                raise DataLost(self._queue, ask.offset, reply.next_offset)
            return self._give_up(strip, reply.next_offset)
        elif self._is_hopeless(strip, ask, now_ms):  # a replica that is behind, a queue that is just being cut
            if self._limits.fail_on_data_loss:
                raise OffsetOutOfRange(self._queue, ask.offset, reply.min_offset, reply.max_offset)
            return self._give_up(strip, strip.end)
        return None

    def _on_found(self, strip: _Strip, ask: NextPull, reply: PullReply, payload: bytes) -> None:
        if reply.next_offset <= ask.offset or reply.count < 1:
            raise RemoteProtocolError(f"a pull at {ask.offset} found {reply.count} messages up to {reply.next_offset}")
        self._row_bytes = max(1, len(payload) // reply.count)
        if not self._is_in_one:
            if reply.next_offset < ask.end:  # no more fitted into it
                self._answer_bytes = max(ANSWER_BYTES_MIN, len(payload), self._answer_bytes // 2)
            else:
                self._answer_bytes = min(self._limits.bytes_max, self._answer_bytes * 9 // 8)
        self._hand_out(strip, reply, payload)

    def _on_lost(self, strip: _Strip, reply: PullReply) -> Lost | None:
        """The messages before the lost ones were examined: a filter passed none of them."""
        if reply.lost_from > strip.position:
            begin = strip.position
            self._move(strip, reply.lost_from)
            strip.ready.append(Taken(b"", begin, strip.position, 0, 0))
        if strip.position >= strip.end:
            return None
        lost = self._give_up(strip, reply.next_offset)
        return Lost(lost.begin, lost.end, is_damage=True)

    def _hand_out(self, strip: _Strip, reply: PullReply, payload: bytes) -> None:
        """Stores an answer for the strip."""
        begin, offset, count = strip.position, reply.next_offset, reply.count
        if offset > strip.end:
            self._is_in_one = True
            if strip.end == self._next:  # nothing behind it is asked for yet
                strip.end = self._next = min(offset, self._end)
        self._move(strip, offset)
        missing = 0 if self._is_filtered or reply.is_compacted else max(0, offset - begin - count)
        strip.ready.append(Taken(payload, begin, strip.position, missing, count))

    def _give_up(self, strip: _Strip, offset: int) -> Lost:
        """Skips everything below `offset`, which cannot be read."""
        begin = strip.position
        self._move(strip, offset)
        return Lost(begin, strip.position)

    def _rows(self) -> int:
        """The number of rows in a strip, so that one answer can hold them."""
        return max(1, min(MESSAGES_MAX, self._answer_bytes * 15 // 16 // self._row_bytes))

    def _answered(self, ask: NextPull) -> _Strip | None:
        """The strip of an answer; None if it was dropped meanwhile."""
        for strip in self._strips:
            if strip.number == ask.strip:
                strip.in_flight = False
                return strip
        return None

    def _move(self, strip: _Strip, offset: int) -> None:
        strip.position = min(offset, strip.end)
        self._failures = 0

    def _is_hopeless(self, strip: _Strip, ask: NextPull, now_ms: int) -> bool:
        """After a try without a result: True if there is to be no other; otherwise the next one follows after a growing
        pause.

        If a replica was asked, the master is asked from now on, and at once.
        """
        if ask.is_replica_good:
            self._is_replica_good = False
            return False
        if not self._failures:
            self._failing_since_ms = now_ms
        self._failures += 1
        if self._failures > self._limits.retries or now_ms - self._failing_since_ms >= self._limits.timeout_ms:
            return True
        strip.not_before_ms = now_ms + min(PAUSE_MS << min(self._failures - 1, 10), PAUSE_MS_MAX)
        return False
