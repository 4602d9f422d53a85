"""Users and roles: stored by one master, known to every server within seconds, kept over restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from integration.broker.conftest import Served

from zenitmq.model.errors import InvalidParameter, SecurityRowChanged, SecurityRowNotFound, SecurityRowTrusted
from zenitmq.model.security.access_rows import AccessRows
from zenitmq.model.security.access_table import AccessTable
from zenitmq.model.security.principals import Match, Rule, RuleEffect, User, UserKind, UserRole
from zenitmq.model.security.rights import Action, Resource
from zenitmq.model.security.row_codec import decode_row, encode_row, row_of
from zenitmq.model.security.trusted_file import StaticRow
from zenitmq.namesrv.config import NameServerConfig
from zenitmq.namesrv.service import NameServer
from zenitmq.remoting import commands

KEY = "k" * 40
ROOT = StaticRow(User("root", ("r" * 40,), UserKind.SUPER))
WAIT_S = 20
MAY_READ = Rule(RuleEffect.ALLOW, frozenset({Action.SUB}), Resource.TOPIC, Match.PREFIX, "or")


@contextmanager
def name_server(port: int = 0) -> Iterator[NameServer]:
    with NameServer(NameServerConfig(host="127.0.0.1", port=port, listen_ms=0)) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        yield server
        server.stop()
        thread.join(WAIT_S)


def put(broker: Any, value: User | UserRole, expected: int = -1) -> commands.ChangedRowReply:
    reply: commands.ChangedRowReply = broker.call(commands.PutSecurityRow(encode_row(row_of(value)), expected))[0]
    return reply


def users_at(client: Any, address: str) -> dict[str, bool]:
    """{name: whether it is there, not deleted}."""
    reply = client.call(address, commands.GetSecurityRows(), timeout_ms=5000)[0]
    return {row.name: row.value is not None for row in map(decode_row, reply.rows)}


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[NameServer, Served, Served]]:
    """A name server, and the masters of two groups."""
    with name_server() as names:
        served = [Served(tmp_path / name, name=name, namesrv=(names.address,)) for name in ("broker-a", "broker-b")]
        yield names, *served
        for one in served:
            one.close()


def test_a_change_reaches_every_server_and_stays(two: tuple[NameServer, Served, Served]) -> None:
    names, left, right = two
    first = put(left, User("app", (KEY,)))
    assert (first.before, decode_row(first.row).name) == ("", "app")
    wait_until(lambda: users_at(right.client, right.address) == {"app": True})
    assert users_at(left.client, names.address) == {"app": True}
    assert put(right, User("app", ()), decode_row(first.row).version).before == first.row
    names.security.rows = AccessRows()  # as after a restart
    wait_until(lambda: users_at(left.client, names.address) == {"app": True})
    left.call(commands.DeleteSecurityRow("user", "app"))
    right.restart()
    wait_until(lambda: users_at(right.client, right.address) == {"app": False})
    assert users_at(left.client, names.address) == {"app": False}
    left.restart()
    assert users_at(left.client, left.address) == {"app": False}


def test_the_guard_gets_each_new_table_and_rights_are_explained(broker: Any) -> None:
    tables: list[AccessTable] = []
    broker.broker._handlers.security.begin((ROOT,), tables.append)
    assert set(tables[-1].users) == {"root"}
    put(broker, UserRole("readers", (MAY_READ,)))
    put(broker, User("app", (KEY,), roles=("readers",)))
    wait_until(lambda: tables[-1].user_of(KEY) is not None)
    asked = commands.ExplainRight("app", "sub", "topic", "orders", "10.0.0.1")
    told = broker.call(asked)[0]
    assert (told.allowed, told.reason, told.of) == (True, "allow sub on topic:or*", "role readers")
    assert not broker.call(commands.ExplainRight("app", "pub", "topic", "orders"))[0].allowed
    assert broker.call(commands.ExplainRight("root", "pub", "topic", "x"))[0].reason == "a super user"
    for wrong, error in (
        (commands.ExplainRight("x", "pub", "topic", "t"), SecurityRowNotFound),
        (commands.ExplainRight("app", "serve", "topic", "t"), InvalidParameter),
        (commands.ExplainRight("app", "pub", "replica", "t"), InvalidParameter),
        (commands.ExplainRight("app", "pub", "topic", "t", "here"), InvalidParameter),
    ):
        with pytest.raises(error):
            broker.call(wrong)
    assert len(broker.call(commands.GetSecurityRows())[0].trusted) == 1
    with pytest.raises(SecurityRowTrusted):
        put(broker, User("root", ()))


def test_what_is_no_change_is_refused(broker: Any) -> None:
    for wrong in ("", "{}", '{"kind":"user","name":"app","version":0,"deleted":true}'):
        with pytest.raises(InvalidParameter):
            broker.call(commands.PutSecurityRow(wrong))
    with pytest.raises(InvalidParameter):
        broker.call(commands.DeleteSecurityRow("king", "app"))
    with pytest.raises(SecurityRowNotFound):
        broker.call(commands.DeleteSecurityRow("user", "app"))
    version = decode_row(put(broker, User("app", ()), 0).row).version
    with pytest.raises(SecurityRowChanged):
        put(broker, User("app", ()), 0)
    with pytest.raises(SecurityRowChanged):
        broker.call(commands.DeleteSecurityRow("user", "app", version - 1))
    with pytest.raises(InvalidParameter):
        broker.call(commands.TakeSecurityRows(("x",)))
    for name in "abc":
        broker.call(commands.TakeSecurityRows((encode_row(row_of(User(name, ()), 5)),)))
    assert users_at(broker.client, broker.address).keys() == {"a", "app", "b", "c"}
    page = broker.call(commands.GetSecurityRows("user/app"))[0]
    assert [decode_row(text).name for text in page.rows] == ["b", "c"]


def test_rows_that_a_broker_cannot_store_do_no_harm(broker: Any) -> None:
    rules = tuple(
        Rule(RuleEffect.ALLOW, frozenset({Action.PUB}), Resource.TOPIC, Match.LITERAL, "x" * 190 + str(n))
        for n in range(200)
    )
    rows = [row_of(UserRole(f"r{number}", rules), 5) for number in range(4)]
    broker.call(commands.TakeSecurityRows(tuple(map(encode_row, rows))))
    wait_until(lambda: len(broker.call(commands.GetSecurityRows())[0].rows) == 4)
