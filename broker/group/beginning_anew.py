"""How a replica's log begins anew where it cannot go on from where it ended (R12): asked for, answered, carried out.

A slave asks its master for the state that it must begin with, until it has it:

    begin --asked of whoever is master now--> answered --written down (`beginning.zenit`)--> the broker is opened anew
               ^                                  |
               '--- no answer, no room, no master '        withdrawn at any time before it was written down

Loop thread; answers come from the client's threads and are posted to the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from ...model.errors import BufferFull, OffsetOutOfRange, ZenitError
from ...model.groups.group import KnownGroup
from ...remoting.client import RemotingClient
from ...remoting.commands import GetBeginning, ReplicaQuestion, Reply
from ...remoting.server import Call, RequestLoop
from ...store.message_store import MessageStore
from ...store.opening.small_file import needs_room
from ..json_reply import reply_json
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
from .replica_question import question_stamp
from .store_directory import StoreDirectory

log = logging.getLogger(__name__)

RETRY_MS: Final = 500
TIMEOUT_MS: Final = 10_000
GIVE_UP_MS: Final = TIMEOUT_MS + RETRY_MS  # an answer that has not even failed by then was dropped


def carry_through_cut(files: ReplicaFiles, directory: StoreDirectory) -> None:
    """A cut of the log, or its new beginning, that was under way when the last life ended; before the store is opened.

    Raises StoreFormatError, StoreLocked, OSError.
    """
    if carry_out_beginning(directory):
        log.warning("the store begins anew")
    elif files.intent is not None:
        epoch, offset = files.intent
        log.warning("the log is cut epoch=%s offset=%s", epoch, offset)
        try:
            directory.truncate(offset)
        except (
            OffsetOutOfRange
        ) as error:  # nothing was cut; asked by its master once more, this replica halts and says why
            log.critical("the log begins above where it is to be cut, it stays as it is: %s", error)
            files.clear_intent()


class BeginningSearch:
    """`on_noted`: the answer is on the disk; the store must be closed and opened anew."""

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
        self._try = 0  # grows with each: what comes of an earlier one settles nothing

    def begin(self) -> None:
        """Asks, again and again."""
        self._ask(self._try)

    def withdraw(self) -> bool:
        """Asks no more; False where the answer is on the disk already."""
        if not self._is_noted:
            self._try += 1
        return not self._is_noted

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
        try:
            self._client.send_nowait(
                master.address,
                GetBeginning(*question_stamp(known.node, self._store_id)),
                None,
                timeout_ms=TIMEOUT_MS,
                on_reply=partial(self._post, self._try),
            )
        except ZenitError as error:
            self._on_answer(self._try, b"", error)

    def _post(self, this_try: int, _reply: Reply | None, data: bytes, error: ZenitError | None) -> None:
        """Any thread: brings an answer to the loop."""
        try:
            self._loop.post(partial(self._on_answer, this_try, data, error))
        except BufferFull:
            log.warning("a beginning of the store was dropped: the loop is behind")

    def _on_answer(self, this_try: int, data: bytes, error: ZenitError | None) -> None:
        if this_try != self._try:
            return
        self._try += 1
        try:
            if error is not None:
                raise error
            beginning = parse_beginning(data)
            with needs_room():
                note_beginning(self._directory, beginning)
        except ZenitError as problem:
            log.warning("no beginning from the master yet error=%s", problem)
            self._loop.call_later(RETRY_MS, partial(self._ask, self._try))
            return
        self._is_noted = True
        self._on_noted()


class BeginningSource:
    """Answers slaves whose log cannot begin where it ended. Loop thread."""

    def __init__(
        self,
        loop: RequestLoop,
        store: MessageStore,
        directory: StoreDirectory,
        *,
        replica_log: ReplicaLog,
        check_question: Callable[[ReplicaQuestion], None],
    ) -> None:
        """`check_question`: raises why it is not for this replica to answer."""
        self._loop = loop
        self._store = store
        self._directory = directory
        self._replica_log = replica_log
        self._check_question = check_question

    def on_get_beginning(self, call: Call[GetBeginning]) -> None:
        """The master's: what a slave's log that begins where ours does must know, all as of now.

        Raises NotMaster, OtherReplicaMeant, StaleEpoch, UnknownReplica.
        """
        self._check_question(call.request)
        begin = self._store.begin
        epochs = EpochList(tuple(row for row in self._replica_log.epochs.rows if row.begin <= begin))
        beginning = Beginning(
            begin, self._store.segment_bytes, epochs, self._directory.state_files(), self._store.queue_minimums(begin)
        )
        reply_json(self._loop, call, beginning_document(beginning))
