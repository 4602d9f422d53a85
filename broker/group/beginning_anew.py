"""A replica's log begins anew if it cannot continue from its end (R12): the slave asks, the master answers.

A slave asks its master for the state with which it must begin, until it has it:

    begin --ask whoever is master now--> answered --compacted files copied--> written (`beginning.zenit`)--> reopened
               ^                             |                 |
               '--- no answer, no room, no master, no copy ----'     can be withdrawn until it is written

Loop thread; answers come from the client's threads and are posted to the loop. A thread of its own copies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final

from ...model.errors import BufferFull, OffsetOutOfRange, ZenitError
from ...model.events.table import LOG_CUT, STORE_BEGINS_ANEW
from ...model.events.telling import tell
from ...model.groups.group import KnownGroup
from ...remoting.client import RemotingClient
from ...remoting.commands import GetBeginning, ReplicaQuestion, Reply
from ...remoting.server import Call, RequestLoop
from ...store.message_store import MessageStore
from ...store.opening.small_file import needs_room
from ...store.worker_threads import WorkerThreads
from ..json_reply import reply_json
from ..repair.compacted_copy import copy_compacted
from ..replication.beginning import (
    Beginning,
    beginning_document,
    carry_out_beginning,
    note_beginning,
    parse_beginning,
)
from ..replication.epochs import EpochList
from ..replication.replica_files import ReplicaFiles
from ..replication.replica_log import ReplicaLog
from .replica_question import QuestionStamp, question_stamp
from .store_directory import StoreDirectory

log = logging.getLogger(__name__)

RETRY_MS: Final = 500
TIMEOUT_MS: Final = 10_000
LOOK_MS: Final = 100
HOLD_MS: Final = 60_000
"""How long after its last question the log is held for a slave that begins anew: until it has copied what it begins with, was
reopened, and has begun to take the log."""
GIVE_UP_MS: Final = TIMEOUT_MS + RETRY_MS  # an answer that has not even failed by then was dropped


def carry_through_cut(files: ReplicaFiles, directory: StoreDirectory) -> None:
    """Completes a cut of the log, or its new beginning, that the former process began; before the store is opened.

    Raises StoreFormatError, StoreLocked, OSError.
    """
    if carry_out_beginning(directory):
        tell(log, STORE_BEGINS_ANEW)
        return
    directory.forget_incoming()
    if files.intent is not None:
        epoch, offset = files.intent
        tell(log, LOG_CUT, epoch=epoch, offset=offset)
        try:
            directory.truncate(offset)
        except (
            OffsetOutOfRange
        ) as error:  # nothing was cut; when its master asks again, this replica halts and says why
            log.critical("the log begins above where it is to be cut, it stays as it is: %s", error)
            files.clear_intent()


class BeginningSearch:
    """`on_noted`: the answer is on the disk; the store must be closed and reopened."""

    def __init__(
        self,
        client: RemotingClient,
        loop: RequestLoop,
        directory: StoreDirectory,
        *,
        name: str,
        store_id: str,
        known: Callable[[], KnownGroup | None],
        on_noted: Callable[[], None],
    ) -> None:
        """`name`, `store_id`: this replica's. `known`: the newest news of its group."""
        self._client = client
        self._loop = loop
        self._directory = directory
        self._name = name
        self._store_id = store_id
        self._known = known
        self._on_noted = on_noted
        self._is_noted = False
        self._copying = WorkerThreads(1, "zenit-copy")
        self._try = 0  # grows with each round: answers of an earlier one are ignored

    def begin(self) -> None:
        """Asks until there is an answer."""
        self._ask(self._try)

    def withdraw(self) -> bool:
        """Stops asking; False if the answer is already on the disk."""
        if not self._is_noted:
            self._try += 1
        return not self._is_noted

    def close(self) -> None:
        """Ends a copy under way."""
        self._try += 1
        self._copying.shutdown(wait=True)

    def _ask(self, this_try: int) -> None:
        if this_try != self._try:
            return
        self._try += 1
        known = self._known()
        master = None if known is None or known.node.master is None else known.node.replica(known.node.master)
        if known is None or master is None or master.name == self._name:
            self._loop.call_later(RETRY_MS, partial(self._ask, self._try))
            return
        self._loop.call_later(GIVE_UP_MS, partial(self._ask, self._try))
        stamp = question_stamp(known.node, self._store_id)
        try:
            self._client.send_nowait(
                master.address,
                GetBeginning(*stamp),
                None,
                timeout_ms=TIMEOUT_MS,
                on_reply=partial(self._post_answer, self._try, master.address, stamp),
            )
        except ZenitError as error:
            self._on_answer(self._try, master.address, stamp, b"", error)

    def _post_answer(
        self,
        this_try: int,
        address: str,
        stamp: QuestionStamp,
        _reply: Reply | None,
        data: bytes,
        error: ZenitError | None,
    ) -> None:
        self._post(partial(self._on_answer, this_try, address, stamp, data, error))

    def _post(self, callback: Callable[[], None]) -> None:
        """Any thread: passes an answer to the loop."""
        try:
            self._loop.post(callback)
        except BufferFull:
            log.warning("a beginning of the store was dropped: the loop is behind")

    def _on_answer(
        self, this_try: int, address: str, stamp: QuestionStamp, data: bytes, error: ZenitError | None
    ) -> None:
        if this_try != self._try:
            return
        self._try += 1
        try:
            if error is not None:
                raise error
            beginning = parse_beginning(data)
        except ZenitError as problem:
            self._ask_again(problem)
            return
        if not beginning.has_compacted:
            self._note(beginning, self._directory.await_no_compacted)
            return
        this_try = self._try
        copy = self._copying.submit(
            copy_compacted, self._client, address, stamp, self._directory.path, lambda: this_try == self._try
        )
        self._loop.call_later(LOOK_MS, partial(self._look, this_try, beginning, copy))

    def _ask_again(self, problem: BaseException) -> None:
        log.warning("no beginning from the master yet error=%s", problem)
        self._loop.call_later(RETRY_MS, partial(self._ask, self._try))

    def _look(self, this_try: int, beginning: Beginning, copy: Future[bool]) -> None:
        """Whether the compacted files have been copied."""
        if this_try != self._try:
            return
        if not copy.done():
            self._loop.call_later(LOOK_MS, partial(self._look, this_try, beginning, copy))
            return
        self._try += 1
        self._note(beginning, copy.result)

    def _note(self, beginning: Beginning, check: Callable[[], object]) -> None:
        """`check`: raises if the compacted files are not here as they are to be."""
        try:
            with needs_room():
                check()
                note_beginning(self._directory, beginning)
        except (ZenitError, OSError) as problem:
            self._ask_again(problem)
            return
        self._is_noted = True
        self._on_noted()


