"""How the log of a replica is cut or begins anew between two lives, and what its master tells of a beginning (R4, R12)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...model.errors import OffsetOutOfRange
from ...remoting.commands import GetBeginning, ReplicaQuestion
from ...remoting.server import Call, RequestLoop
from ...store.message_store import MessageStore
from ..json_reply import reply_json
from ..replication.beginning import Beginning, beginning_document, carry_out_beginning
from ..replication.epochs import EpochList
from ..replication.replica_files import ReplicaFiles
from ..replication.replica_log import ReplicaLog
from .store_directory import StoreDirectory

log = logging.getLogger(__name__)


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
