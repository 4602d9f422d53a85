"""A slave that was torn in the middle of a chunk ends before it or within it, and becomes its master's copy again."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from store_kit import StillClock, index_bytes, kill, make_store, message, put, tree

from zenitmq.store.message_store import MessageStore
from zenitmq.store.offline.offline import verify_store

SEGMENT = 4096


def fill(master: MessageStore, clock: StillClock, turns: int) -> None:
    for number in range(turns):
        records = [
            message("t", b"%d" % number * 30, keys=f"k{number} all", unique=f"{number * 9 + part:032X}")
            for part in range(3)
        ]
        put(master, "t", number % 2, *records)
        clock.time_ms += 3


def follow(master: MessageStore, slave: MessageStore) -> None:
    while slave.written < master.written:
        chunk = master.chunk(slave.written, 1 << 20)
        slave.append_chunk(bytes(chunk.data), chunk.begin, chunk.end)


def log_bytes(store: MessageStore) -> bytes:
    return b"".join(bytes(segment.map) for segment in store._log.segments())


@pytest.mark.parametrize("boot", ["same", "other"])
@pytest.mark.parametrize("vouched", [False, True])
def test_torn_at_any_byte_of_a_chunk(tmp_path, vouched: bool, boot: str) -> None:
    """Chunks that roll a segment among them: the blank, and the first bytes behind it."""
    clock = StillClock()
    with make_store(tmp_path / "m", clock) as master:
        fill(master, clock, 2)
        with make_store(tmp_path / "s", clock) as slave:
            follow(master, slave)
            begin = slave.written
            # a unit is written once the whole of its chunk is
            queues = shutil.copytree(tmp_path / "s" / "consumequeue", tmp_path / "queues")
            fill(master, clock, 9)
            follow(master, slave)
            end = slave.written
            if vouched:
                slave.flush_all(20_000)
            left = kill(tmp_path / "s", tmp_path / "left")
        shutil.rmtree(left / "consumequeue")
        shutil.copytree(queues, left / "consumequeue")
        assert begin < SEGMENT < end
        if boot == "other":
            (left / "abort").write_text("7\nanother boot\n")
        for cut in [*range(begin, SEGMENT, 97), *range(SEGMENT - 40, SEGMENT + 40, 3), *range(SEGMENT + 40, end, 97)]:
            work = kill(left, tmp_path / "work")
            _zero_from(work / "commitlog", cut)
            with make_store(work, clock) as slave:
                assert begin - 1000 <= slave.written <= max(cut, SEGMENT if cut > SEGMENT - 600 else 0), cut
                assert slave.statistics().quarantined_ranges == 0, cut
                follow(master, slave)
                assert log_bytes(slave) == log_bytes(master), cut
                assert tree(work, "consumequeue") == tree(tmp_path / "m", "consumequeue"), cut
                assert index_bytes(work) == index_bytes(tmp_path / "m"), cut
            assert verify_store(str(work))["damaged"] == []
            shutil.rmtree(work)


def _zero_from(log: Path, cut: int) -> None:
    for path in sorted(log.iterdir()):
        kept = min(max(cut - int(path.name), 0), SEGMENT)
        os.truncate(path, kept)
        os.truncate(path, SEGMENT)


def follow_forever(master: str, directory: str) -> None:
    """A slave process: takes its master's log chunk by chunk, and says each end that it has."""
    with make_store(master) as source, make_store(directory, flush_interval_ms=5) as slave:
        for _ in range(10_000):
            chunk = source.chunk(slave.written, 700)
            if chunk.end == chunk.begin:
                fill(source, StillClock(), 5)
                continue
            slave.append_chunk(bytes(chunk.data), chunk.begin, chunk.end)
            print(slave.written, flush=True)


@pytest.mark.parametrize("after", [1, 40, 300])
def test_a_real_slave_killed_while_it_follows(tmp_path, after: int) -> None:
    code = f"import sys; sys.path[:0] = {sys.path!r}; import test_chunk_tears as t; t.follow_forever(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(tmp_path / "m"), str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parent) as process:
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(after)]
        process.send_signal(signal.SIGKILL)
        said += [int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]
    with make_store(tmp_path / "m") as master, make_store(tmp_path / "s") as slave:
        assert slave.written >= said[-1]
        fill(master, StillClock(), 3)
        follow(master, slave)
        assert log_bytes(slave) == log_bytes(master)
        assert tree(tmp_path / "s", "consumequeue") == tree(tmp_path / "m", "consumequeue")
