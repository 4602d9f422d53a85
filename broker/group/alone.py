"""A broker without replicas: a group of one, which elects itself with the next epoch at each start (rule R1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from ...model.errors import FlushTimeout, InvalidParameter, UnknownRequest
from ...model.route import MASTER_ID
from ...remoting.commands import (
    Done,
    DrainBroker,
    FlushLog,
    GetBeginning,
    GetCompactedFiles,
    GetCompactedRange,
    GetCompactedRecord,
    GetLogRange,
    Request,
)
from ...remoting.request_rows import Row, row
from ...remoting.server import Call, Handler
from ...store.opening.store_files import StoreLock
from ..config import BrokerConfig
from ..metrics.replica_status import ReplicaStatus
from ..worker_pool import WorkerPool
from .epoch_file import begin_epoch
from .group_membership import check_membership
from .group_part import PartGround


def prepare_alone(config: BrokerConfig) -> Callable[[PartGround], Alone]:
    """Called before the store is opened; call the result once it is open. Raises StoreInGroup, StoreLocked,
    StoreFormatError."""
    left_epoch = check_membership(config)
    with StoreLock(config.store_dir):  # another process that has the store open writes the epoch file too
        return partial(Alone, left_epoch=left_epoch)


class Alone:
    """Always the master. It acknowledges what is on its own disk or, under flush = async, in its log."""

    replication_address = ""
    late = FlushTimeout
    is_master = True
    drains = False

    def __init__(self, ground: PartGround, *, left_epoch: int) -> None:
        """`left_epoch`: the highest epoch that the store knew in a group it has left. Raises OSError."""
        store = ground.store
        store.damage.take_holes()
        epoch = begin_epoch(ground.config.store_dir, store.begin, store.written, above=left_epoch)
        self.first_role: tuple[int | None, int] = MASTER_ID, epoch.number
        self.promised: Callable[[], int] | None = None
        if ground.config.store.flush_mode == "sync":
            self.promised = lambda: store.flushed
        self._host = ground.host

    def leads(self) -> bool:
        """Always."""
        return True

    def master_address(self) -> str:
        """It is this broker."""
        return ""

    def check(self, _request_class: type[Request]) -> None:
        """This broker answers every request."""

    def guarded(self, row: Row) -> Handler:
        """No check comes before the handler."""
        return row.handler

    def read_from(self, _is_cold: bool, _queue_id: int) -> int:
        """From here."""
        return MASTER_ID

    def serve_replicas(self, _workers: WorkerPool, _look_again: Callable[[], None]) -> list[Row]:
        """There is no other replica that could ask."""
        drain = row(DrainBroker, self._on_drain_broker)
        asked = (FlushLog, GetBeginning, GetCompactedFiles, GetCompactedRange, GetCompactedRecord, GetLogRange)
        return [drain, *(row(one, _refuse) for one in asked)]

    def start(self) -> None:
        """Nobody has to be told."""

    def drain(self, *, ends: bool) -> None:
        """There is nobody to hand over to."""
        if ends:
            self._host.on_drained()

    def _on_drain_broker(self, call: Call[DrainBroker]) -> Done:
        """Raises InvalidParameter."""
        if not call.request.ends:
            raise InvalidParameter("ends", False, "true for a broker without replicas: nobody else has its messages")
        self._host.on_drained()
        return Done()

    def stop(self) -> None:
        """Nobody has to be told."""

    def close(self) -> None:
        """Nothing is open."""

    def mark_clean(self) -> None:
        """No clean marker: only replicas have one."""

    def on_turn(self) -> None:
        """There is no slave to send to."""

    def on_flushed(self) -> None:
        """Replies that wait for the disk may be sent."""
        self._host.on_acknowledged()

    def on_disk_failed(self) -> None:
        """Nothing to record: the next start counts what it finds."""

    def status(self) -> ReplicaStatus:
        """A group of one."""
        return ReplicaStatus("master", self.first_role[1], 1, 1, 1)

    def peers(self) -> list[tuple[str, str]]:
        """It needs nobody."""
        return []

    def document(self) -> dict[str, Any]:
        """No statistics of replicas."""
        return {}


def _refuse(call: Call[Request]) -> NoReturn:
    raise UnknownRequest(call.request.code)
