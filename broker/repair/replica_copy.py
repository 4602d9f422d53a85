"""Makes another replica of a group from a stopped replica's directory: `zenit store copy`.

    session of a master   undamaged bytes only: it waits before damage that no replica can repair
    copy of a directory   all bytes, damaged ones too, and the files that say which these are

So it is how a new or wiped replica gets a log of which a range is lost everywhere. The copy has the log, epochs, promise,
confirm offset and quarantined ranges of the copied replica, so it counts and answers alike.
But it is another disk, so it gets an identity of its own, and is in neither set before it has caught up in a session.

The identity is written last: no broker starts on a copy that broke off.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Final

from ...model.errors import InvalidParameter, StoreFormatError
from ...store.log.commit_log import SPARE_FOLDER
from ...store.log.segment import make_directory, sync_directory
from ...store.log.spare_files import SPARE_INDEX_FOLDER, SPARE_QUEUE_FOLDER
from ...store.opening.store_files import LOCK_FILE, StoreLock, read_abort
from ..group.followed_store import FILE_NAME as FOLLOWED
from ..group.group_membership import check_is_store
from ..replication.beginning import is_beginning_noted
from ..replication.replica_files import FILE_NAME as REPLICA_FILE
from ..replication.replica_files import ReplicaFiles
from .scrub import SCRUB_FILE

_LEFT_OUT: Final = frozenset(
    (LOCK_FILE, REPLICA_FILE, SCRUB_FILE, SPARE_FOLDER, SPARE_QUEUE_FOLDER, SPARE_INDEX_FOLDER)
)
"""Paths in a store that belong to one directory only, or hold nothing."""


def copy_replica(source: str, target: str) -> dict[str, Any]:
    """{"group_id", "epoch", "bytes"}: the group of the copy ("" = a static master's group), the highest promised
    epoch, the number of copied bytes. All of it is durable. `target`: an empty directory, or none yet.

    Raises StoreLocked if a broker has the source open, StoreFormatError if it is no replica's, or was not closed cleanly,
    InvalidParameter for the target, OSError. Delete a half-copied target then; no broker starts there.
    """
    check_is_store(source)
    with StoreLock(source):
        _check_source(source)
        _check_target(source, target)
        make_directory(target)
        with ReplicaFiles.copying(source, target) as membership:
            copied = _copy_folder(source, target, "")
    return {"group_id": membership.group_id, "epoch": membership.epoch, "bytes": copied}


def _check_source(source: str) -> None:
    membership = ReplicaFiles.membership(source)
    if not membership.is_member:
        raise StoreFormatError(source, "it is no replica's; name the store of one")
    if not membership.group_id and not os.path.exists(os.path.join(source, FOLLOWED)):
        raise StoreFormatError(source, "it is a static master's own; copy the store of one of its slaves")
    if is_beginning_noted(source):
        raise StoreFormatError(source, "it is about to begin anew; start it once more as a replica, and stop it")
    if read_abort(source) is not None:
        raise StoreFormatError(source, "its broker was not stopped cleanly; start it once more, and stop it")


def _check_target(source: str, target: str) -> None:
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise InvalidParameter("target", target, "an empty directory, or none yet; move away what is there")
    inside = os.path.join(os.path.realpath(source), "")
    if os.path.realpath(target).startswith(inside):
        raise InvalidParameter("target", target, f"a directory outside {source}")


def _copy_folder(source: str, target: str, below: str) -> int:
    """Copies the folder `below` of the source, durably; returns the number of bytes."""
    copied = 0
    for name in sorted(os.listdir(os.path.join(source, below))):
        path = os.path.join(below, name)
        if path in _LEFT_OUT:
            continue
        if os.path.isdir(os.path.join(source, path)):
            make_directory(os.path.join(target, path))
            copied += _copy_folder(source, target, path)
        else:
            copied += _copy_file(os.path.join(source, path), os.path.join(target, path))
    sync_directory(os.path.join(target, below))
    return copied


def _copy_file(source: str, target: str) -> int:
    """Copies one file; returns the number of bytes."""
    with open(source, "rb") as given, open(target, "xb") as taken:
        shutil.copyfileobj(given, taken, 1 << 20)
        taken.flush()
        os.fsync(taken.fileno())
        return taken.tell()
