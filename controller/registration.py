"""A replica's process registers its life, and what it may have forgotten takes it out of both sets (rule R9). Pure.

*Unclean* is a replica that may lack bytes it acknowledged, although its name is in a set: its disk was wiped or set
back, or it lost power while it counted bytes that were not flushed. One write records the new life and the departure,
so that no election can fall between them. A process killed under the same boot of the kernel keeps its page cache and
is clean.

Two lives never share a name: a start counter that is not above the one known of the same store is refused first, so
that the replica raises it. Else what was elected, or acknowledged, in the life that the disk forgot would pass for its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from ..model.errors import GroupNodeLost, InvalidName, InvalidParameter, ReplicaNameTaken, StartCounterBehind
from ..model.group import FlushMode, GroupNode, GroupSettings, Incarnation, Replica
from ..remoting.commands import RegisterReplica
from .group_state import check_not_lost, electable, with_in_sync

REPLICAS_MAX: Final = 16
TOKEN_LENGTH_MAX: Final = 64
ADDRESS_LENGTH_MAX: Final = 255
COUNT_MAX: Final = (1 << 62) - 1

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,126}", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Registration:
    """What came of it. `unclean`: why the replica left both sets, None where it did not have to.

    `repeated`: this very life is registered already, and `node` is the node as it was: nothing is to be written.
    """

    node: GroupNode
    unclean: str | None = None
    repeated: bool = False


def register(
    node: GroupNode | None, request: RegisterReplica, *, settings: GroupSettings, present_is_alive: bool
) -> Registration:
    """The group's node once the process is registered. `node` None: the group does not exist, the process founds it
    with `settings`. `present_is_alive`: the life that the node has of this name was heard lately.

    Raises GroupNodeLost, ReplicaNameTaken, StartCounterBehind, InvalidName, InvalidParameter.
    """
    replica = _replica_of(request)
    if node is None:
        if request.epoch > 0:  # it was in a group that ZooKeeper has forgotten
            raise GroupNodeLost(request.broker_name, 0, request.epoch)
        founded = GroupNode(broker_name=request.broker_name, settings=settings, replicas=(replica,))
        return Registration(replace(founded, in_sync=(replica.name,)))
    check_not_lost(node, request.epoch)
    present = node.replica(request.name)
    if present is None:
        if len(node.replicas) >= REPLICAS_MAX:
            raise InvalidParameter("replicas", len(node.replicas) + 1, f"at most {REPLICAS_MAX}; remove one first")
        return Registration(_with_replica(node, replica))
    if (present.incarnation, present.life) == (replica.incarnation, replica.life):
        return Registration(node, repeated=True)
    if present_is_alive and present.incarnation.store_id != request.store_id:
        raise ReplicaNameTaken(node.broker_name, request.name, present.address)
    if present.incarnation.store_id == request.store_id and request.starts <= present.incarnation.starts:
        raise StartCounterBehind(node.broker_name, request.name, request.starts, present.incarnation.starts)
    if node.epoch == 0:  # there never was a master, so nothing was acknowledged that could have been forgotten
        return Registration(_with_replica(node, replica))
    why = _why_unclean(request, present.incarnation, node.settings.flush_mode)
    if why is not None and request.name in electable(node):
        node = with_in_sync(node, node.in_sync, forgetful=frozenset({request.name}))
    return Registration(_with_replica(node, replica), unclean=why)


def check_name(kind: str, name: str) -> str:
    """The name of a group or replica; raises InvalidName. It becomes part of a path in ZooKeeper."""
    if _NAME.fullmatch(name) is None:
        raise InvalidName(kind, name, "letters, digits, '_', '-' and inside also '.', 1 to 127 characters")
    return name


def check_address(key: str, address: str) -> str:
    """The address; raises InvalidParameter where it is not host:port."""
    host, _, port = address.rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    plain = address.isascii() and address.isprintable() and " " not in address
    if not (host and plain and digits and 1 <= int(port) <= 65535 and len(address) <= ADDRESS_LENGTH_MAX):
        raise InvalidParameter(key, address[:ADDRESS_LENGTH_MAX], "host:port")
    return address


def check_token(key: str, token: str) -> str:
    """A store's identity or a life's token; raises InvalidParameter."""
    if _TOKEN.fullmatch(token) is None:
        raise InvalidParameter(key, token[:TOKEN_LENGTH_MAX], f"letters, digits, '_', '-', 1 to {TOKEN_LENGTH_MAX}")
    return token


def check_count(key: str, value: int, minimum: int = 0) -> int:
    """A number that only grows; raises InvalidParameter."""
    if not minimum <= value <= COUNT_MAX:
        raise InvalidParameter(key, value, f"an integer from {minimum} to {COUNT_MAX}")
    return value


def _replica_of(request: RegisterReplica) -> Replica:
    check_name("broker", request.broker_name)
    check_count("epoch", request.epoch)
    check_count("log_end", request.log_end)
    incarnation = Incarnation(check_token("store_id", request.store_id), check_count("starts", request.starts, 1))
    return Replica(
        check_name("replica", request.name),
        check_address("address", request.address),
        check_address("replication_address", request.replication_address),
        incarnation,
        check_token("life", request.life),
    )


def _why_unclean(request: RegisterReplica, present: Incarnation, flush_mode: FlushMode) -> str | None:
    """What the new life may have forgotten; None where nothing.

    `ran_async` counts under either mode: the group may have gone over to `sync` after the bytes were counted.
    """
    if request.store_id != present.store_id:
        return f"its store is another one ({request.store_id}, was {present.store_id})"
    if request.set_back:
        return "its disk was set back to an earlier state"
    if request.clean_marker and request.log_end < request.marker_end:
        return f"its log ends at {request.log_end}, below its clean end {request.marker_end}"
    unflushed = flush_mode is FlushMode.ASYNC or request.ran_async
    if unflushed and not request.clean_marker and not request.same_boot:
        return "the machine stopped under it while bytes were not flushed"
    return None


def _with_replica(node: GroupNode, replica: Replica) -> GroupNode:
    others = [other for other in node.replicas if other.name != replica.name]
    return replace(node, replicas=tuple(sorted([*others, replica], key=lambda one: one.name)))
