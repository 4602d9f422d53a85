"""A broker without replicas: a group of one, which elects itself with the next epoch at each start (rule R1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from ...model.errors import FlushTimeout, UnknownRequest
from ...model.route import MASTER_ID
from ...remoting.commands import FlushLog, GetBeginning, GetLogRange, Request
from ...remoting.request_rows import Row, row
from ...remoting.server import Call, Handler
from ...store.opening.store_files import StoreLock
from ..config import BrokerConfig
from ..worker_pool import WorkerPool
from .epoch_file import begin_epoch
from .group_membership import check_membership
from .group_part import PartGround


def prepare_alone(config: BrokerConfig) -> Callable[[PartGround], Alone]:
    """Before the store is opened; what is returned is called once it is. Raises StoreInGroup, StoreLocked, StoreFormatError."""
    left_epoch = check_membership(config)
    with StoreLock(config.store_dir):  # another process that has the store writes the file of epochs too
        return partial(Alone, left_epoch=left_epoch)


class Alone:
    """It is master from its start to its end, and acknowledges what is on its own disk or, under flush = async, in its log."""

    replication_address = ""
    late = FlushTimeout
    is_master = True

    def __init__(self, ground: PartGround, *, left_epoch: int) -> None:
        """`left_epoch`: the highest that the store knew in a group it has left. Raises OSError."""
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

    def check(self, _request_class: type[Request]) -> None:
        """Every request is ours to answer."""

    def guarded(self, row: Row) -> Handler:
        """Nothing stands before it."""
        return row.handler

    def read_from(self, _is_cold: bool, _queue_id: int) -> int:
        """From here."""
        return MASTER_ID

    def serve_replicas(self, _workers: WorkerPool, _look_again: Callable[[], None]) -> list[Row]:
        """Nobody of this group can ask."""
        return [row(FlushLog, _refuse), row(GetBeginning, _refuse), row(GetLogRange, _refuse)]

    def start(self) -> None:
        """There is nobody to be told."""

    def stop(self) -> None:
        """There is nobody to be told."""

    def close(self) -> None:
        """Nothing is open."""

    def mark_clean(self) -> None:
        """Nobody asks how a broker alone has stopped."""

    def on_turn(self) -> None:
        """Nothing is sent on."""

    def on_flushed(self) -> None:
        """What waits for the disk may be acknowledged."""
        self._host.on_acknowledged()

    def on_disk_failed(self) -> None:
        """The next life counts what it finds."""

    def document(self) -> dict[str, Any]:
        """Nothing of replicas."""
        return {}


def _refuse(call: Call[Request]) -> NoReturn:
    raise UnknownRequest(call.request.code)
