"""Fetches rotten records of compacted files from the other replicas of the group, one record and one replica at a time.

Replicas merge on schedules of their own, so their files differ; but what two of them keep of a queue offset is the same record,
from the same log. The checksum in our own row proves it. A replica that has merged it away has a newer one with its key, and
so will we. Loop thread.
"""

from __future__ import annotations

import logging
import zlib
from collections import deque
from functools import partial
from typing import Final

from ...model.errors import BufferFull, MessageNotFound, ZenitError
from ...model.events.table import COMPACTED_DAMAGE_MENDED, COMPACTED_DAMAGE_STAYS
from ...model.events.telling import tell
from ...remoting.client import RemotingClient
from ...remoting.commands import GetCompactedRecord, LogRangeReply
from ...remoting.server import Call, RequestLoop
from ...store.compaction.compacted_check import mend_row
from ...store.compaction.compacted_rows import DamagedRow
from ...store.message_store import MessageStore
from ..group.replica_question import QuestionStamp
from ..worker_pool import WorkerPool
from .repairs import RepairHost

log = logging.getLogger(__name__)

TIMEOUT_MS: Final = 5_000
WAITING_MAX: Final = 1024  # more are found again by the next scrub


class CompactedRepairs:
    """Of one replica: it asks others, and answers them."""

    def __init__(
        self, store: MessageStore, loop: RequestLoop, client: RemotingClient, workers: WorkerPool, host: RepairHost
    ) -> None:
        self._store = store
        self._loop = loop
        self._client = client
        self._workers = workers
        self._host = host
        self._waiting: deque[DamagedRow] = deque()
        self._is_asking = False
        self.mended = 0

    def on_damage(self, found: DamagedRow) -> None:
        """A record has rotted here."""
        if len(self._waiting) < WAITING_MAX:
            self._waiting.append(found)
        if not self._is_asking:
            self._next()

    def _next(self) -> None:
        while self._waiting:
            self._is_asking = True
            found = self._waiting.popleft()
            if self._ask(found, list((self._host.others() or {}).values())):
                return
        self._is_asking = False

    def _ask(self, found: DamagedRow, others: list[tuple[str, QuestionStamp]]) -> bool:
        """Asks the first of these replicas that can be reached; the rest follow while none has it. False: none is left."""
        while others:
            (address, stamp), *others = others
            try:
                self._send(address, stamp, found, others)
            except ZenitError:
                continue
            return True
        topic, queue = found.key
        tell(log, COMPACTED_DAMAGE_STAYS, topic=topic, queue=queue, offset=found.row.offset, why="no replica has it")
        return False

    def _send(
        self, address: str, stamp: QuestionStamp, found: DamagedRow, rest: list[tuple[str, QuestionStamp]]
    ) -> None:
        def on_reply(_reply: LogRangeReply | None, data: bytes, error: ZenitError | None) -> None:
            """A thread of the client's."""
            try:
                self._loop.post(partial(self._on_reply, found, rest, b"" if error is not None else bytes(data)))
            except BufferFull:
                log.warning("a repair was dropped, the loop is behind offset=%s", found.row.offset)
                self._is_asking = False  # the next damage goes on

        question = GetCompactedRecord(*stamp, *found.key, found.row.offset, found.row.physical, found.row.size)
        self._client.send_nowait(address, question, None, timeout_ms=TIMEOUT_MS, on_reply=on_reply)

    def _on_reply(self, found: DamagedRow, rest: list[tuple[str, QuestionStamp]], data: bytes) -> None:
        if found.is_whole(data):
            self._workers.run_aside(partial(mend_row, found, data), partial(self._on_mended, found))
        elif not self._ask(found, rest):
            self._next()

    def _on_mended(self, found: DamagedRow, is_mended: bool | None) -> None:  # a worker's result
        if is_mended:
            self.mended += 1
            topic, queue = found.key
            tell(log, COMPACTED_DAMAGE_MENDED, topic=topic, queue=queue, offset=found.row.offset, why="from a replica")
        self._next()

    # ---- answering

    def on_get(self, call: Call[GetCompactedRecord]) -> None:
        """GetCompactedRecord, in any role. Raises as `Repairs.on_get_log_range`, and MessageNotFound."""
        self._host.check_asker(call.request)
        self._workers.run(call, partial(_record, self._store, call.request), partial(self._reply, call))

    def _reply(self, call: Call[GetCompactedRecord], data: bytes) -> None:
        self._loop.reply(call, LogRangeReply(zlib.crc32(data)), (data,))


def _record(store: MessageStore, asked: GetCompactedRecord) -> bytes:
    """The record that compacted files or the log have there. Raises MessageNotFound, StoreFormatError, SystemFault, OSError;
    CorruptRecordError if it is damaged here, too."""
    key, offset = (asked.topic, asked.queue_id), asked.queue_offset
    for reader, rows in store.compacted.rows_from(key, offset, offset + 1, 1):
        for _, record in reader.records(rows, key[1]):
            return record
    found = store.read_log(asked.physical_offset, asked.size)
    if found is not None:
        return found
    raise MessageNotFound(f"compacted message {offset} of {key[0][:255]} queue {key[1]}")
