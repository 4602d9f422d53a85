"""Any history of a master, and of a slave that follows it in pieces, dies, is cut and follows again: in the end they are
one log with one set of queues, and at no time does a reader see more than is confirmed."""

import os
import shutil
import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st
from store_kit import SMALL, StillClock, kill, make_store, message, read_queue, stage, tree

from zenitmq.record.new_record import NewRecord
from zenitmq.store.config import StoreConfig
from zenitmq.store.opening.store_cut import truncate_store

QUEUES = 3

steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, QUEUES - 1), st.integers(1, 6), st.integers(0, 400)),
        st.tuples(st.just("hidden"), st.integers(0, QUEUES - 1), st.sampled_from([0x4, 0xC])),
        st.tuples(st.just("follow"), st.integers(1, 3000)),
        st.tuples(st.just("confirm"), st.integers(0, 100)),
        st.tuples(st.just("restart")),
        st.tuples(st.just("kill")),
        st.tuples(st.just("cut"), st.integers(0, 5)),
    ),
    max_size=40,
)


class Pair:
    """`ends`: of each chunk that the slave holds."""

    def __init__(self, directory: str, engine: str) -> None:
        self.engine = engine
        self.config = StoreConfig(**{**SMALL, "consume_queue": engine})
        self.directory = directory
        self.slave_directory = os.path.join(directory, "slave")
        self.clock = StillClock()
        self.number = self.lives = self.confirmed = 0
        self.ends: list[int] = []
        self.master = make_store(os.path.join(directory, "master"), self.clock, consume_queue=engine)
        self.master.__enter__()
        self.open()

    def open(self) -> None:
        self.slave = make_store(self.slave_directory, self.clock, consume_queue=self.engine)
        self.slave.__enter__()
        self.slave.confirm(self.confirmed)

    def close(self) -> None:
        self.slave.__exit__(None, None, None)

    def put(self, queue_id: int, count: int, size: int) -> None:
        self.number += 1
        stage(self.master, "t", queue_id, *[message("t", b"%d " % self.number + bytes(size), keys="k")] * count)
        self.master.commit()
        self.clock.time_ms += self.number % 3

    def hidden(self, queue_id: int, flags: int) -> None:
        self.master.stage_record(NewRecord(topic="t", queue_id=queue_id, body=b"hidden", sys_flag=flags))
        self.master.commit()

    def follow(self, bytes_max: int) -> None:
        chunk = self.master.chunk(self.slave.written, bytes_max)
        if chunk.end > chunk.begin:
            self.slave.append_chunk(bytes(chunk.data), chunk.begin, chunk.end)
            self.ends.append(chunk.end)

    def confirm(self, percent: int) -> None:
        """Never more than what the slave can be cut to: the end of a chunk."""
        below = [end for end in self.ends if end <= self.slave.written * percent // 100]
        self.confirmed = max([self.confirmed, *below])
        self.slave.confirm(self.confirmed)

    def restart(self) -> None:
        self.close()
        self.open()

    def kill(self) -> None:
        self.lives += 1
        left = os.path.join(self.directory, f"slave{self.lives}")
        kill(self.slave_directory, left)
        self.close()
        shutil.rmtree(self.slave_directory)
        self.slave_directory = left
        self.open()
        assert self.slave.written == max(self.ends, default=0)

    def cut(self, chunks: int) -> None:
        """Off with the last chunks, as far as they are not confirmed."""
        self.ends = [
            end for index, end in enumerate(self.ends) if index < len(self.ends) - chunks or end <= self.confirmed
        ]
        self.close()
        truncate_store(self.slave_directory, self.config, max(self.ends, default=0))
        self.open()
        assert self.slave.written == max(self.ends, default=0)

    def check(self) -> None:
        """What is read is what the master has, below the confirm offset."""
        for queue_id in range(QUEUES):
            held = read_queue(self.slave, "t", queue_id)
            assert all(m.physical_offset < self.confirmed for m in held)
            assert [m.body for m in held] == [m.body for m in read_queue(self.master, "t", queue_id)][: len(held)]


@settings(max_examples=60)
@given(steps, st.sampled_from(["file", "rocksdb"]))
def test_a_slave_becomes_its_master_s_copy_whatever_happens_to_it(history, engine: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        pair = Pair(directory, engine)
        try:
            for name, *values in history:
                getattr(pair, name)(*values)
                pair.check()
            while pair.slave.written < pair.master.written:
                pair.follow(1 << 20)
            pair.confirm(100)
            pair.check()
            for queue_id in range(QUEUES):
                assert pair.slave.max_offset("t", queue_id) == pair.master.max_offset("t", queue_id)
            assert tree(pair.slave_directory, "consumequeue") == tree(f"{directory}/master", "consumequeue")
            logs = [b"".join(bytes(s.map) for s in store._log.segments()) for store in (pair.master, pair.slave)]
            assert logs[0] == logs[1]
        finally:
            pair.close()
            pair.master.__exit__(None, None, None)
