"""How far one member of a broadcasting group has read, kept in a file of this machine.

    <directory>/<group>/<name servers>/<instance>.json
        {"offsets": [[topic, broker name, queue id, offset, incarnation of the topic], ...], "cluster_id": "9f1c2b3a4d5e6f70"}

The offsets of one cluster mean nothing in another one that later has the same addresses. The file is always replaced as a
whole, so it is never incomplete. A lock file beside it prevents a second member of the same name from overwriting the first
one's offsets; the lock ends with its process.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final, Self

from ....model.errors import InvalidParameter, OffsetFileFailed, OffsetFileInUse, StoreFormatError
from ....model.queue import MessageQueue

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
FOLDER_LENGTH_MAX: Final = 200
_INSTANCE: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", re.ASCII)


def default_directory() -> str:
    """The default directory of these files."""
    return os.path.join(os.path.expanduser("~"), ".zenit", "offsets")


def check_instance(instance: str) -> str:
    """Returns it; raises InvalidParameter if it cannot be a file name."""
    if _INSTANCE.fullmatch(instance) is None:
        raise InvalidParameter("instance", instance[:80], "1 to 64 letters, digits, '_', '-' or '.', not '.' first")
    return instance


_Kept = tuple[int, int]
"""(offset, incarnation of its topic)."""


class BroadcastOffsets:
    """One member's file. A context manager: inside it, the file is locked and read. One thread at a time."""

    def __init__(self, directory: str, group: str, addresses: tuple[str, ...], instance: str) -> None:
        """`addresses`: of the name servers, so that clusters do not mix."""
        self.path = os.path.join(directory, group, _folder(addresses), f"{instance}.json")
        self._offsets: dict[MessageQueue, _Kept] = {}
        self._cluster_id = ""  # the offsets' cluster; "" = unknown
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        """Raises OffsetFileInUse, OffsetFileFailed, StoreFormatError."""
        try:
            with ExitStack() as opened:
                os.makedirs(os.path.dirname(self.path), exist_ok=True)
                lock = os.open(self.path + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
                opened.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._offsets, self._cluster_id = self._read()
                self._opened = opened.pop_all()
        except BlockingIOError as error:
            raise OffsetFileInUse(self.path) from error
        except OSError as error:
            raise OffsetFileFailed(self.path, str(error)) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def mean(self, cluster_id: str) -> bool:
        """Sets the cluster from now on, "" = unknown. False if the offsets belong to another one; they are then forgotten."""
        is_others = bool(self._cluster_id and cluster_id and self._cluster_id != cluster_id)
        if is_others:
            self._offsets = {}
        self._cluster_id = cluster_id or self._cluster_id
        return not is_others

    def knows(self, topic: str) -> bool:
        """Whether there are offsets of the topic."""
        return any(queue.topic == topic for queue in self._offsets)

    def offset(self, queue: MessageQueue) -> int | None:
        """The saved offset; None = nothing, or of an earlier topic with that name."""
        offset, incarnation = self._offsets.get(queue, (None, 0))
        is_earlier = incarnation and queue.incarnation and incarnation != queue.incarnation
        return None if is_earlier else offset

    def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Adds these and replaces the file. Blocks on the disk. Raises OffsetFileFailed; the old file then remains."""
        merged = self._offsets | {queue: (offset, queue.incarnation) for queue, offset in offsets.items()}
        rows = [[queue.topic, queue.broker_name, queue.queue_id, *kept] for queue, kept in sorted(merged.items())]
        temporary = self.path + ".new"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump({"offsets": rows, "cluster_id": self._cluster_id}, file, separators=(",", ":"))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except OSError as error:
            raise OffsetFileFailed(self.path, str(error)) from error
        self._offsets = merged

    def _read(self) -> tuple[dict[MessageQueue, _Kept], str]:
        try:
            if os.path.getsize(self.path) > FILE_BYTES_MAX:
                raise StoreFormatError(self.path, f"more than {FILE_BYTES_MAX} bytes")
            with open(self.path, encoding="utf-8") as file:
                document = json.load(file)
        except FileNotFoundError:
            return {}, ""
        except (ValueError, RecursionError) as error:
            raise StoreFormatError(self.path, "no JSON; delete it to begin anew") from error
        return _parsed(self.path, document)


def _folder(addresses: tuple[str, ...]) -> str:
    text = ",".join(addresses).replace(os.sep, "_")
    return text if len(text) <= FOLDER_LENGTH_MAX else hashlib.sha256(text.encode()).hexdigest()


def _parsed(path: str, document: object) -> tuple[dict[MessageQueue, _Kept], str]:
    """The offsets, and the id of their cluster."""
    found = document if isinstance(document, dict) else {}
    rows, cluster_id = found.get("offsets"), found.get("cluster_id", "")
    if not isinstance(rows, list) or not isinstance(cluster_id, str):
        raise StoreFormatError(path, "no offsets; delete it to begin anew")
    offsets: dict[MessageQueue, _Kept] = {}
    for row in rows:
        match row:
            case [str(topic), str(broker_name), int(queue_id), int(offset), int(life)] if (
                min(queue_id, offset, life) >= 0
            ):
                offsets[MessageQueue(topic, broker_name, queue_id)] = offset, life
            case _:
                raise StoreFormatError(path, f"{str(row)[:80]} is no offset; delete the file to begin anew")
    return offsets, cluster_id
