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
from ...remoting.server import Handler, RequestLoop
from ...store.message_store import MessageStore
from ..config import BrokerConfig
from ..worker_pool import WorkerPool
from .cluster_membership import ClusterMembership


class PartHost(Protocol):
    """The broker."""

    def on_role(self, broker_id: int | None, epoch: int) -> None:
        """What we are to clients: 0 = master, more = a slave, None = nothing yet."""

    def on_acknowledged(self) -> None:
        """`GroupPart.promised` may have grown."""

    def on_deposed(self) -> None:
        """We lead no more: what waits to be acknowledged never will be, by us."""

    def on_reopen_needed(self) -> None:
        """The store must be closed and opened anew: what follows can only be done to a closed one."""

    def on_fatal(self) -> None:
        """Going on would do harm: end the process with a status that says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartGround:
    """What a part stands on. `store` is open; `address`: the one clients connect to."""

    config: BrokerConfig
    loop: RequestLoop
    clock: Clock
    store: MessageStore
    client: RemotingClient
    cluster: ClusterMembership
    host: PartHost
    address: str


class GroupPart(Protocol):
    """Made once the store is open; loop thread, but for `on_disk_failed`."""

    @property
    def first_role(self) -> tuple[int | None, int]:
        """What it is to clients at first, as `PartHost.on_role` has it."""

    @property
    def replication_address(self) -> str:
        """Where other replicas reach it; "" where there are none."""

    @property
    def promised(self) -> Callable[[], int] | None:
        """What an acknowledgement waits for: up to which physical offset there is enough of it. None: it waits for nothing."""

    @property
    def late(self) -> Callable[[int], ZenitError]:
        """What becomes of an acknowledgement that has waited for so many milliseconds."""

    @property
    def is_master(self) -> bool:
        """We lead."""

    def leads(self) -> bool:
        """We lead, and all that we inherited is confirmed: what our state says may be acted on."""

    def check(self, request_class: type[Request]) -> None:
        """Raises why this broker may not answer such a request now."""

    def guarded(self, row: Row) -> Handler:
        """The row's handler, behind `check`."""

    def read_from(self, is_cold: bool, queue_id: int) -> int:
        """The broker id to read a queue from next. `is_cold`: its reader is so far behind that the disk must be read."""

    def serve_replicas(self, workers: WorkerPool, look_again: Callable[[], None]) -> list[Row]:
        """What other replicas ask of this one. Once, before `start`. `look_again`: has readers that wait before damage look
        whether they may go on."""

    def start(self) -> None:
        """Before the loop runs."""

    def stop(self) -> None:
        """The loop has ended."""

    def close(self) -> None:
        """Before the loop's sockets are closed."""

    def mark_clean(self) -> None:
        """Last of all, once the store is closed: all that counts of it is on the disk."""

    def on_turn(self) -> None:
        """The end of a turn of the loop, once what was staged is in the log."""

    def on_flushed(self) -> None:
        """The disk has more than before."""

    def on_disk_failed(self) -> None:
        """A write or sync failed. Any thread."""

    def document(self) -> dict[str, Any]:
        """Its part of the broker's statistics."""
