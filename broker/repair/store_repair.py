"""Puts damaged ranges of a stopped broker's store right: `zenit store repair`. Here: which store counts as a copy. What is
proven and written: store/offline/repair.

Two replicas of one group have the same bytes wherever the same epoch wrote them (R4). Stores without a group's id say only
by their epochs' numbers who wrote them, as those of a static master do: of such a copy, bytes count only where the
checksums of the damaged store prove them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ...model.errors import InvalidParameter, StoreFormatError
from ...store.offline.repair import Copy, repair_log
from ...store.opening.store_files import StoreLock, read_abort
from ...store.opening.store_opening import find_segment_bytes
from ..group.cluster_file import ClusterFile
from ..group.epoch_file import read_epochs
from ..group.group_membership import check_is_store
from ..replication.epochs import EpochList
from ..replication.replica_files import ReplicaFiles


def repair_store(
    directory: str, copy: str | None = None, *, report: Callable[[int, int], None], dry_run: bool = False
) -> dict[str, Any]:
    """{"directory", "from", "dry_run", "repaired": [{"begin", "end", "by": "checksums" | "replica"}], "left": [{"begin", "end",
    "reason"}], "units"}: `repaired`: ranges of the log; "checksums": the bytes were whole again already; `units`: damaged units
    of queues that were rebuilt.

    `copy`: the directory of a replica of the same group, or a copy of this store. `report`: told (bytes checked, of how many).
    Raises StoreLocked where a broker has one of them open, StoreFormatError where one is no store, or this one was not closed
    cleanly, InvalidParameter where the copy is another cluster's or group's, OSError.
    """
    check_is_store(directory)
    with ExitStack() as locks:
        locks.enter_context(StoreLock(directory))
        if read_abort(directory) is not None:
            raise StoreFormatError(directory, "its broker was not stopped cleanly; start it once more, and stop it")
        source = None
        if copy is not None:
            check_is_store(copy)
            if os.path.samefile(directory, copy):
                raise InvalidParameter("--from", copy, "another store than the damaged one")
            locks.enter_context(StoreLock(copy))
            source = _checked_copy(directory, copy)
        done = repair_log(directory, source, report=report, dry_run=dry_run)
    repaired = [(low, high, "checksums") for low, high in done.whole] + [(*one, "replica") for one in done.copied]
    return {
        "directory": os.path.abspath(directory),
        "from": "" if copy is None else os.path.abspath(copy),
        "dry_run": dry_run,
        "repaired": [{"begin": low, "end": high, "by": by} for low, high, by in sorted(repaired)],
        "left": [{"begin": low, "end": high, "reason": reason} for low, high, reason in sorted(done.left)],
        "units": done.units,
    }


def _checked_copy(directory: str, copy: str) -> Copy:
    """Raises InvalidParameter, StoreFormatError, OSError."""
    clusters = [ClusterFile.open(one).cluster_id or "none" for one in (directory, copy)]
    if clusters[0] != clusters[1]:
        raise InvalidParameter(
            "--from", copy, f"a store of cluster {clusters[0]}; this one is of cluster {clusters[1]}"
        )
    groups = [ReplicaFiles.membership(one) for one in (directory, copy)]
    if groups[0].group_id != groups[1].group_id or groups[0].is_member != groups[1].is_member:
        wanted, found = (one.group_id or ("a static master's" if one.is_member else "none") for one in groups)
        raise InvalidParameter("--from", copy, f"a store of group {wanted}; this one is of group {found}")
    sizes = [find_segment_bytes(one) for one in (directory, copy)]
    if sizes[0] != sizes[1]:
        raise InvalidParameter("--from", copy, f"a log in files of {sizes[0]} bytes; this one has {sizes[1]}")
    ours, theirs = (EpochList(read_epochs(one)) for one in (directory, copy))

    def differs(begin: int, end: int) -> str:
        for at in (begin, end - 1):
            rows = ours.covering(at), theirs.covering(at)
            numbers = [0 if row is None else row.number for row in rows]
            if numbers[0] != numbers[1]:
                return f"written in epoch {numbers[0]} here, {numbers[1]} there"
        return ""

    return Copy(copy, differs, is_replica=bool(groups[0].group_id))
