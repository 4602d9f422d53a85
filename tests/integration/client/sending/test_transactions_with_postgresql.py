"""The recipe of the guide with a real PostgreSQL: whoever is killed, there is a message for each order, and no other."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.docs.pages import ROOT, blocks
from postgresql_kit import postgresql

from zenitmq import FIRST, Admin, Message, PullConsumer, Resolution, TransactionProducer
from zenitmq.testing import LocalCluster

(RECIPE,) = [text for text in blocks(ROOT / "docs/guide/transactions.md", "python") if "import psycopg" in text]
SETTINGS = ("transaction_timeout_ms=500", "transaction_check_interval_ms=500", "transaction_checks_max=100")

KILLED = """
import os, signal, sys
import psycopg
from zenitmq import TransactionProducer
import recipe

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

where = sys.argv[1]
if where == "before the database commits":
    psycopg.Connection.commit = die
elif where == "after the database committed":
    TransactionProducer._end_sent = die
with TransactionProducer("shop", recipe.check) as producer:
    print(recipe.buy(producer, 30))
"""


@pytest.fixture(scope="module")
def database() -> Iterator[dict[str, str]]:
    with postgresql() as environment:
        yield environment


@pytest.fixture(scope="module")
def cluster(database: dict[str, str]) -> Iterator[LocalCluster]:
    with LocalCluster(settings=SETTINGS) as running:
        yield running


@pytest.fixture
def recipe(database: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The names of the page's program, which has made its table."""
    for name, value in database.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "recipe.py").write_text(RECIPE, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(RECIPE, "recipe.py", "exec"), names)
    names["create"]()
    return names


def orders() -> dict[str, int]:
    import psycopg

    with psycopg.connect() as database:
        return dict(database.execute("SELECT id, amount FROM orders WHERE amount IS NOT NULL").fetchall())


def test_whoever_is_killed_there_is_a_message_for_each_order(
    cluster: LocalCluster, recipe: dict[str, Any], tmp_path: Path
) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.create_topic("trades", queues=4)
    environment = {**cluster.environ, "PYTHONPATH": str(tmp_path)}
    for where in ("before the database commits", "after the database committed", "nowhere"):
        command = [sys.executable, "-c", KILLED, where]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == (0 if where == "nowhere" else -signal.SIGKILL), done.stderr
    assert len(orders()) == 2
    with TransactionProducer("shop", recipe["check"], namesrv=cluster.namesrv), Admin(cluster.namesrv) as admin:
        deadline = time.monotonic() + 30
        while admin.transactions():
            assert time.monotonic() < deadline
            time.sleep(0.1)
    found: list[str] = []
    with PullConsumer("readers", namesrv=cluster.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe("trades")
        while len(found) < 2:
            found += [message.keys[0] for message in consumer.poll(timeout=5)]
        found += [message.keys[0] for message in consumer.poll(timeout=0.5)]
    assert sorted(found) == sorted(orders())


class Asked:
    """What `check` is given."""

    def __init__(self, order_id: str) -> None:
        self.keys = (order_id,)


@pytest.mark.parametrize("commits", [True, False])
def test_check_waits_for_a_transaction_that_is_under_way(recipe: dict[str, Any], *, commits: bool) -> None:
    import psycopg

    name = f"slow-{commits}"
    said: list[Resolution] = []
    with psycopg.connect() as database:
        database.execute("INSERT INTO orders VALUES (%s, 5)", (name,))
        asking = threading.Thread(target=lambda: said.append(recipe["check"](Asked(name))))
        asking.start()
        asking.join(0.5)
        assert said == []
        if not commits:
            database.rollback()
    asking.join(30)
    assert said == [Resolution.COMMIT if commits else Resolution.ROLLBACK]
    assert (name in orders()) is commits


def test_what_check_called_rolled_back_cannot_be_committed_later(cluster: LocalCluster, recipe: dict[str, Any]) -> None:
    import psycopg

    with Admin(cluster.namesrv) as admin:
        admin.create_topic("late", queues=1)
    with TransactionProducer("shop", recipe["check"], namesrv=cluster.namesrv) as producer:

        def execute(message: Message) -> Resolution:
            assert recipe["check"](Asked(message.keys[0])) is Resolution.ROLLBACK  # another process was asked
            with psycopg.connect() as database:
                database.execute("INSERT INTO orders VALUES (%s, 5)", (message.keys[0],))
            return Resolution.COMMIT

        with pytest.raises(psycopg.errors.UniqueViolation):
            producer.send(Message("late", b"5", keys=("late",)), execute)
    assert "late" not in orders()
