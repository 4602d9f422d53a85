"""Three replicas of a store under one seeded schedule, for stories of what a broker derives from its log.

How the replicas agree is the business of simulation.py. Here they follow its result: confirmed is what two of three hold; who
holds all of that may be elected; who comes back is cut to where its log agrees with the master's.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from store_kit import SMALL, kill

from zenitmq.store.config import StoreConfig
from zenitmq.store.message_store import MessageStore
from zenitmq.store.opening.store_cut import truncate_store

from .ledger import Violation

REPLICAS: Final = 3
MINIMUM: Final = 2
SEGMENT: Final = 1 << 16


class Replica(Protocol):
    """One life of a replica. `start`: where its reign begins; `leads`: that is confirmed."""

    store: MessageStore
    is_master: bool
    leads: bool
    start: int

    def confirm(self, offset: int) -> None:
        """What two hold may be read and answered."""

    def depose(self) -> None:
        """Nobody is answered any more."""

    def log(self) -> bytes:
        """All of it."""

    def __exit__(self, *_: object) -> None: ...


Life = TypeVar("Life", bound=Replica)


class Trio(Generic[Life]):
    """`truth`: what is confirmed."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.directory = directory
        self.nodes: list[Life | None] = [None] * REPLICAS
        self.lives = 0
        self.places = [directory / f"replica-{number}" for number in range(REPLICAS)]
        self.master = 0
        self.cut_off: int | None = None
        self.truth = b""
        self.elections = 0

    def new_node(self, directory: Path, confirm: int) -> Life:
        """Opens a replica."""
        raise NotImplementedError

    def begin(self) -> None:
        """All live, the first leads."""
        for number in range(REPLICAS):
            self._open(number)
        self.elect(0)

    def close(self) -> None:
        """The end of all of them."""
        for number, node in enumerate(self.nodes):
            if node is not None:
                self.nodes[number] = None
                node.__exit__(None, None, None)

    def leader(self) -> Life | None:
        """Whom a client takes for the master, where it is reached: one that was cut off may still be talked to."""
        number = self.master if self.cut_off is None or self.rng.random() < 0.7 else self.cut_off
        node = self.nodes[number]
        return node if node is not None and node.is_master else None

    # ---- replicas

    def _open(self, number: int, confirm: int = 0) -> None:
        self.nodes[number] = self.new_node(self.places[number], confirm)

    def kill(self) -> None:
        """kill -9: the files stay as they are."""
        number = self.rng.randrange(REPLICAS)
        node = self.nodes[number]
        if node is None:
            return
        self.lives += 1
        left = self.directory / f"life-{self.lives}"
        kill(self.places[number], left)
        (left / "halves" / "LOCK").unlink(missing_ok=True)
        self.nodes[number] = None
        node.__exit__(None, None, None)
        shutil.rmtree(self.places[number])
        self.places[number] = left

    def start(self) -> None:
        """One that is dead begins another life."""
        for number, node in enumerate(self.nodes):
            if node is None:
                self._open(number)
                return

    def isolate(self) -> None:
        """Nobody but some clients reaches the master."""
        if self.cut_off is None:
            self.cut_off = self.master

    def reconnect(self) -> None:
        """It hears of the other master, if there is one by now."""
        number, self.cut_off = self.cut_off, None
        node = None if number is None else self.nodes[number]
        if node is not None and number != self.master:
            node.depose()

    def fail_over(self) -> None:
        """Another one leads, where the master is gone or cut off."""
        node = self.nodes[self.master]
        if node is not None and node.is_master and self.cut_off != self.master:
            return
        able = [
            number
            for number, node in enumerate(self.nodes)
            if node is not None and number != self.cut_off and node.log()[: len(self.truth)] == self.truth
        ]
        if able:
            self.elect(self.rng.choice(able))

    def elect(self, number: int) -> None:
        """It leads; what it inherited may not be confirmed yet."""
        self.master = number
        self.elections += 1
        node = self.nodes[number]
        assert node is not None
        node.is_master, node.start = True, int(node.store.written)
        node.confirm(len(self.truth))

    def replicate(self) -> None:
        """Somebody takes some of the master's log, after it was cut to where it agrees."""
        master = self.nodes[self.master]
        if master is None or self.cut_off == self.master:
            return
        for number in self.rng.sample(range(REPLICAS), REPLICAS):
            if self.nodes[number] is not None and number not in (self.master, self.cut_off):
                self._follow(master, number)
        self._confirm(master)

    def _follow(self, master: Life, number: int) -> None:
        self._agree(master, number)
        slave = self.nodes[number]
        assert slave is not None
        while slave.store.written < master.store.written and self.rng.random() < 0.8:
            begin = slave.store.written
            end = master.store.chunk_end(begin, self.rng.choice((1, 500, 5000)))
            chunk = master.store.chunk(begin, end - begin)
            slave.store.append_chunk(bytes(chunk.data), chunk.begin, chunk.end)

    def _agree(self, master: Life, number: int) -> None:
        """Cuts a replica's log to what it has in common with the master's."""
        slave = self.nodes[number]
        assert slave is not None
        if slave.is_master:
            slave.depose()
        log, other = slave.log(), master.log()
        if other.startswith(log):
            return
        at = 0
        while at < len(log) and log[at : at + (size := _size(log, at))] == other[at : at + size]:
            at += size
        if at < len(log):
            if at < slave.store.confirm_offset:
                raise Violation(f"replica {number} is to cut what it knows to be confirmed, at {at}")
            slave.__exit__(None, None, None)
            truncate_store(str(self.places[number]), StoreConfig(**{**SMALL, "segment_bytes": SEGMENT}), at)
            self._open(number, min(at, len(self.truth)))

    def _confirm(self, master: Life) -> None:
        """What two hold is confirmed, if it is the master's."""
        whole = master.log()
        ends = []
        for number, node in enumerate(self.nodes):
            if node is not None and number != self.cut_off:
                log = node.log()
                ends.append(len(log) if log == whole[: len(log)] else 0)
        confirm = sorted(ends)[-MINIMUM] if len(ends) >= MINIMUM else 0
        if confirm < len(self.truth):
            return
        if whole[: len(self.truth)] != self.truth:
            raise Violation("the master lacks what was confirmed")
        self.truth = whole[:confirm]
        for number, node in enumerate(self.nodes):
            if node is not None and number != self.cut_off and not (node.is_master and node is not master):
                node.confirm(min(confirm, int(node.store.written)))


def _size(log: bytes, at: int) -> int:
    return int.from_bytes(log[at : at + 4], "big")
