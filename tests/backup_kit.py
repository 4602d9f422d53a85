"""Small stores and backups for tests: a store that grows, what it holds, and targets that fail where a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from store_kit import SMALL, StillClock, make_store, put, read_queue
from store_kit import message as record

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.group.cluster_file import ClusterFile
from zenitmq.broker.group.epoch_file import begin_epoch
from zenitmq.broker.json_reply import encode_document
from zenitmq.broker.state.producer_table import ProducerTable
from zenitmq.broker.state.state_log import TOPICS, StateLog
from zenitmq.deploy.backup.backup import Backup, BackupRules
from zenitmq.deploy.backup.directory_target import DirectoryTarget
from zenitmq.deploy.backup.log_source import BackupSource
from zenitmq.deploy.backup.restore import RestoreChoice, restore
from zenitmq.deploy.backup.target import BackupTarget, Listed
from zenitmq.record.new_record import NewRecord
from zenitmq.store.config import StoreConfig
from zenitmq.store.message_store import MessageStore
from zenitmq.store.opening.checkpoint import read_checkpoint, write_checkpoint
from zenitmq.store.upkeep import CHECKPOINT_FILE

GROUP = "orders-a"
CLUSTER = "9f1c2b3a4d5e6f70"
CONFIG = BrokerConfig(store=StoreConfig(**SMALL))


class Killed(BaseException):
    """The process is gone."""


def state_of(directory: Path) -> StateLog:
    """The state of a store that is about to be opened."""
    producers = ProducerTable(retention_ms=1 << 40, entries_max=100)
    return StateLog(str(directory), clock=StillClock(), persist_interval_ms=0, producers=producers)


def delete_topic(store: MessageStore, topic: str) -> None:
    """As a broker's record says it."""
    body = encode_document({"event": "deleted", "topic": topic})
    end = store.stage_record(NewRecord(TOPICS, 0, body)).end
    store.commit()
    store.delete_topic(topic, end)


@contextmanager
def grown(directory: Path, *bodies: bytes, **settings: Any) -> Iterator[MessageStore]:
    """A store of one broker alone, in its cluster, with these messages more."""
    directory.mkdir(exist_ok=True)
    state = state_of(directory)
    with make_store(directory, dispatchers=(state,), **settings) as store:
        state.on_opened(store.written, lambda: store.flushed)
        state.is_closing = True
        begin_epoch(str(directory), store.begin, store.written)
        for body in bodies:
            put(store, "orders", 0, record("orders", body))
        yield store
    ClusterFile.replace(str(directory), CLUSTER)


def grow(directory: Path, count: int, size: int = 300, first: int = 0, **settings: Any) -> list[bytes]:
    """Adds messages, closes the store; returns all bodies of the queue."""
    bodies = [f"{n:06d} ".encode() + bytes([65 + n % 26]) * size for n in range(first, first + count)]
    with grown(directory, *bodies, **settings) as store:
        return bodies_in(store)


def bodies_in(store: MessageStore) -> list[bytes]:
    return [bytes(found.body) for found in read_queue(store, "orders", 0)]


def bodies_of(directory: Path, **settings: Any) -> list[bytes]:
    with make_store(directory, **settings) as store:
        return bodies_in(store)


def backup_of(directory: Path, target: BackupTarget | Path, **rules: Any) -> Backup:
    to = DirectoryTarget(str(target)) if isinstance(target, Path) else target
    return Backup(BackupSource(str(directory)), to, GROUP, BackupRules(**rules))


def back_up(directory: Path, target: BackupTarget | Path, **rules: Any) -> Any:
    return backup_of(directory, target, **rules).run(with_tail=True)


def restored(target: BackupTarget | Path, directory: Path, **choice: Any) -> dict[str, Any]:
    to = DirectoryTarget(str(target)) if isinstance(target, Path) else target
    return restore(to, GROUP, str(directory), CONFIG, RestoreChoice(**choice))


def confirmed(directory: Path) -> int:
    """Confirms all of a closed store, as its checkpoint remembers it; returns its end."""
    path = str(directory / CHECKPOINT_FILE)
    found = read_checkpoint(path)
    end = int(found.flushed_offset or 0)
    write_checkpoint(path, replace(found, confirm_offset=end))
    return end


def log_bytes(directory: Path, begin: int, end: int, segment_bytes: int = SMALL["segment_bytes"]) -> bytes:
    """The log as its files are."""
    whole = b"".join(
        (directory / "commitlog" / f"{base:020d}").read_bytes()
        for base in range(begin - begin % segment_bytes, end, segment_bytes)
    )
    return whole[begin % segment_bytes :][: end - begin]


class FailingTarget:
    """A target that fails at its n-th call: before it is done, or, `after`, once it is. `failure`: what it raises."""

    def __init__(
        self, inner: BackupTarget, failure: Callable[[], BaseException], at: int = -1, *, after: bool = False
    ) -> None:
        self.inner = inner
        self.failure = failure
        self.at = at
        self.after = after
        self.calls: list[str] = []

    @property
    def name(self) -> str:
        return self.inner.name

    def _do(self, call: str, work: Callable[[], Any]) -> Any:
        self.calls.append(call)
        if len(self.calls) - 1 == self.at:
            if self.after:
                work()
            raise self.failure()
        return work()

    def put(self, name: str, parts: Iterable[bytes]) -> None:
        def torn() -> Iterator[bytes]:
            for number, part in enumerate(parts):
                yield part[: len(part) // 2] if number == 0 else part
                raise self.failure()

        if len(self.calls) == self.at and not self.after:
            self.calls.append("put")
            self.inner.put(name, torn())
        self._do("put", lambda: self.inner.put(name, parts))

    def get(self, name: str, begin: int, end: int) -> bytes:
        return self._do("get", lambda: self.inner.get(name, begin, end))

    def list(self, prefix: str) -> list[Listed]:
        return self._do("list", lambda: self.inner.list(prefix))

    def delete(self, name: str) -> None:
        self._do("delete", lambda: self.inner.delete(name))

    def read(self, name: str) -> tuple[bytes, str] | None:
        return self._do("read", lambda: self.inner.read(name))

    def replace(self, name: str, data: bytes, version: str | None) -> str:
        return self._do("replace", lambda: self.inner.replace(name, data, version))
