"""Any history of appends, flushes, checkpoints and kills: what a store says is what was put in, cut nowhere but at its tail,
and its queues and index are those that a rebuild from the log gives."""

import os
import shutil
import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st
from store_kit import StillClock, index_bytes, kill, make_store, message, read_queue, stage, tree

from zenitmq.record.new_record import NewRecord

APPEND_BYTES_MAX = 2048

engines = st.sampled_from(["file", "rocksdb"])

steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 3), st.integers(1, 12), st.integers(0, 300)),
        st.tuples(st.just("record"), st.integers(0, 3), st.sampled_from([0, 0x4, 0x8, 0xC])),
        st.tuples(st.just("commit")),
        st.tuples(st.just("wait"), st.integers(0, 5000) | st.sampled_from([-3_600_000, 3_600_000])),
        st.tuples(st.just("flush")),
        st.tuples(st.just("checkpoint")),
        st.tuples(st.just("reopen")),
        st.tuples(st.just("kill")),
    ),
    max_size=40,
)


class History:
    """Runs steps on one store beside a model: what each queue must hold."""

    def __init__(self, directory: str, engine: str = "file") -> None:
        self.engine = engine
        self.directory = os.path.join(directory, "0")
        self.scratch = os.path.join(directory, "scratch")
        self.clock = StillClock()
        self.kept: dict[int, list[bytes]] = {queue_id: [] for queue_id in range(4)}
        self.ends: list[tuple[int, int, int]] = []  # (log end, queue, count) of each batch committed
        self.number = 0
        self.kills = 0
        self.staged: list[tuple[int, list[bytes]]] = []
        self.open()

    def open(self) -> None:
        self.store = make_store(self.directory, self.clock, consume_queue=self.engine)
        self.store.__enter__()

    def close(self) -> None:
        self.store.__exit__(None, None, None)

    def step(self, name: str, *values: int) -> None:
        getattr(self, name)(*values)

    def put(self, queue_id: int, count: int, size: int) -> None:
        bodies = []
        for _ in range(count):
            self.number += 1
            bodies.append(b"%d " % self.number + bytes(size))
        records = [message("t", body, keys=f"k{len(body)} all", unique=f"{self.number:032X}") for body in bodies]
        stage(self.store, "t", queue_id, *records)
        self.staged.append((queue_id, bodies))

    def record(self, queue_id: int, flags: int) -> None:
        self.number += 1
        body = b"%d" % self.number
        self.store.stage_record(
            NewRecord(topic="t", queue_id=queue_id, body=body, properties={"TAGS": "t"}, sys_flag=flags)
        )
        self.staged.append((queue_id, [body] if flags in (0, 0x8) else []))

    def commit(self) -> None:
        self.store.commit()
        for queue_id, bodies in self.staged:
            self.kept[queue_id] += bodies
        self.staged.clear()

    def wait(self, duration_ms: int) -> None:
        self.clock.time_ms += duration_ms

    def flush(self) -> None:
        self.commit()
        self.store._log.wait_flushed(self.store.written, 20_000)

    def checkpoint(self) -> None:
        self.commit()
        self.clock.time_ms += 100
        self.store.on_tick(self.clock.time_ms)
        self.store._upkeep.run_in_worker(lambda: None).result(20)

    def reopen(self) -> None:
        self.commit()
        self.close()
        self.open()

    def kill(self) -> None:
        self.commit()
        self.kills += 1
        left = os.path.join(os.path.dirname(self.directory), str(self.kills))
        kill(self.directory, left)
        self.close()
        self.directory = left
        self.open()

    def check(self) -> None:
        self.commit()
        for queue_id, bodies in self.kept.items():
            assert [m.body for m in read_queue(self.store, "t", queue_id)] == bodies
        kill(self.directory, self.scratch)
        for folder in ("consumequeue", "index"):
            shutil.rmtree(os.path.join(self.scratch, folder), ignore_errors=True)
        with make_store(self.scratch, StillClock(1), consume_queue=self.engine):
            assert tree(self.scratch, "consumequeue") == tree(self.directory, "consumequeue")
            assert index_bytes(self.scratch) == index_bytes(self.directory)


@settings(max_examples=40)
@given(steps, engines)
def test_any_history_equals_its_model_and_its_rebuild(history, engine: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run = History(directory, engine)
        try:
            for step in history:
                run.step(*step)
            run.check()
        finally:
            run.close()


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 200)), min_size=1, max_size=25), st.data()
)
def test_cut_anywhere_it_opens_with_a_prefix(batches, data) -> None:
    """Cut at any byte, each queue is a prefix of what it was, and little more than what was cut is missing."""
    with tempfile.TemporaryDirectory() as directory:
        run = History(directory)
        try:
            for batch in batches:
                run.put(*batch)
                run.commit()
            end = run.store.written
            left = os.path.join(directory, "left")
            kill(run.directory, left)
        finally:
            run.close()
        cut = data.draw(st.integers(0, end), label="cut")
        for name in os.listdir(os.path.join(left, "commitlog")):
            path = os.path.join(left, "commitlog", name)
            size, kept = os.path.getsize(path), min(max(cut - int(name), 0), os.path.getsize(path))
            os.truncate(path, kept)
            os.truncate(path, size)
        with make_store(left) as store:
            assert cut - APPEND_BYTES_MAX <= store.written <= end
            found = {queue_id: [m.body for m in read_queue(store, "t", queue_id)] for queue_id in range(4)}
        for queue_id, bodies in found.items():
            assert bodies == run.kept[queue_id][: len(bodies)]
