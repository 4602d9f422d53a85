"""What a name server tells of keys: of brokers as they register, of others as the trusted file says at the moment."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zenitmq.model.errors import AccessDenied
from zenitmq.model.security.principals import Binding, User, UserKind
from zenitmq.model.security.trusted_file import StaticRow
from zenitmq.namesrv.key_directory import KeyDirectory
from zenitmq.remoting.commands import GetRoute, RegisterBroker, RouteReply
from zenitmq.remoting.security.admission import OPEN_KEY

CONTROLLER = Binding("c", "", "controller-1")
OF_A1 = RegisterBroker("c", "broker-a", 0, "h:8", 1, (), "h:9")


def living(_: str) -> bool:
    return True


def replica(name: str, cluster: str = "c") -> User:
    return User(name, ("k" * 40,), UserKind.SERVER, binding=Binding(cluster, "broker-a", name))


def controller(key: str, *addresses: str) -> StaticRow:
    return StaticRow(User("controller-1", (key,), UserKind.SERVER, binding=CONTROLLER), addresses)


def test_a_changed_trusted_file_changes_what_is_told() -> None:
    directory = KeyDirectory("s" * 40, (controller("a" * 40, "h:1"),))
    assert directory.all() == (("h:1", "a" * 40),)
    directory.on_trusted((controller("b" * 40, "h:2"),))
    assert directory.all() == (("h:2", "b" * 40),)


def test_while_a_key_is_changed_both_are_told() -> None:
    row = controller("b" * 40, "h:1")
    both = replace(row, user=replace(row.user, keys=("b" * 40, "a" * 40)))
    assert KeyDirectory("s" * 40, (both,)).all() == (("h:1", "a" * 40), ("h:1", "b" * 40))


def test_a_broker_that_registers_with_anothers_address_does_not_change_a_trusted_key() -> None:
    directory = KeyDirectory("s" * 40, (controller("a" * 40, "h:1"),))
    directory.on_register("a1", "e" * 40, RegisterBroker("c", "broker-a", 0, "h:1", 1, (), "h:9"))
    assert dict(directory.all()) == {"h:1": "a" * 40, "h:9": "e" * 40}


def test_a_replica_speaks_for_no_other_one_of_its_group() -> None:
    directory = KeyDirectory("s" * 40, ())
    directory.check_own(replica("a2"), "h:8")  # nobody has registered with it
    directory.on_register("a1", "e" * 40, OF_A1)
    directory.check_own(replica("a1"), "h:8")
    for address in ("h:8", "h:9"):
        with pytest.raises(AccessDenied, match="address:h:"):
            directory.check_own(replica("a2"), address)


def test_a_broker_that_has_no_key_yet_is_told_to_clients_without_one() -> None:
    directory = KeyDirectory("s" * 40, ())
    directory.on_register("not-yet", OPEN_KEY, OF_A1)
    directory.on_register("a2", "e" * 40, replace(OF_A1, broker_id=1, address="h:18", open_address="h:28"))
    assert dict(directory.all()) == {"h:18": "e" * 40, "h:9": "e" * 40}, "its key would be none"
    document = {"clusters": {}, "brokers": [{"address": "h:8"}, {"address": "h:18"}]}
    assert directory.seen_by(document, "e" * 40) is document
    assert [one["address"] for one in directory.seen_by(document, OPEN_KEY)["brokers"]] == ["h:8", "h:28"]
    reply = RouteReply((), (("c", "broker-a", ((0, "h:8"), (1, "h:18"))),), 7)
    call = cast("Any", SimpleNamespace(key=OPEN_KEY, request=GetRoute("t")))
    assert directory.add_to(reply, call).brokers == (("c", "broker-a", ((0, "h:8"), (1, "h:28"))),)


def test_no_server_takes_the_address_of_another_one_that_is_there() -> None:
    directory = KeyDirectory("s" * 40, (controller("a" * 40, "h:1"),))
    directory.on_register("a1", "e" * 40, OF_A1)
    directory.check(replica("a1"), OF_A1, living)
    for of, is_living in (("a2", living), ("b1", living)):
        with pytest.raises(AccessDenied, match="address:h:8"):
            directory.check(replica(of), OF_A1, is_living)
    directory.check(replica("b1"), OF_A1, lambda _: False)  # it is gone: its machine has another broker now
    with pytest.raises(AccessDenied, match="address:h:9"):
        directory.check(replica("b1"), replace(OF_A1, address="h:7"), living)
    with pytest.raises(AccessDenied, match="address:h:1"):
        directory.check(replica("a1"), replace(OF_A1, address="h:1"), lambda _: False)


def test_a_server_registers_with_its_own_cluster() -> None:
    directory = KeyDirectory("s" * 40, ())
    for cluster in ("c", "*"):
        directory.check(replica("a1", cluster), OF_A1, living)
    with pytest.raises(AccessDenied, match="cluster:c"):
        directory.check(replica("a1", "other"), OF_A1, living)


def test_a_mark_says_nothing_to_who_does_not_know_the_secret() -> None:
    one, other = KeyDirectory("s" * 40, ()), KeyDirectory("t" * 40, ())
    assert one.mark_of("orders") == KeyDirectory("s" * 40, ()).mark_of("orders") != other.mark_of("orders")
    assert len(one.mark_of("orders")) == 16
