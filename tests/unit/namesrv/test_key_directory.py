"""What a name server tells of keys: of brokers as they register, of others as the trusted file says at the moment."""

from __future__ import annotations

from zenitmq.model.security.principals import Binding, User, UserKind
from zenitmq.model.security.trusted_file import StaticRow
from zenitmq.namesrv.key_directory import KeyDirectory
from zenitmq.remoting.commands import RegisterBroker

CONTROLLER = Binding("c", "", "controller-1")


def controller(key: str, *addresses: str) -> StaticRow:
    return StaticRow(User("controller-1", (key,), UserKind.SERVER, binding=CONTROLLER), addresses)


def test_a_changed_trusted_file_changes_what_is_told() -> None:
    directory = KeyDirectory("s" * 40, (controller("a" * 40, "h:1"),))
    assert directory.all() == (("h:1", "a" * 40),)
    directory.on_trusted((controller("b" * 40, "h:2"),))
    assert directory.all() == (("h:2", "b" * 40),)


def test_a_broker_that_registers_with_anothers_address_does_not_change_a_trusted_key() -> None:
    directory = KeyDirectory("s" * 40, (controller("a" * 40, "h:1"),))
    directory.on_register("e" * 40, RegisterBroker("c", "broker-a", 0, "h:1", 1, (), "h:9"))
    assert dict(directory.all()) == {"h:1": "a" * 40, "h:9": "e" * 40}


def test_a_mark_says_nothing_to_who_does_not_know_the_secret() -> None:
    one, other = KeyDirectory("s" * 40, ()), KeyDirectory("t" * 40, ())
    assert one.mark_of("orders") == KeyDirectory("s" * 40, ()).mark_of("orders") != other.mark_of("orders")
    assert len(one.mark_of("orders")) == 16
