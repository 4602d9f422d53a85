"""The cluster of a stopped broker's store, and its change by an operator: `zenit store cluster`.

The only way out if brokers of one name have become two clusters, or if `cluster.zenit` is damaged.
"""

from __future__ import annotations

from typing import Any

from ...model.cluster_id import check_cluster_id
from ...model.errors import InvalidParameter, StoreNotEmpty
from ...store.config import StoreConfig
from ...store.offline.offline_log import open_log
from ...store.opening.store_files import StoreLock
from .cluster_file import ClusterFile
from .group_membership import check_is_store


def read_cluster(directory: str) -> dict[str, Any]:
    """{"cluster_id": "" = none yet, "settled"}.

    Raises StoreFormatError if it is no store or the file is damaged, OSError.
    """
    check_is_store(directory)
    file = ClusterFile.open(directory)
    return {"cluster_id": file.cluster_id, "settled": file.is_settled}


def move_to_cluster(directory: str, cluster_id: str, *, with_messages: bool) -> dict[str, Any]:
    """Assigns the store to that cluster; returns what `read_cluster` does.

    Raises StoreNotEmpty if its log has bytes and that is not accepted, StoreLocked if a broker has it open,
    InvalidParameter for an invalid id, StoreFormatError if it is no store, OSError.
    """
    if not check_cluster_id(cluster_id):
        raise InvalidParameter("--id", cluster_id, "the id of a cluster")
    check_is_store(directory)
    with StoreLock(directory):
        if not with_messages:
            with open_log(directory, StoreConfig()) as store:
                if store.end:
                    raise StoreNotEmpty(directory, cluster_id, store.end)
        ClusterFile.replace(directory, cluster_id)
    return read_cluster(directory)
