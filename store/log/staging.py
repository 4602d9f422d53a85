"""One turn of the loop: batches are checked and stamped in place in the arena, written at once, then dispatched.

    arena.view:  | staged, contiguous, as it will be in the log | next payload | free |
                 ^ first staged                                 ^ arena.used

Order of a write: the log, then everything derived from it (`run_dispatch`). More may be staged and appended in between. A
batch that does not fit behind the staged ones makes them be written first; then the segment rolls. Loop thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from ...model.arena import Arena
from ...model.errors import MessageIllegal, StoreNotWriteable, TooManyLightQueues
from ...model.names import check_topic
from ...model.properties import encode_properties
from ...model.topics.light_queues import is_light_queue, takes_light_queues
from ...record.codes import (
    BAD_BODY_SIZE,
    BAD_SIZE,
    BODY_CRC_AT,
    HALF_OR_ROLLBACK,
    PHYSICAL_OFFSET_AT,
    RECORD_OVERHEAD_BYTES,
    TERMINATOR_BYTES,
)
from ...record.kernel import (
    RunKernel,
    WrittenRun,
    batch_sizes,
    encode_record,
    index_topic_hash,
    why_refused,
    write_light_offsets,
)
from ...record.new_record import NewRecord
from ...record.sys_flag import LIGHT
from ..config import StoreConfig
from ..opening.store_opening import Opened
from ..queues.light_offsets import first_light_offset
from ..queues.queue_engine import goes_to_queue
from ..queues.queue_places import QueuePlaces
from ..queues.run_dispatch import UNITS_WAIT, RunDispatch, RunTarget
from .light_room import properties_with_room, records_with_room


@dataclass(slots=True)
class Placed:
    """The place of a batch after the commit: queue offsets from `queue_offset` on, bytes [physical_offset, end).

    `pieces`: ((count, physical offset), ...) of a batch that had to be split over segments. A reply that promises the disk
    waits until `flushed` >= `end`. Not frozen, because one is made for every request.
    """

    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    count: int
    end: int
    pieces: tuple[tuple[int, int], ...] = ()


class _Tail(RunTarget):
    """The staged end of a queue: `next_offset` is ahead of the queue's own until the commit."""

    __slots__ = ("is_plain", "light_ends", "next_offset", "topic_bytes", "topic_hash")

    def __init__(self, queue: QueuePlaces, light_ends: dict[str, int]) -> None:
        """`light_ends`: what is staged of light queues; they count for this topic or not."""
        self.queue = queue
        self.topic = queue.topic
        self.queue_id = queue.queue_id
        self.topic_bytes = queue.topic.encode()
        self.topic_hash = index_topic_hash(self.topic_bytes)
        self.next_offset = queue.next_offset
        self.is_plain = not queue.keeps_times
        self.light_ends = light_ends if takes_light_queues(queue.topic) else None


