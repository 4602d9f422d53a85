"""Who is let in: users by their keys, servers only where only servers may, and not too many from one address at once."""

from __future__ import annotations

import pytest

from zenitmq.model.security.access_table import AccessTable
from zenitmq.model.security.principals import Binding, User, UserKind
from zenitmq.remoting.security.admission import LATER, NO, NOT_YET, OPEN_KEY, WELCOME, Doorkeeper
from zenitmq.remoting.security.guard import Guard

USERS = [
    User("a", ("a" * 40, "b" * 40)),
    User("s", ("s" * 40,), UserKind.SERVER, binding=Binding("c", "g", "r")),
    User("d", ("d" * 40,), disabled=True),
]


def doorkeeper(*, rate: int = 0, open_user: str = "") -> Doorkeeper:
    guard = Guard(AccessTable(USERS, ()), open_user=open_user)
    return Doorkeeper(guard.user_of, handshakes_per_second=rate, has_open_port=bool(open_user))


@pytest.mark.parametrize(
    ("mechanism", "key", "only_servers", "status"),
    [
        ("CURVE", "a" * 40, False, WELCOME),
        ("CURVE", "b" * 40, False, WELCOME),
        ("CURVE", "x" * 40, False, NO),
        ("CURVE", "", False, NO),
        ("CURVE", "d" * 40, False, NO),
        ("CURVE", OPEN_KEY, False, NO),
        ("CURVE", "a" * 40, True, NO),
        ("CURVE", "s" * 40, True, WELCOME),
        ("CURVE", "s" * 40, False, WELCOME),
        ("NULL", "", False, NO),
        ("PLAIN", "a" * 40, False, NO),
        ("GSSAPI", "", False, NO),
    ],
)
def test_who_is_let_in(mechanism: str, key: str, *, only_servers: bool, status: str) -> None:
    admission = doorkeeper().decide(mechanism, key, "10.0.0.1", 0, only_servers=only_servers)
    assert admission.status == status
    assert admission.key == (key if status == WELCOME else "")


def test_by_the_open_port_one_comes_as_the_open_user_who_must_exist() -> None:
    assert doorkeeper(open_user="a").decide("NULL", "", "10.0.0.1", 0).key == OPEN_KEY
    assert doorkeeper(open_user="gone").decide("NULL", "", "10.0.0.1", 0).status == NO
    assert doorkeeper(open_user="d").decide("NULL", "", "10.0.0.1", 0).status == NO
    assert doorkeeper(open_user="a").decide("PLAIN", "", "10.0.0.1", 0).status == NO


def test_an_address_that_asks_too_often_is_put_off_and_others_are_not() -> None:
    door = doorkeeper(rate=10)
    first = [door.decide("CURVE", "a" * 40, "10.0.0.1", 0).status for _ in range(15)]
    assert first == [WELCOME] * 10 + [LATER] * 5
    assert door.decide("CURVE", "a" * 40, "10.0.0.2", 0).status == WELCOME
    later = [door.decide("CURVE", "a" * 40, "10.0.0.1", 500).status for _ in range(6)]
    assert later == [WELCOME] * 5 + [LATER]
    assert door.put_off == 6


def test_very_many_addresses_do_not_fill_the_memory() -> None:
    door = doorkeeper(rate=10)
    for number in range(10_000):
        door.decide("CURVE", "x" * 40, f"a{number}", 0)
    assert door.decide("CURVE", "a" * 40, "new", 10).status == LATER
    assert door.decide("CURVE", "a" * 40, "new", 2000).status == WELCOME


def test_while_users_may_be_unknown_a_strange_key_waits_and_costs_its_address_once() -> None:
    door = doorkeeper(rate=1)
    door.is_learning = lambda: True
    assert door.decide("CURVE", "x" * 40, "10.0.0.1", 0).status == NOT_YET
    assert door.decide("CURVE", "x" * 40, "10.0.0.1", 0, is_asked_again=True).status == NOT_YET
    assert door.decide("CURVE", "d" * 40, "10.0.0.2", 0).status == NO
    assert door.decide("CURVE", "a" * 40, "10.0.0.3", 0).status == WELCOME
    assert door.decide("NULL", "", "10.0.0.4", 0).status == NO
    door.is_learning = lambda: False
    assert door.decide("CURVE", "x" * 40, "10.0.0.1", 0, is_asked_again=True).status == NO
