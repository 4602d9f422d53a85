"""This broker's part in a replica group, as the rest of the broker sees it: a group of one (`alone`), or one replica of
several (`in_group`). Which of the two it is is decided once, before the store is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ...model.clock import Clock
from ...model.errors import ZenitError
from ...remoting.client import RemotingClient
from ...remoting.commands import Request
from ...remoting.request_rows import Row
from ...remoting.security.opened_security import Secured
from ...remoting.server import Handler, RequestLoop
from ...store.message_store import MessageStore
from ..config import BrokerConfig
from ..metrics.replica_status import ReplicaStatus
from ..worker_pool import WorkerPool
from .cluster_membership import ClusterMembership


class PartHost(Protocol):
    """The broker."""

    def on_role(self, broker_id: int | None, epoch: int) -> None:
        """The broker id that clients see: 0 = master, more = a slave, None = not decided yet."""

    def on_acknowledged(self) -> None:
        """`GroupPart.promised` may have grown."""

    def on_deposed(self) -> None:
        """We are no longer master: this broker will not acknowledge the waiting sends."""

    def on_reopen_needed(self) -> None:
        """The store must be closed and reopened: the next step needs a closed store."""

    def on_fatal(self) -> None:
        """Continuing would do harm: end the process with a status that says so."""

    def on_handed_over(self) -> None:
        """Another replica leads, in an orderly way: who waits here for messages asks there from now on."""

    def on_drained(self) -> None:
        """Nothing is left to hand over: the process may end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartGround:
    """What a part uses. `store` is open; `address`: the one clients connect to."""

    config: BrokerConfig
    loop: RequestLoop
    clock: Clock
    store: MessageStore
    client: RemotingClient
    cluster: ClusterMembership
    host: PartHost
    address: str
    secured: Secured | None = None


class GroupPart(Protocol):
    """Made once the store is open. Loop thread, except `on_disk_failed`."""

    @property
    def first_role(self) -> tuple[int | None, int]:
        """The broker id that clients see at first, as `PartHost.on_role` has it."""

    @property
    def replication_address(self) -> str:
        """The address of the replication port; "" if there are no other replicas."""

    @property
    def promised(self) -> Callable[[], int] | None:
        """The physical offset up to which sends may be acknowledged. None: as soon as they are in the log."""

    @property
    def late(self) -> Callable[[int], ZenitError]:
        """The error for an acknowledgement that has waited for so many milliseconds."""

    @property
    def is_master(self) -> bool:
        """We are master."""

    def master_address(self) -> str:
        """Where the group's master is; "" while that is not known, or it is this broker."""

    def leads(self) -> bool:
        """We are master and the inherited log is confirmed: requests may rely on our state."""

    def check(self, request_class: type[Request]) -> None:
        """Raises the reason why this broker may not answer such a request now."""

    def guarded(self, row: Row) -> Handler:
        """The row's handler, after `check`."""

    def read_from(self, is_cold: bool, queue_id: int) -> int:
        """The broker id to read a queue from next. `is_cold`: the reader is so far behind that the disk must be read."""

    def serve_replicas(self, workers: WorkerPool, look_again: Callable[[], None]) -> list[Row]:
        """The handlers for requests of other replicas. Called once, before `start`. `look_again`: makes readers that
        wait before damage check whether they may go on."""

    def start(self) -> None:
        """Before the loop runs."""

    @property
    def drains(self) -> bool:
        """It hands over what it does, and stays."""

    def drain(self, *, ends: bool) -> None:
        """Hands over what this replica does in its group. `ends`: and calls `PartHost.on_drained` when that is done: 20 s later
        at most, at once where there is nobody else."""

    def stop(self) -> None:
        """The loop has ended."""

    def close(self) -> None:
        """Before the loop's sockets are closed."""

    def mark_clean(self) -> None:
        """Called last, after the store is closed: all that counts of it is on the disk."""

    def on_turn(self) -> None:
        """The end of a turn of the loop, after the staged batches are in the log."""

    def on_flushed(self) -> None:
        """More of the log is on the disk."""

    def on_disk_failed(self) -> None:
        """A write or sync failed. Any thread."""

    def status(self) -> ReplicaStatus:
        """What this broker is in its group now, and why it is not ready. Any thread."""

    def peers(self) -> list[tuple[str, str]]:
        """(what it is, address) of what this broker has to reach to be a replica."""

    def document(self) -> dict[str, Any]:
        """This part of the broker's statistics."""
