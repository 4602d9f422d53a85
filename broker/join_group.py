"""A log that no group has written becomes a group's, by an operator's word: `zenit store join`.

What a broker alone or a static master wrote has epochs that begin at 1, as each group's do: it would pass for a copy of any
group's log, so controllers refuse it (ForeignLog). The operator says whose it is, and answers for that.
"""

from __future__ import annotations

import os
from typing import Any

from ..model.errors import StoreFormatError
from ..model.group_limits import check_token
from ..store.commit_log import COMMIT_LOG_FOLDER
from ..store.store_files import StoreLock
from .epoch_file import read_epochs
from .replication.replica_files import ReplicaFiles


def join_group(directory: str, group_id: str) -> dict[str, Any]:
    """{"group_id", "epoch"}: which group the store is of then, and the highest epoch it knows. "": a group of its own.

    Raises StoreLocked where a broker has it open, StoreFormatError where it is no store, InvalidParameter, OSError.
    """
    if group_id:
        check_token("group_id", group_id)
    if not os.path.isdir(os.path.join(directory, COMMIT_LOG_FOLDER)):
        raise StoreFormatError(directory, "it has no commit log; name a broker's store")
    with StoreLock(directory):
        newest = max((row.number for row in read_epochs(directory)), default=0)
        joined, promised = ReplicaFiles.join(directory, group_id, newest_epoch=newest)
    return {"group_id": joined, "epoch": promised}
