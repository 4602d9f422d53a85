"""Who is asked what became of a transaction: a producer of its group that may send to its topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from zenitmq.broker.state.client_registry import ClientOwner, ClientRegistry
from zenitmq.broker.transaction.transaction_handler import Asking
from zenitmq.broker.transaction.transactions import Question
from zenitmq.model.handles.transaction import TransactionId
from zenitmq.model.names import DEFAULT_PRODUCER_GROUP
from zenitmq.model.security.access_table import AccessTable
from zenitmq.model.security.principals import Match, Rule, RuleEffect, User
from zenitmq.model.security.rights import Action, Resource
from zenitmq.remoting.security.guard import Guard

MAY_SEND = Rule(RuleEffect.ALLOW, frozenset({Action.PUB}), Resource.TOPIC, Match.LITERAL, "orders")
GUARD = Guard(AccessTable([User("app", ("a" * 40,), rules=(MAY_SEND,)), User("mallory", ("m" * 40,))], []))
OF_ORDERS = TransactionId("broker-a", "orders", 7, "A1")


class Told:
    """The loop, as far as it is needed here."""

    def __init__(self, guard: Guard | None) -> None:
        self.guard = guard
        self.told: list[bytes] = []

    def send_to(self, identity: bytes, *_: Any) -> None:
        self.told.append(identity)


def asked(guard: Guard | None, *names: str) -> list[bytes]:
    registry = ClientRegistry(heartbeat_ms=100, clients_max=9)
    for name in names:
        registry.on_heartbeat(
            0,
            client_id=name,
            identity=name.encode(),
            producers=(DEFAULT_PRODUCER_GROUP,),
            consumers=(),
            owner=ClientOwner(name, name[0] * 40),
        )
    loop = Told(guard)
    at_once = SimpleNamespace(when_promised=lambda _, told: told(None))
    asking = Asking(cast("Any", loop), registry, cast("Any", at_once))
    for _ in range(3):
        asking.ask(Question(DEFAULT_PRODUCER_GROUP, OF_ORDERS, 7, 8, "", b"the message"))
    return loop.told


@pytest.mark.parametrize(
    ("guard", "names", "expected"),
    [
        (GUARD, ("mallory",), []),
        (GUARD, ("mallory", "app"), [b"app"] * 3),
        (None, ("mallory",), [b"mallory"] * 3),
    ],
)
def test_the_message_is_shown_to_nobody_who_may_not_send_it(
    guard: Guard | None, names: tuple[str, ...], expected: list[bytes]
) -> None:
    """Everybody is a producer of the group of those that name none."""
    assert asked(guard, *names) == expected
