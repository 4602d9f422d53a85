"""Replicas of one group in threads of the test: real stores, files and sockets; the test is their controller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.group.beginning_anew import carry_through_cut
from zenitmq.broker.group.group_member import GroupMember
from zenitmq.broker.group.store_directory import DirectoryOnDisk
from zenitmq.broker.repair.compacted_copy import CompactedSource
from zenitmq.broker.replication.replica_files import ReplicaFiles
from zenitmq.broker.replication.sockets import ZeroMqSockets
from zenitmq.model.clock import SystemClock
from zenitmq.model.groups.group import GroupNode, GroupSettings, KnownGroup, Replica
from zenitmq.model.ids import HostAddress
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetBeginning, GetCompactedFiles, GetCompactedRange
from zenitmq.remoting.request_rows import row
from zenitmq.remoting.server import RequestLoop
from zenitmq.store.config import StoreConfig
from zenitmq.store.message_store import MessageStore, request_arena

SEGMENT_BYTES = 1 << 20
INDEX = {"index_slots": 1000, "index_entries": 20_000}


class AtOnce:
    """Workers whose work the loop does itself."""

    def run(self, _call: Any, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        then(work())


class Node:
    """One replica: a loop in a thread of its own. It is the host of its member, and its way to the controller."""

    def __init__(
        self,
        name: str,
        directory: Path,
        on_proposal: Callable[[int, tuple[str, ...]], None],
        store: StoreConfig,
    ) -> None:
        self.name = name
        self.config = BrokerConfig(
            name="g",
            replica=name,
            controllers=("127.0.0.1:1",),
            port=0,
            replication_port=0,
            store_dir=str(directory / name),
            store=store,
        )
        self.propose_in_sync = on_proposal
        self.roles: list[int | None] = []
        self.gone: list[tuple[str, int]] = []
        self.cuts = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()
        assert self._ready.wait(10)

    def _run(self) -> None:
        clock = SystemClock()
        arena = request_arena(self.config.store)
        self.loop = RequestLoop(
            bind="127.0.0.1:0", arena=arena, clock=clock, on_turn_end=self._on_turn_end, on_replied=self._on_replied
        )
        self.store = MessageStore(
            self.config.store_dir,
            self.config.store,
            store_host=HostAddress.parse("127.0.0.1", self.loop.port),
            clock=clock,
            on_flushed=lambda: self.loop.post(self.member.on_flushed),
            on_poisoned=lambda error: None,
            arena=arena,
        )
        files = ReplicaFiles.open(self.config.store_dir)
        directory = DirectoryOnDisk(self.config.store_dir, self.config.store)
        carry_through_cut(files, directory)
        with self.loop, self.store, RemotingClient() as client:
            host: Any = self
            self.member = GroupMember(
                self.config,
                loop=self.loop,
                clock=clock,
                store=self.store,
                files=files,
                directory=directory,
                client=client,
                sockets=ZeroMqSockets(),
                host=host,
            )
            workers: Any = AtOnce()
            copies = CompactedSource(
                *(self.loop, self.store, workers, self.member.check_question, self.member.beginning_source.hold_longer)
            )
            for answered in (
                row(GetBeginning, self.member.beginning_source.on_get_beginning),
                row(GetCompactedFiles, copies.on_list),
                row(GetCompactedRange, copies.on_range),
            ):
                self.loop.handle(answered.request_class, self.member.gate.guarded(answered))
            self.member.start(host)
            self._ready.set()
            self.loop.run()
            self.member.close()

    def _on_turn_end(self) -> None:
        self.store.append()
        self.member.on_turn()

    def _on_replied(self) -> None:
        self.store.dispatch()
        self.store.take_arrivals()

    def stop(self) -> None:
        self.loop.stop()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def on_loop(self, work: Callable[[], Any]) -> Any:
        """What `work` returns, run on the loop's thread."""
        done, result = threading.Event(), []

        def run() -> None:
            result.append(work())
            done.set()

        self.loop.post(run)
        assert done.wait(10)
        return result[0]

    # ---- the host, and the controller

    def on_role(self, broker_id: int | None, epoch: int) -> None:
        self.roles.append(broker_id)

    def on_acknowledged(self) -> None:
        pass

    def on_deposed(self) -> None:
        pass

    def on_reopen_needed(self) -> None:
        self.cuts += 1

    def on_handed_over(self) -> None:
        pass

    def on_drained(self) -> None:
        self.is_drained = True

    def on_fatal(self) -> None:
        raise AssertionError("fatal")

    is_drained = False
    is_linked = elects = True

    def beat(self) -> None:
        pass

    def report_master_gone(self, master: str, epoch: int) -> None:
        self.gone.append((master, epoch))

    def ask(self) -> None:
        pass

    # ---- what a test does

    def put(self, batch: bytes, count: int, *, queue_id: int = 0) -> None:
        """Stages a batch on the loop, as a send does."""

        def stage() -> None:
            arena = self.store.arena
            begin = arena.used
            arena.view[begin : begin + len(batch)] = batch
            self.store.stage(begin, begin + len(batch), topic="t", queue_id=queue_id, count=count)

        self.on_loop(stage)

    def acknowledged(self) -> int:
        return int(self.on_loop(lambda: self.member.acknowledged))

    def expire(self) -> int:
        """Has retention look; returns where the log begins."""
        self.on_loop(lambda: self.store.on_tick(SystemClock().now_ms()))
        return int(self.on_loop(lambda: self.store.begin))

    def written(self) -> int:
        """The end of the log, once what was put before is in it."""
        return int(self.on_loop(lambda: self.store.written))

    def bodies(self, queue_id: int = 0) -> int:
        """How many messages of a queue may be read."""
        return int(self.on_loop(lambda: self.store.max_offset("t", queue_id)))


