"""Leases of popped messages in the course of time: renewed while their owner lives, over when their time is, buried after the
last attempt. Loop thread; only a master that `leads` acts.

    a lease's time comes  -> its owner renews it and lives, and has done so for less than `pop_renew_ms_max` -> renewed
                          '- else: available again, one attempt more -- too many attempts --> the group's dead letters
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ...model.errors import (
    CorruptRecordError,
    MessageIllegal,
    MessageNotFound,
    MessageTooLarge,
    StoreNotWriteable,
)
from ...model.get_status import GetStatus
from ...model.queue import PhysicalOffset, QueueOffset
from ...model.topics.light_queues import LIGHT_PREFIX
from ...record.kernel import StoredMessage, decode_record
from ...store.get_result import GetResult
from ..handlers.parts import Parts
from ..state.pop_queue import Name, PopCheckpoint
from ..state.pop_table import Bits, Due, Place, PopTable, QueueKey, key_of, place_of
from ..state.redelivery_topics import wanted_dead_letter_topic
from ..state.state_log import OFFSETS, POPS, TOPICS
from .dead_letters import dead_letter
from .lease_ends import LeaseEnds

log = logging.getLogger(__name__)

DUE_AT_ONCE: Final = 1024
DUE_PAUSE_MS: Final = 10  # before the next ones: the loop does other things in between
COMMIT_SHARE: Final = 50  # committing takes at most one part in so many of the time
COMMIT_MS: Final = 1000
GIVEN_UP_AT_ONCE: Final = 2048
SPENT: Final = "handed out too often"


class Leases:
    """`ended`: what a staged event ends; `acking`: what one acknowledges. `renewed`, `returned`, `buried` count messages since
    the start; `given_up`: those that could not be read any more. `on_available(topic, end)`: told when there is something to
    hand out again, as the log says up to `end`."""

    def __init__(self, parts: Parts) -> None:
        self.ended, self.acking = LeaseEnds(), LeaseEnds()
        self.on_available: Callable[[str, int], None] = _tell_nobody
        self.renewed = self.returned = self.buried = self.given_up = 0
        self._parts = parts
        self._store, self._state, self._clock = parts.store, parts.state, parts.clock
        self._table: PopTable = parts.state.pop_table
        self._burying: set[tuple[QueueKey, int]] = set()
        self._next_commit_ms = 0
        self._has_more_due = False

    def document(self) -> dict[str, int]:
        """For the statistics."""
        return {
            "renewed": self.renewed,
            "returned": self.returned,
            "buried": self.buried,
            "given_up": self.given_up,
        }

    # ---- time

    def on_tick(self, now_ms: int) -> None:
        """Ten times a second. `now_ms`: monotonic."""
        self.ended.settle(self._state.applied)
        self.acking.settle(self._state.applied)
        if not self._parts.leads():
            return
        if not self._has_more_due:
            self._see_to_due(now_ms)
        try:
            if now_ms >= self._next_commit_ms:
                self._commit()
        except StoreNotWriteable as error:
            log.warning("offsets of groups that pop cannot be written error=%s", error)

    def _see_to_due(self, now_ms: int) -> None:
        """Some of them; the rest does not wait for the next tick."""
        due = self._table.take_due(now_ms, count_max=DUE_AT_ONCE)
        try:
            self._see_to(due, now_ms)
        except StoreNotWriteable as error:
            log.warning("what becomes of leases cannot be written error=%s", error)
            for one in due:
                self._table.put_back(one)
            return
        self._has_more_due = len(due) == DUE_AT_ONCE
        if self._has_more_due:
            self._parts.loop.call_later(DUE_PAUSE_MS, self._on_more_due)

    def _on_more_due(self) -> None:
        self._has_more_due = False
        if self._parts.leads():
            self._see_to_due(self._clock.monotonic_ms())

    def _see_to(self, due: Sequence[Due], now_ms: int) -> None:
        renewed: dict[tuple[str, str], list[tuple[Place, int, int]]] = defaultdict(list)
        over: dict[tuple[str, str], list[Bits]] = defaultdict(list)
        for one in due:
            checkpoint = one.checkpoint
            group = checkpoint.queue.key[0]
            topic, place = place_of(checkpoint.queue.key)
            if self._goes_on(checkpoint, now_ms):
                renewed[group, topic].append((place, *checkpoint.name))
            elif one.due_ms > now_ms:
                self._table.put_back(one)
            else:
                bits = checkpoint.queue.open_bits(checkpoint)
                over[group, topic].append((place, *checkpoint.name, bits))
                self.returned += bits.bit_count()
        for (group, topic), rows in renewed.items():
            self._state.stage(self._store, POPS, self._table.event_renewed(group, topic, rows))
            self.renewed += len(rows)
        for (group, topic), bit_rows in over.items():
            self.give_back(group, topic, bit_rows, counts=True)

    def _goes_on(self, checkpoint: PopCheckpoint, now_ms: int) -> bool:
        """Its owner renews it and lives. Not for ever: an owner may live that never got the answer with it."""
        if not checkpoint.owner or self._parts.registry.identity_of(checkpoint.owner) is None:
            return False
        return checkpoint.renewed_ms < 0 or now_ms < checkpoint.renewed_ms + self._parts.config.pop_renew_ms_max

    def open_bits(self, key: QueueKey, name: Name) -> int:
        """Which messages of a check point somebody still has, as far as is staged."""
        queue = self._table.queue(key)
        checkpoint = None if queue is None else queue.checkpoint(name)
        if queue is None or checkpoint is None:
            return 0
        applied = self._state.applied
        return queue.open_bits(checkpoint) & ~(
            self.ended.bits(key, name, applied) | self.acking.bits(key, name, applied)
        )

    def on_unsent(self, group: str, topic: str, names: Iterable[tuple[Place, Name]]) -> None:
        """The answer with these check points, (place, name), reached nobody: that was no attempt."""
        if not self._parts.leads():
            return
        rows = [(place, *name, self.open_bits(key_of(group, topic, place), name)) for place, name in names]
        rows = [row for row in rows if row[3]]
        if not rows:
            return
        try:
            self.give_back(group, topic, rows, counts=False)
        except StoreNotWriteable as error:
            log.warning("what reached nobody stays leased group=%s topic=%s error=%s", group, topic, error)

    def give_back(self, group: str, topic: str, rows: Sequence[Bits], *, counts: bool) -> int:
        """Stages that these are to be handed out again; returns where the log will say so. Raises StoreNotWriteable."""
        end = int(self._state.stage(self._store, POPS, self._table.event_returned(group, topic, rows, counts=counts)))
        for place, begin, pop_ms, bits in rows:
            self.ended.add(key_of(group, topic, place), (begin, pop_ms), bits, end)
        self.on_available(topic, end)
        return end

    def _commit(self) -> None:
        """The groups' committed offsets follow: all below is handled. Retention, lag and other consumers go by them. Lite
        topics have none: only this table says how far a group is."""
        begin_ms = self._clock.monotonic_ms()
        offsets = self._state.offset_table
        moved: dict[str, list[tuple[str, int, int, int]]] = defaultdict(list)
        for (group, topic, queue_id), queue in self._table.all_queues():
            if not topic.startswith(LIGHT_PREFIX) and queue.next > offsets.offset(group, topic, queue_id):
                first = queue.first_open()
                if first > offsets.offset(group, topic, queue_id):
                    moved[group].append((topic, queue_id, first, offsets.era(group, topic, queue_id)))
        for group, progress in moved.items():
            self._state.stage(self._store, OFFSETS, offsets.event_committed(group, progress, forward_only=True))
        now_ms = self._clock.monotonic_ms()
        self._next_commit_ms = now_ms + max(COMMIT_MS, COMMIT_SHARE * (now_ms - begin_ms))

    # ---- the last attempt

    def bury(self, key: QueueKey, offsets: Iterable[int]) -> None:
        """These were handed out too often: a worker reads them, and they go to the group's dead letters."""
        for offset in offsets:
            which = (key, offset)
            if which not in self._burying:
                self._burying.add(which)
                self._bury(which)

    def _bury(self, which: tuple[QueueKey, int]) -> None:
        key, offset = which

        def then(found: StoredMessage | Exception | None) -> None:
            try:
                self._on_read(key, offset, found)
            except StoreNotWriteable as error:
                log.warning("a dead letter cannot be written group=%s error=%s", key[0], error)
            finally:
                self._burying.discard(which)

        self._parts.workers.run_aside(lambda: self.read(key, offset), then)

    def read(self, key: QueueKey, offset: int) -> StoredMessage | Exception:
        """Worker thread. The message, or why there is none: MessageNotFound (it expired), CorruptRecordError."""
        store = self._store
        at = store.position_of(key[1], key[2], QueueOffset(offset))
        if at is None:
            return MessageNotFound(f"{key[1]}:{key[2]} at {offset}")
        try:
            message = decode_record(store.record_at(PhysicalOffset(at)))
            end = at + message.size_bytes
            if not message.body_crc_matches and not store.vouches_for(at, end):
                return CorruptRecordError(at, message.size_bytes, "body checksum")
        except (MessageNotFound, CorruptRecordError) as error:
            return error
        return message

    def _on_read(self, key: QueueKey, offset: int, found: StoredMessage | Exception | None) -> None:
        queue = self._table.queue(key)
        if queue is None or offset not in queue.available or not self._parts.leads():
            return
        if isinstance(found, StoredMessage):
            self.stage_dead_letter(found, key, offset, queue.available[offset], SPENT)
        elif isinstance(found, MessageNotFound):
            self.give_up(key, [offset], str(found))
        elif isinstance(found, CorruptRecordError):
            at = self._store.position_of(key[1], key[2], QueueOffset(offset))
            if at is None or not self._store.damage.may_return(at):
                self.give_up(key, [offset], str(found))

    def stage_dead_letter(
        self, message: StoredMessage, key: QueueKey, offset: int, attempts: int, reason: str, name: Name | None = None
    ) -> int:
        """Stages the copy, which ends the message in its queue; returns its end. `offset`: in that queue; `name`: of its
        check point, if it is leased. Raises StoreNotWriteable."""
        state, group = self._state, key[0]
        topic = wanted_dead_letter_topic(state.topic_table.configs, group)
        if topic is not None:
            state.stage(self._store, TOPICS, state.topic_table.event_set(topic))
        try:
            record = dead_letter(message, key, offset, attempts, reason, name)
        except (MessageTooLarge, MessageIllegal):
            record = dead_letter(message, key, offset, attempts, "", name)
        self.buried += 1
        return int(self._store.stage_record(record).end)

    # ---- what cannot be read

    def on_unreadable(self, key: QueueKey, result: GetResult) -> None:
        """Messages that were to be handed out again could not be read: the result says why."""
        if result.status == GetStatus.OFFSET_TOO_SMALL:
            self._give_up_below(key, result.min_offset, "retention was faster")
        elif result.status == GetStatus.MESSAGES_LOST:
            self._give_up_below(key, result.next_offset, "they are damaged, and no replica has them")

    def _give_up_below(self, key: QueueKey, offset: int, why: str) -> None:
        queue = self._table.queue(key)
        if queue is not None:
            self.give_up(key, [at for at, _ in queue.first_available(GIVEN_UP_AT_ONCE) if at < offset], why)

    def give_up(self, key: QueueKey, offsets: Sequence[int], why: str) -> None:
        """Stages that these are no longer there to be handed out. Raises StoreNotWriteable."""
        if not offsets:
            return
        log.error(
            "messages are given up group=%s topic=%s queue=%s offsets=%s count=%s reason=%s",
            *(*key, offsets[0], len(offsets), why),
        )
        self.given_up += len(offsets)
        topic, place = place_of(key)
        rows = [(place, offset) for offset in offsets]
        self._state.stage(self._store, POPS, self._table.event_ended(key[0], topic, rows))

    def on_deposed(self) -> None:
        """Another broker decides from now on."""
        self.ended.clear()
        self.acking.clear()


def _tell_nobody(topic: str, end: int) -> None:
    """Until the handlers are wired."""
