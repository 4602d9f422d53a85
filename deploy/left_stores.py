"""Derives a cluster's shape and id from its directory when its record, `cluster.json`, is lost.

    DIR/broker-a/                  one replica per group        DIR/log/controller-1.log   controllers elect the masters
    DIR/broker-a-1/, broker-a-2/   several                      DIR/zookeeper/             the ZooKeeper is the cluster's own

Each store has the id of its cluster: with another id a broker would not start on its own store. The brokers' settings from
`--set` cannot be derived.

The code of stores is imported only if there are stores: it is half of what `zenit up`, `status` and `down` import.
"""

from __future__ import annotations

import os
import re
from typing import Final

from ..model.errors import InvalidParameter
from .cluster_plan import group_names, replica_names
from .cluster_record import ZOOKEEPER, Shape

_STORE_NAME: Final = re.compile(r"broker-([a-z])(?:-([1-9]))?")
_CONTROLLER_LOG: Final = re.compile(r"controller-[1-9]\.log")


def left_stores(directory: str) -> list[str]:
    """The names of the brokers with stores there, sorted. Raises OSError."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    named = sorted(name for name in names if _STORE_NAME.fullmatch(name))
    if not named:
        return []
    from ..store.opening.store_opening import has_commit_log

    return [name for name in named if has_commit_log(f"{directory}/{name}")]


def left_shape(directory: str) -> Shape | None:
    """The likely shape of the cluster; None if there is no store. Raises OSError."""
    found = [match.groups() for name in left_stores(directory) if (match := _STORE_NAME.fullmatch(name))]
    if not found:
        return None
    replicas = max(int(number or 1) for _, number in found)
    is_replicated = any(number for _, number in found)
    return Shape(
        replicas=max(2, replicas) if is_replicated else 1,
        groups=max(ord(letter) - ord("a") + 1 for letter, _ in found),
        controllers=_left_controllers(directory) if is_replicated else 1,
    )


def check_left(directory: str, shape: Shape) -> None:
    """Raises InvalidParameter if a cluster of this shape would ignore a store, or a ZooKeeper, in the directory; OSError."""
    stores, controllers = left_stores(directory), _left_controllers(directory)
    planned = {name for group in group_names(shape) for name in replica_names(group, shape)}
    if not planned.issuperset(stores):
        expected = f"what uses all stores of {directory}, whose cluster.json is gone: {', '.join(stores)}"
        raise InvalidParameter("--replicas, --groups", f"{shape.replicas}, {shape.groups}", expected)
    if not stores or not shape.is_replicated:
        return
    if shape.has_controllers != bool(controllers):
        expected = f"{controllers}, as it was in {directory} (its cluster.json is gone)"
        raise InvalidParameter("--controllers", shape.controllers, expected)
    if controllers and not (shape.zookeeper or os.path.isdir(os.path.join(directory, ZOOKEEPER))):
        expected = f"the address of the one that the cluster in {directory} ran with (its cluster.json is gone)"
        raise InvalidParameter("--zookeeper", "", expected)


def left_cluster_id(directory: str) -> str:
    """The id in the stores; "" if none has one.

    Raises InvalidParameter if they belong to different clusters, StoreFormatError if one's cluster.zenit is damaged,
    OSError.
    """
    stores = left_stores(directory)
    if not stores:
        return ""
    from ..broker.group.store_cluster import read_cluster

    found: dict[str, str] = {}
    for name in stores:
        facts = read_cluster(os.path.join(directory, name))
        if facts["settled"]:
            found.setdefault(facts["cluster_id"], name)
    if len(found) > 1:
        told = ", ".join(f"{name} of {cluster_id}" for cluster_id, name in sorted(found.items()))
        raise InvalidParameter("--dir", directory, f"stores of one cluster; there are {told}: move the others away")
    return next(iter(found), "")


def _left_controllers(directory: str) -> int:
    """How many controllers the cluster had."""
    logs = os.path.join(directory, "log")
    return sum(bool(_CONTROLLER_LOG.fullmatch(name)) for name in (os.listdir(logs) if os.path.isdir(logs) else ()))