class BeginningSource:
    """Answers slaves whose log cannot continue from its end. Loop thread."""

    def __init__(
        self,
        loop: RequestLoop,
        store: MessageStore,
        directory: StoreDirectory,
        *,
        replica_log: ReplicaLog,
        check_question: Callable[[ReplicaQuestion], None],
    ) -> None:
        """`check_question`: raises if the request is not for this replica."""
        self._loop = loop
        self._store = store
        self._directory = directory
        self._replica_log = replica_log
        self._check_question = check_question

    def on_get_beginning(self, call: Call[GetBeginning]) -> None:
        """At the master: the state for a slave whose log begins where ours does, as of now.

        Raises NotMaster, OtherReplicaMeant, StaleEpoch, UnknownReplica.
        """
        self._check_question(call.request)
        begin = self._store.begin
        self._store.hold_log(call.request.store_id, begin, HOLD_MS)
        epochs = EpochList(tuple(row for row in self._replica_log.epochs.rows if row.begin <= begin))
        beginning = Beginning(
            begin,
            self._store.segment_bytes,
            epochs,
            self._directory.state_files(),
            self._store.queue_minimums(begin),
            has_compacted=self._store.has_compacted,
        )
        reply_json(self._loop, call, beginning_document(beginning))

    def hold_longer(self, store_id: str) -> None:
        """The slave with this store goes on copying what it begins with."""
        self._store.renew_log_hold(store_id, HOLD_MS)
