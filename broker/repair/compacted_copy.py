"""Compacted files for a slave that begins anew: its master's log no longer has what they hold.

    slave  --its beginning is known--> lists and copies its master's compacted files into `compactedincoming/`, durably
           --all are whole--> notes the beginning --> the reopened store begins with them in place of its own

They are copied after the beginning was told, so they hold all that the master's log had below it, whatever retention did since.
They may hold more, which the slave's log gets later: a run takes only what is confirmed, and that is never cut. A merge at the
master may delete a file meanwhile; then the copy begins again. A thread of its own copies; the loop answers.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ...model.errors import InvalidName, MessageNotFound, RemoteProtocolError, StoreFormatError
from ...model.names import check_topic
from ...remoting.client import RemotingClient
from ...remoting.commands import GetCompactedFiles, GetCompactedRange, LogRangeReply, ReplicaQuestion
from ...remoting.server import Call, RequestLoop
from ...store.compaction.compacted_files import CompactedReader
from ...store.compaction.compacted_manifest import ListedFile, Manifest
from ...store.compaction.incoming import IncomingFiles
from ...store.message_store import MessageStore
from ..group.replica_question import QuestionStamp
from ..json_reply import reply_json
from ..worker_pool import WorkerPool

RANGE_BYTES: Final = 1 << 20
TIMEOUT_MS: Final = 5_000
_QUEUES_MAX: Final = 1 << 20

Document = dict[str, Any]


class CompactedSource:
    """At a master: answers slaves that copy. Loop thread."""

    def __init__(
        self,
        loop: RequestLoop,
        store: MessageStore,
        workers: WorkerPool,
        check_question: Callable[[ReplicaQuestion], None],
        hold: Callable[[str], None],
    ) -> None:
        """`check_question`: raises if the request is not for this replica. `hold`: called with the store id of a slave that
        goes on copying: the log is held for it."""
        self._loop = loop
        self._compacted = store.compacted
        self._workers = workers
        self._check_question = check_question
        self._hold = hold

    def on_list(self, call: Call[GetCompactedFiles]) -> None:
        """The queues and their manifests. Raises NotMaster, OtherReplicaMeant, StaleEpoch, UnknownReplica."""
        self._check_question(call.request)
        self._hold(call.request.store_id)
        listed = [[*key, manifest.encode().decode()] for key, manifest in self._compacted.manifests.copy().items()]
        reply_json(self._loop, call, {"queues": listed})

    def on_range(self, call: Call[GetCompactedRange]) -> None:
        """Bytes of one file. Raises as `on_list`, MessageNotFound if a merge has deleted it, BrokerBusy."""
        self._check_question(call.request)
        request = call.request
        self._hold(request.store_id)
        manifest = self._compacted.manifests.get((request.topic, request.queue_id), Manifest())
        file = next((file for file in manifest.files if file.number == request.number), None)
        if file is None:
            raise MessageNotFound(f"compacted file {request.number} of {request.topic[:255]}")
        folder = self._compacted.folder((request.topic, request.queue_id))
        self._workers.run(call, partial(_range, folder, file, request.begin), partial(self._reply, call))

    def _reply(self, call: Call[GetCompactedRange], data: bytes) -> None:
        self._loop.reply(call, LogRangeReply(zlib.crc32(data)), (data,))


def _range(folder: str, file: ListedFile, begin: int) -> bytes:
    """Raises MessageNotFound, StoreFormatError."""
    try:
        with CompactedReader(folder, file) as reader:
            return reader.raw(max(0, begin), RANGE_BYTES)
    except FileNotFoundError as error:
        raise MessageNotFound(f"compacted file {file.name}") from error


def copy_compacted(
    client: RemotingClient, address: str, stamp: QuestionStamp, directory: str, is_wanted: Callable[[], bool]
) -> bool:
    """Copies all compacted files of the master there into `directory`'s incoming ones, durably; False if it is no longer
    wanted. Blocks: a thread of its own. Raises what the master answers, RemoteProtocolError, StoreFormatError,
    CorruptRecordError, OSError."""
    incoming = IncomingFiles(directory)
    incoming.begin()
    _, data = client.call(address, GetCompactedFiles(*stamp), timeout_ms=TIMEOUT_MS)
    for topic, queue_id, manifest in parse_listed(data):
        for file in manifest.files:
            at = 0
            with incoming.writing(topic, queue_id, file) as write:
                while at < file.size_bytes:
                    if not is_wanted():
                        return False
                    question = GetCompactedRange(*stamp, topic, queue_id, file.number, at)
                    reply, data = client.call(address, question, timeout_ms=TIMEOUT_MS)
                    if not data or len(data) > file.size_bytes - at or zlib.crc32(data) != reply.crc:
                        raise RemoteProtocolError(f"a range of compacted file {file.name} was damaged on its way")
                    write(data)
                    at += len(data)
            incoming.check(topic, queue_id, file)
        incoming.list_files(topic, queue_id, manifest)
    incoming.end()
    return True


def parse_listed(data: bytes) -> list[tuple[str, int, Manifest]]:
    """The queues in the reply to GetCompactedFiles. Raises RemoteProtocolError."""
    try:
        queues = json.loads(data)["queues"]
        if len(queues) > _QUEUES_MAX:
            raise ValueError(f"{len(queues)} queues")
        found = [(check_topic(str(topic)), int(at), str(text)) for topic, at, text in queues]
        if any(not 0 <= queue_id < 1 << 31 for _, queue_id, _ in found):
            raise ValueError("a queue id out of range")
        return [(topic, at, Manifest.decode(text.encode(), os.path.join(topic, str(at)))) for topic, at, text in found]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, StoreFormatError, InvalidName) as error:
        raise RemoteProtocolError(f"no list of compacted files: {error}") from error
