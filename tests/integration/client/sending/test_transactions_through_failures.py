"""A bank: transfers in a database, each with a message. The master is killed, producers die in the middle; in the end there is
one message for each transfer that was committed, and none for any other."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from zenitmq import FIRST, Admin, Message, PullConsumer, Resolution, StoredMessage, TransactionProducer
from zenitmq.model.errors import ZenitError
from zenitmq.testing import LocalCluster
from zenitmq.testing.local_cluster import SMALL_STORE

SETTINGS = (
    *SMALL_STORE,
    "transaction_timeout_ms=1500",
    "transaction_check_interval_ms=1000",
    "transaction_checks_max=200",
)
TELLERS = 4
WORK_S = 12


class Bank:
    """Transfers, by id. Any thread."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False)
        self._database.execute("CREATE TABLE transfers (id TEXT PRIMARY KEY, amount INTEGER)")

    def transfer(self, name: str, amount: int, *, fails: bool) -> None:
        with self._lock, self._database:
            self._database.execute("INSERT INTO transfers VALUES (?, ?)", (name, amount))
            if fails:
                raise RuntimeError("the account is empty")

    def amounts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._database.execute("SELECT id, amount FROM transfers"))

    def check(self, message: StoredMessage) -> Resolution:
        return Resolution.COMMIT if message.keys[0] in self.amounts() else Resolution.ROLLBACK


class Teller:
    """Sends transfers until it is told to stop; what becomes of a send is not its concern."""

    def __init__(self, bank: Bank, producer: TransactionProducer, topic: str, name: str) -> None:
        self._bank = bank
        self._producer = producer
        self._topic = topic
        self._name = name
        self._random = random.Random(name)
        self.stops = threading.Event()
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def _work(self) -> None:
        number = 0
        while not self.stops.is_set():
            number += 1
            self._one(f"{self._name}-{number}", self._random.randrange(1, 100))

    def _one(self, name: str, amount: int) -> None:
        how = self._random.randrange(8)

        def execute(_: Message) -> Resolution:
            if how == 0:  # the process dies before anything is done
                raise OSError("killed")
            try:
                self._bank.transfer(name, amount, fails=how == 1)
            except RuntimeError:
                return Resolution.ROLLBACK
            if how == 2:  # ... or after it
                raise OSError("killed")
            return Resolution.UNKNOWN if how == 3 else Resolution.COMMIT

        with suppress(ZenitError, OSError):
            self._producer.send(Message(self._topic, b"%d" % amount, keys=(name,)), execute, timeout=3)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("replicas", [1, 3])
def test_a_bank_keeps_its_sum(tmp_path: Path, replicas: int) -> None:
    bank = Bank(tmp_path / "bank.db")
    with LocalCluster(replicas=replicas, settings=SETTINGS) as cluster:
        topic = cluster.create_topic("transfers", queues=4)
        with TransactionProducer("tellers", bank.check, namesrv=cluster.namesrv) as producer:
            tellers = [Teller(bank, producer, topic, f"t{number}") for number in range(TELLERS)]
            for _ in range(2):
                time.sleep(WORK_S / 3)
                cluster.kill(cluster.master)
                cluster.restart()
            time.sleep(WORK_S / 3)
            for teller in tellers:
                teller.stops.set()
            for teller in tellers:
                teller.thread.join(60)
        with TransactionProducer("tellers", bank.check, namesrv=cluster.namesrv):  # another process of the group
            wait_decided(cluster.namesrv)
            committed = bank.amounts()
            found = received(cluster.namesrv, topic, len(committed))
    assert len(committed) > 50
    assert {name: count for name, count in Counter(name for name, _ in found).items() if count != 1} == {}
    assert dict(found) == committed


def wait_decided(namesrv: str) -> None:
    deadline = time.monotonic() + 60
    with Admin(namesrv) as admin:
        while admin.transactions():
            assert time.monotonic() < deadline
            time.sleep(0.2)


def received(namesrv: str, topic: str, count: int) -> list[tuple[str, int]]:
    """(id, amount) of each message of the topic. There are to be `count`: what replicas hold by and by is waited for."""
    found: list[tuple[str, int]] = []
    deadline = time.monotonic() + 60
    with PullConsumer("auditors", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        idle_since = time.monotonic()
        while time.monotonic() - idle_since < 1 or (len(found) < count and time.monotonic() < deadline):
            messages = consumer.poll(timeout=0.5)
            found += [(message.keys[0], int(message.body)) for message in messages]
            if messages:
                idle_since = time.monotonic()
    return found
