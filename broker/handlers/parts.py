"""The parts of a broker that its handlers use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...model.clock import Clock
from ...model.ids import HostAddress
from ...remoting.server import RequestLoop
from ...store.message_store import MessageStore
from ..acknowledgements import Acknowledgements
from ..config import BrokerConfig
from ..delay.delays import Delays
from ..metrics.flows import Flows
from ..stage_clock import StageClock
from ..state.client_registry import ClientRegistry
from ..state.state_log import StateLog
from ..transaction.transactions import Transactions
from ..worker_pool import WorkerPool


@dataclass(frozen=True, slots=True)
class Parts:
    """Made once the store is open; owned by the loop thread.

    `leads`: this broker is its group's master and the inherited log is confirmed, so it may act on its own on the basis of
    its state (deliver what is due, grant locks); always true without a group.
    `read_from(is_cold, queue_id)`: the broker id of the replica to read a queue from next. `flows`: what messages are counted
    in, where metrics are on.
    """

    config: BrokerConfig
    loop: RequestLoop
    clock: Clock
    store: MessageStore
    state: StateLog
    acknowledgements: Acknowledgements
    registry: ClientRegistry
    workers: WorkerPool
    stages: StageClock
    store_host: HostAddress
    delays: Delays
    transactions: Transactions
    leads: Callable[[], bool]
    read_from: Callable[[bool, int], int]
    flows: Flows | None = None
