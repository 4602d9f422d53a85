"""The group that a store is a replica of, and its change by an operator: `zenit store join`, `zenit store leave`.

A broker alone, or a static master, writes epochs from 1 on, as each group does. Its log would count as a copy of any
group's log, so controllers refuse it (ForeignLog). The operator says which group it belongs to, and is responsible for that.

In the other direction a replica never takes messages alone: its epochs would continue as the group's do, and later its log
would count as a copy. So its broker does not start without the group's controllers or static master,
until an operator takes it out of the group for good. Then the store gets another identity, and cannot join that group again.
"""

from __future__ import annotations

from typing import Any

from ...model.errors import StoreFormatError, StoreInGroup
from ...model.groups.group_limits import check_group_id
from ...store.opening.store_files import StoreLock
from ...store.opening.store_opening import has_commit_log
from ..config import BrokerConfig
from ..replication.beginning import is_beginning_noted
from ..replication.replica_files import ReplicaFiles
from .epoch_file import read_epochs
from .followed_store import forget_followed


def check_membership(config: BrokerConfig) -> int:
    """The epoch above which a broker alone begins: the highest that its store knew in a group it has left.

    Raises StoreInGroup if the store is a replica's and this broker would not be one, StoreFormatError, OSError.
    """
    found = ReplicaFiles.membership(config.store_dir)
    if found.is_member and not config.controllers and (found.group_id or not config.static_master):
        raise StoreInGroup(config.store_dir, found.group_id, found.epoch)
    return found.left_epoch


def join_group(directory: str, group_id: str) -> dict[str, Any]:
    """{"group_id", "epoch"}: the group of the store from now on, and the highest epoch it knows. "": a new group of its own.

    Raises StoreLocked if a broker has it open, StoreFormatError if it is no store, InvalidParameter, OSError.
    """
    if group_id:
        check_group_id(group_id)
    check_is_store(directory)
    with StoreLock(directory):
        joined, promised = ReplicaFiles.join(directory, group_id, newest_epoch=_newest_row(directory))
    return {"group_id": joined, "epoch": promised}


def leave_group(directory: str) -> dict[str, Any]:
    """{"group_id", "epoch"}: the former group of the store ("" = a static master's, or none), and the highest epoch it
    knew of it (0 = it was in no group, and nothing is changed).

    Raises StoreLocked if a broker has it open, StoreFormatError if it is no store, or is about to be cut or begun anew,
    OSError.
    """
    check_is_store(directory)
    with StoreLock(directory):
        if is_beginning_noted(directory):
            raise StoreFormatError(directory, "it is about to begin anew; start it once more as a replica, and stop it")
        left = ReplicaFiles.leave(directory, newest_epoch=_newest_row(directory))
        forget_followed(directory)
    return {"group_id": left.group_id, "epoch": left.epoch}


def check_is_store(directory: str) -> None:
    """Raises StoreFormatError if no broker has ever opened the store, OSError."""
    if not has_commit_log(directory):
        raise StoreFormatError(directory, "it has no commit log; name a broker's store")


def _newest_row(directory: str) -> int:
    return max((row.number for row in read_epochs(directory)), default=0)
