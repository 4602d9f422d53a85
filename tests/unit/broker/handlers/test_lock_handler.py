"""What the answer to a client that locks queues waits for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from zenitmq.broker.handlers.lock_handler import LockHandler
from zenitmq.broker.state.queue_locks import QueueLockTable
from zenitmq.remoting.commands import LockQueues

ONE, TWO = ("t", 0), ("t", 1)


class State:
    """Stands for the state log: what is staged is applied at once, and each event ends 100 bytes further on."""

    def __init__(self) -> None:
        self.queue_locks = QueueLockTable(1000)
        self.topic_table = SimpleNamespace(configs={"t": SimpleNamespace(read_queues=4)})
        self.group_table = SimpleNamespace(documents={"g": {}})
        self.kinds: list[str] = []

    def stage(self, _store: object, _topic: str, event: dict[str, Any]) -> int:
        self.queue_locks.on_event(event, {})
        self.kinds.append(event["event"])
        return 100 * len(self.kinds)


class Scene:
    def __init__(self, *, may_be_deposed: bool) -> None:
        self.state: Any = State()
        self.acknowledgements: Any = SimpleNamespace(staged=[])
        clock: Any = SimpleNamespace(monotonic_ms=lambda: 0)
        store: Any = None
        self.handler = LockHandler(
            store, self.state, self.acknowledgements, clock, lambda: True, may_be_deposed=may_be_deposed
        )

    def lock(self, client_id: str, *queues: tuple[str, int], renews: bool = False) -> tuple[tuple[Any, ...], int]:
        """What the client is told that it has, and where the log must be durable before."""
        call: Any = SimpleNamespace(request=LockQueues("g", client_id, queues, renews))
        self.handler.on_lock(call)
        _, reply, end, _ = self.acknowledgements.staged.pop()
        return reply.queues, end


def test_where_another_may_lead_each_renewal_waits_for_a_record_of_its_own() -> None:
    scene = Scene(may_be_deposed=True)
    assert scene.lock("a", ONE) == ((ONE,), 100)
    assert scene.lock("a", ONE, renews=True) == ((ONE,), 200)
    assert scene.lock("a", ONE) == ((ONE,), 300), "it has it already: a renewal under another name"
    assert scene.state.kinds == ["locked", "renewed", "renewed"]
    document = scene.state.queue_locks.document()
    assert document["lockTable"] == {"g": {"t": {"0": "a"}}}


def test_a_change_of_owner_is_proof_enough_of_what_is_renewed_beside_it() -> None:
    scene = Scene(may_be_deposed=True)
    scene.lock("a", ONE)
    assert scene.lock("a", ONE, TWO) == ((ONE, TWO), 200)
    assert scene.state.kinds == ["locked", "locked"]


@pytest.mark.parametrize("renews", [True, False])
def test_who_gets_nothing_leaves_nothing(renews: bool) -> None:
    scene = Scene(may_be_deposed=True)
    scene.lock("a", ONE)
    assert scene.lock("b", ONE, renews=renews) == ((), 100)
    assert scene.state.kinds == ["locked"]


def test_where_nobody_else_can_lead_a_renewal_leaves_nothing() -> None:
    scene = Scene(may_be_deposed=False)
    assert scene.lock("a", ONE) == ((ONE,), 100)
    assert scene.lock("a", ONE, renews=True) == ((ONE,), 100)
    assert scene.state.kinds == ["locked"]