class Staging:
    """The staged batches of one open store."""

    def __init__(
        self,
        arena: Arena,
        config: StoreConfig,
        opened: Opened,
        dispatch: RunDispatch,
        *,
        store_host: bytes,
        now_ms: Callable[[], int],
    ) -> None:
        self._arena = arena
        self._memory = arena.view
        self._config = config
        self._now_ms = now_ms
        self._store_host = store_host
        self._log, self._queues = opened.log, opened.queues
        self._upkeep = opened.upkeep
        self._dispatch = dispatch
        self._kernel = RunKernel(
            store_host=store_host,
            record_max=config.record_bytes_max,
            body_max=config.body_bytes_max,
            index_keys=config.index_enabled,
            index_tags=config.index_tags,
        )
        self._tails: dict[tuple[str, int], _Tail] = {}
        self._light_ends: dict[str, int] = {}  # of the light queues that staged records name: their next offsets
        self._new_lights = 0  # how many of them do not exist yet
        self._batch_tails: dict[tuple[str, int], _Tail] = {}  # of batch queues
        self._light_topic = ""  # whose records are being stamped
        self.check_light: Callable[[str, str], None] = _allow
        self._staged: list[WrittenRun] = []
        self._staged_end = 0  # physical offset behind what is staged, else the log's end
        self._staged_room = -1  # bytes that may still be staged before the segment must roll
        self._is_plain = True  # all staged records are visible, in queues whose units need no store time
        self._appended = 0  # so many of them are in the log, not dispatched

    def stage(
        self,
        begin: int,
        end: int,
        topic: str,
        queue_id: int,
        count: int,
        own: bool = False,
        flags: int = 0,
        find_light: Callable[[str], int] | None = None,
    ) -> Placed:
        """Stages a producer's batch in arena.view[begin:end], begin == arena.used: checks and stamps it there.

        Moves arena.used to `end`. Raises MessageIllegal, StoreNotWriteable, StorePoisoned; arena.used is then unchanged.
        `find_light`: of records that are not a client's. `own`: the records may have fields that a client may not set,
        and their bodies are known to match their checksums; `flags`: of the run.
        """
        tail = self._tails.get((topic, queue_id)) or self._tail(topic, queue_id)
        size = end - begin
        if size > self._staged_room:
            if size + TERMINATOR_BYTES > self._log.segment_bytes:
                return self._stage_split(tail, begin, end, count, own, flags)
            self._make_room(size)
        now_ms = self._now_ms()
        physical = self._staged_end
        kernel = self._kernel
        light_ends = tail.light_ends
        asks_again = bool(light_ends) and self._light_topic != topic and find_light is None
        if asks_again:  # another topic's records named these: whether this one's may is not known
            light_ends = {}
        self._light_topic = topic
        units_begin, keys_begin = kernel.units_end, kernel.keys_end
        queue_offset = tail.next_offset
        done = kernel.stamp(
            self._memory,
            begin,
            end,
            tail.topic_bytes,
            tail.topic_hash,
            count,
            tail.queue_id,
            queue_offset,
            physical,
            now_ms,
            own,
            light_ends,
            find_light or self._find_allowed_light,
        )
        if done <= 0:
            raise self._refusal(done, begin, end)
        if asks_again and light_ends:
            self._light_ends.update(light_ends)
        if kernel.is_light:
            flags |= LIGHT
        if not tail.is_plain:
            self._is_plain = False
        tail.next_offset = queue_offset + done
        self._staged.append(
            kernel.written(tail, queue_offset, done, physical, size, now_ms, units_begin, keys_begin, begin, flags)
        )
        self._staged_end = physical + size
        self._staged_room -= size
        self._arena.used = end
        return Placed(queue_offset, physical, now_ms, done, physical + size)

    def stage_batch(self, begin: int, end: int, topic: str, queue_id: int, count: int) -> Placed:
        """Stages the one record in arena.view[begin:end], begin == arena.used, that holds a producer's batch of `count`
        messages, for a batch queue. Moves arena.used to `end`.

        Raises MessageIllegal (also if the queue has plain records), StoreNotWriteable, StorePoisoned; arena.used is then
        unchanged.
        """
        tail = self._batch_tails.get((topic, queue_id)) or self._batch_tail(topic, queue_id)
        size = end - begin
        if size + TERMINATOR_BYTES > self._log.segment_bytes:
            raise self._refusal(BAD_SIZE)
        if size > self._staged_room:
            self._make_room(size)
        now_ms, physical, kernel = self._now_ms(), self._staged_end, self._kernel
        units_begin, keys_begin, queue_offset = kernel.units_end, kernel.keys_end, tail.next_offset
        done = kernel.stamp_batch(
            self._memory, begin, end, tail.topic_bytes, count, tail.queue_id, queue_offset, physical, now_ms
        )
        if done <= 0:
            raise self._refusal(done, begin, end)
        self._is_plain = False
        tail.next_offset = queue_offset + done
        self._staged.append(
            kernel.written(
                tail, queue_offset, done, physical, size, now_ms, units_begin, keys_begin, begin, kernel.sys_flag
            )
        )
        self._staged_end = physical + size
        self._staged_room -= size
        self._arena.used = end
        return Placed(queue_offset, physical, now_ms, done, physical + size)

    def stage_own(self, records: bytes, *, topic: str, queue_id: int, count: int, flags: int) -> Placed:
        """Stages contiguous visible records of one queue that the broker made, with its own fields zero, all or none.

        `flags`: see `MessageStore.stage_own`. Raises InvalidName, MessageIllegal (also if they exceed a segment or the
        arena), StoreNotWriteable, StorePoisoned.
        """
        if takes_light_queues(topic):
            records = records_with_room(records)
        size = len(records)
        if size + TERMINATOR_BYTES > self._log.segment_bytes or size > len(self._memory):
            raise self._refusal(BAD_SIZE)
        if size > self._staged_room or self._arena.used + size > len(self._memory):
            self._make_room(size)
        begin = self._arena.used
        self._memory[begin : begin + size] = records
        return self.stage(begin, begin + size, topic, queue_id, count, True, flags, self._find_light)

    def stage_record(self, new: NewRecord, *, frees_room: bool = False) -> Placed:
        """Stages one record that the broker itself makes; see `MessageStore.stage_record`.

        Raises MessageIllegal, MessageTooLarge, StoreNotWriteable, StorePoisoned.
        """
        tail = self._tails.get((new.topic, new.queue_id)) or self._tail(new.topic, new.queue_id)
        encoded = new.properties if isinstance(new.properties, bytes) else encode_properties(new.properties)
        if tail.light_ends is not None:
            encoded = properties_with_room(encoded)
        now_ms = self._now_ms()
        is_visible = goes_to_queue(new.sys_flag)
        record = bytearray(
            encode_record(
                topic=tail.topic_bytes,
                body=new.body,
                properties=encoded,
                queue_id=new.queue_id,
                flag=new.flag,
                queue_offset=tail.next_offset if is_visible else 0,
                sys_flag=new.sys_flag,
                born_timestamp_ms=now_ms if new.born_timestamp_ms is None else new.born_timestamp_ms,
                born_host=self._store_host if new.born_host is None else new.born_host,
                store_timestamp_ms=now_ms,
                store_host=self._store_host,
                reconsume_times=new.reconsume_times,
                prepared_transaction_offset=new.prepared_transaction_offset,
            )
        )
        if new.body_crc is not None:
            record[BODY_CRC_AT : BODY_CRC_AT + 4] = new.body_crc.to_bytes(4, "big")
        size = len(record)
        if size > self._config.record_bytes_max or size + TERMINATOR_BYTES > self._log.segment_bytes:
            raise self._refusal(BAD_SIZE)
        if size > self._staged_room or self._arena.used + size > len(self._memory):
            self._make_room(size, frees_room=frees_room)
        physical, begin = self._staged_end, self._arena.used
        record[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8] = physical.to_bytes(8, "big")
        self._memory[begin : begin + size] = record
        kernel = self._kernel
        units_begin, keys_begin = kernel.units_end, kernel.keys_end
        if kernel.scan(self._memory, begin, begin + size, physical, False, 1) != 1:
            raise self._refusal(kernel.status)
        if kernel.sys_flag & LIGHT and is_visible and tail.light_ends is not None:
            self._write_lights(begin, begin + size, tail.light_ends)
        queue_offset = tail.next_offset
        self._is_plain = self._is_plain and tail.is_plain and kernel.sys_flag & HALF_OR_ROLLBACK == 0
        tail.next_offset += is_visible
        self._staged.append(
            kernel.written(
                tail, queue_offset, 1, physical, size, now_ms, units_begin, keys_begin, begin, kernel.sys_flag
            )
        )
        self._staged_end = physical + size
        self._staged_room = -1 if self._upkeep.is_refusing else self._staged_room - size
        self._arena.used = begin + size
        return Placed(queue_offset, physical, now_ms, 1, physical + size)

    def _tail(self, topic: str, queue_id: int) -> _Tail:
        check_topic(topic)
        if queue_id < 0:
            raise MessageIllegal(f"queue id {queue_id} is negative")
        if is_light_queue(topic):
            raise MessageIllegal(f"{topic} is a light queue: a message is sent to a topic, and names its light queues")
        tail = self._tails[topic, queue_id] = _Tail(self._queues.get_or_create(topic, queue_id), self._light_ends)
        return tail

    def _find_allowed_light(self, name: str) -> int:
        """The same for a client's record, which may not name every one. Also raises what `check_light` does."""
        self.check_light(self._light_topic, name)
        return self._light_ends.get(name) or self._find_light(name)

    def _find_light(self, name: str) -> int:
        """The next offset of a light queue that no staged record names. Raises TooManyLightQueues."""
        queue = self._queues.get(name, 0)
        if queue is not None and queue.next_offset:
            return queue.next_offset
        limit = self._config.light_queues_max
        if len(self._queues.lights) + self._new_lights >= limit:
            raise TooManyLightQueues(limit)
        self._new_lights += 1
        return first_light_offset(self._staged_end)

    def _write_lights(self, begin: int, end: int, light_ends: dict[str, int]) -> None:
        """Writes the offsets in light queues into the record that was scanned last. Raises MessageIllegal,
        TooManyLightQueues."""
        reason = write_light_offsets(self._memory, begin, end, light_ends, self._find_light)
        if reason < 0:
            raise self._refusal(reason, begin, end)

    def _batch_tail(self, topic: str, queue_id: int) -> _Tail:
        check_topic(topic)
        if queue_id < 0:
            raise MessageIllegal(f"queue id {queue_id} is negative")
        queue = self._queues.get_or_create_batched(topic, queue_id)
        if not queue.is_batched:
            raise MessageIllegal(f"queue {queue_id} of {topic} has messages that are no batches")
        tail = self._batch_tails[topic, queue_id] = _Tail(queue, self._light_ends)
        return tail

    def _make_room(self, size: int, *, frees_room: bool = False) -> None:
        """Commits what is staged and makes room for `size` bytes behind it. `frees_room`: as in `stage_record`.

        Raises StoreNotWriteable.
        """
        self.write()
        if not self._arena.used or self._arena.used + size > len(self._memory):
            self._arena.used = 0
        if not frees_room:
            self._upkeep.check_writeable()
        if self._dispatch.is_blocked:
            raise StoreNotWriteable(UNITS_WAIT)
        self._staged_end = self._log.place(size)
        self._staged_room = self._log.room_bytes

    def _refusal(self, reason: int, begin: int = 0, end: int = 0) -> MessageIllegal:
        """`begin`, `end`: of a batch in the arena that the kernel refused."""
        limits = {BAD_SIZE: self._config.record_bytes_max, BAD_BODY_SIZE: self._config.body_bytes_max}
        limit = limits.get(reason)
        text = why_refused(reason, self._memory, begin, end)
        return MessageIllegal(text if limit is None else f"{text} (limit {min(limit, self._log.segment_bytes)} bytes)")

    def _stage_split(self, tail: _Tail, begin: int, end: int, count: int, own: bool, flags: int) -> Placed:
        """Handles a batch larger than a segment: checks it whole, then writes it piece by piece at once."""
        self._make_room(RECORD_OVERHEAD_BYTES)
        kernel = self._kernel
        self._light_topic = tail.topic
        tried: dict[str, int] | None = None if tail.light_ends is None else {}
        done = kernel.stamp(
            self._memory, begin, end, tail.topic_bytes, tail.topic_hash, count, tail.queue_id, 0, 0, self._now_ms(), own,
            tried, self._find_allowed_light,
        )  # fmt: skip
        kernel.clear()
        if done <= 0:
            raise self._refusal(done, begin, end)
        room = self._log.segment_bytes - TERMINATOR_BYTES
        cuts, at = [begin], begin
        for size in batch_sizes(bytearray(self._arena.view[begin:end]), end - begin):
            if size > room:
                raise self._refusal(BAD_SIZE)
            if at + size - cuts[-1] > room:
                cuts.append(at)
            at += size
        cuts.append(end)
        placed: list[Placed] = []
        for piece_begin, piece_end in pairwise(cuts):
            pieces = batch_sizes(bytearray(self._arena.view[piece_begin:piece_end]), piece_end - piece_begin)
            self._arena.used = piece_begin
            placed.append(self.stage(piece_begin, piece_end, tail.topic, tail.queue_id, len(pieces), True, flags))
            self.write()
        first = placed[0]
        return Placed(
            first.queue_offset,
            first.physical_offset,
            first.store_timestamp_ms,
            done,
            placed[-1].end,
            tuple((piece.count, piece.physical_offset) for piece in placed),
        )

    def write(self) -> None:
        """Writes all staged batches and dispatches them. Raises StorePoisoned."""
        self.append()
        self.dispatch()

    def append(self) -> None:
        """The first half of `write`: appends to the log what was staged since the last time. Raises StorePoisoned."""
        staged, appended = self._staged, self._appended
        if appended < len(staged):
            first, last = staged[appended], staged[-1]
            begin = first.at
            self._log.append((self._arena.view[begin : begin + last.end - first.begin],))
            self._appended = len(staged)

    def dispatch(self) -> None:
        """The second half: dispatches all of it to queues, index and the other dispatchers. Raises StorePoisoned."""
        staged = self._staged
        if not staged or self._appended < len(staged):  # an append failed, and nothing follows
            return
        try:
            self._dispatch.dispatch(staged, self._kernel, self._arena.view, grouped=self._is_plain)
        except OSError as error:
            raise self._log.poison(f"queues or index: {error.strerror or error}") from error
        finally:
            self._appended = 0
            staged.clear()
            self._kernel.clear()
            self.refresh()

    def refresh(self) -> None:
        """Continues where the log ends; nothing may be staged."""
        self._staged_end = self._log.written
        self._staged_room = -1 if self._upkeep.is_refusing or self._dispatch.is_blocked else self._log.room_bytes
        self._is_plain = True
        self._light_ends.clear()
        self._new_lights = 0

    def forget_tails(self) -> None:
        """Forgets the ends of queues, which have moved on without staging: they are looked up again."""
        self._tails.clear()
        self._batch_tails.clear()

    def forget_topic(self, topic: str) -> None:
        """The queues of a topic were deleted: their ends are looked up again."""
        for tails in (self._tails, self._batch_tails):
            for key in [key for key in tails if key[0] == topic]:
                del tails[key]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is staged."""
        return not self._staged


def _allow(topic: str, queue: str) -> None:
    """Until a broker says which light queues a topic's messages may name."""