class Group:
    """The nodes and the group's node in ZooKeeper, which the test writes."""

    def __init__(
        self, directory: Path, names: str = "abc", *, store: Mapping[str, Any] | None = None, **settings: Any
    ) -> None:
        """`store`: settings of each replica's store; `settings`: of the group."""
        self._lock = threading.Lock()
        self._directory = directory
        self._store = StoreConfig(**{"segment_bytes": SEGMENT_BYTES, **INDEX, **(store or {})})
        self.nodes = {name: self._start(name) for name in names}
        node = GroupNode(broker_name="g", in_sync=("a",), settings=GroupSettings(**settings), replicas=self._members())
        self.known = KnownGroup(node, 1)

    def _start(self, name: str) -> Node:
        return Node(name, self._directory, self._on_proposal, self._store)

    def _members(self) -> tuple[Replica, ...]:
        return tuple(
            Replica(name, node.loop.address, node.member.replication_address, node.member.files.incarnation)
            for name, node in self.nodes.items()
        )

    def restart(self, name: str) -> Node:
        """Stops a node and opens its directory anew; everybody hears of its new life."""
        self.nodes[name].stop()
        node = self.nodes[name] = self._start(name)
        with self._lock:
            self._write(replace(self.known.node, replicas=self._members()), "".join(self.nodes))
        return node

    def elect(self, name: str, *, in_sync: str, tell: str = "") -> None:
        """Makes `name` master of the next epoch; tells everybody, or only those named."""
        with self._lock:
            node = self.known.node
            replica = node.replica(name)
            assert replica is not None
            self._write(
                replace(
                    node,
                    epoch=node.epoch + 1,
                    master=name,
                    master_incarnation=replica.incarnation,
                    in_sync=tuple(sorted(in_sync)),
                ),
                tell or "".join(self.nodes),
            )

    def _on_proposal(self, version: int, names: tuple[str, ...]) -> None:
        with self._lock:
            if version == self.known.version:
                self._write(replace(self.known.node, in_sync=tuple(sorted(names))), "".join(self.nodes))

    def _write(self, node: GroupNode, tell: str) -> None:
        self.known = known = KnownGroup(node, self.known.version + 1)
        for name in tell:
            member = self.nodes[name].member
            self.nodes[name].loop.post(lambda member=member: member.on_group(known))  # type: ignore[misc]

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()


@contextmanager
def group(directory: Path, names: str = "abc", **settings: Any) -> Iterator[Group]:
    """A running group; nobody is master yet."""
    running = Group(directory, names, **settings)
    try:
        yield running
    finally:
        running.stop()


def eventually(condition: Callable[[], bool], within_s: float = 10) -> bool:
    """True as soon as the condition holds."""
    give_up = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True
