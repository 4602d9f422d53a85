"""Records that end the wait of others: made by the broker only, seen in every run that holds one."""

from __future__ import annotations

from types import ModuleType

import pytest
from store_kit import make_store, message

from zenitmq.model.errors import MessageIllegal
from zenitmq.record import codes
from zenitmq.record.new_record import NewRecord
from zenitmq.record.sys_flag import ENDS_WAIT


def records(kernel: ModuleType, *causes: int) -> bytes:
    made, at = b"", 0
    for index, cause in enumerate(causes):
        one = kernel.encode_record(
            topic=b"t", body=b"x", queue_offset=index, physical_offset=at, prepared_transaction_offset=cause
        )
        made += one
        at += len(one)
    return made


@pytest.mark.parametrize(
    ("causes", "flag", "ended"),
    [
        ((0, 0), 0, []),
        ((7, 0), 0, []),
        ((-1, 0), ENDS_WAIT, [(1, 0)]),
        ((0, -(1 << 62), -9), ENDS_WAIT, [(2, (1 << 62) - 1), (3, 8)]),
    ],
)
def test_a_scan_tells_of_them(
    kernel: ModuleType, causes: tuple[int, ...], flag: int, ended: list[tuple[int, int]]
) -> None:
    data = records(kernel, *causes)
    run = kernel.RunKernel(record_max=1 << 20, body_max=1 << 20)
    assert run.scan(memoryview(data), 0, len(data), 0) == len(causes)
    assert run.sys_flag == flag
    size = len(data) // len(causes)
    assert kernel.ended_waits(data) == [(count * size, offset, 0) for count, offset in ended]


def test_a_client_may_not_make_them(kernel: ModuleType) -> None:
    run = kernel.RunKernel(record_max=1 << 20, body_max=1 << 20)
    data = bytearray(records(kernel, -1))
    assert run.stamp(data, 0, len(data), b"t", 0, 1, 0, 0, 0, 1) == codes.BAD_TRANSACTION
    assert run.stamp(data, 0, len(data), b"t", 0, 1, 0, 0, 0, 1, True) == 1


class Told:
    topics = frozenset({"other"})
    run_flags = ENDS_WAIT

    def __init__(self) -> None:
        self.runs: list[tuple[str, int, int]] = []

    def on_run(self, run) -> None:
        if run.topic in self.topics or run.sys_flag & ENDS_WAIT:
            self.runs.append((run.topic, run.count, run.sys_flag))

    def advance(self, end: int) -> None:
        pass

    def reflected(self) -> int:
        return 0

    def persist(self) -> int:
        return 0


def test_who_wants_them_is_told_of_their_runs_only(tmp_path) -> None:
    """By a turn of its own, by a master's chunk, by a replay alike."""
    told = [Told(), Told(), Told()]
    with make_store(tmp_path / "m", dispatchers=(told[0],)) as master:
        block = message("t", b"a") + message("t", b"b")
        placed = master.stage_own(block, topic="t", queue_id=0, count=2, flags=ENDS_WAIT)
        assert placed.count == 2
        master.stage_own(message("t", b"c"), topic="t", queue_id=1, count=1)
        master.stage_record(NewRecord(topic="u", queue_id=0, body=b"d", prepared_transaction_offset=-1))
        master.stage_record(NewRecord(topic="other", queue_id=0, body=b"e"))
        master.commit()
        expected = [("t", 2, ENDS_WAIT), ("u", 1, ENDS_WAIT), ("other", 1, 0)]
        assert told[0].runs == expected
        with make_store(tmp_path / "s", dispatchers=(told[1],)) as slave:
            chunk = master.chunk(0, bytes_max=1 << 20)
            slave.append_chunk(bytes(chunk.data), 0, chunk.end)
        assert told[1].runs == expected[1:], "what a flag says of a block, a scan finds in its records"
    with make_store(tmp_path / "m", dispatchers=(told[2],)):
        pass
    assert told[2].runs == expected[1:]


def test_blocks_that_fit_nowhere_are_refused_whole(tmp_path) -> None:
    with make_store(tmp_path) as store:
        with pytest.raises(MessageIllegal):
            store.stage_own(message("t", bytes(3000)) * 2, topic="t", queue_id=0, count=2)
        with pytest.raises(MessageIllegal):
            store.stage_own(message("u", b"x"), topic="t", queue_id=0, count=1)
        store.commit()
        assert store.max_offset("t", 0) == 0
        for _ in range(6):  # over the ends of segments
            store.stage_own(message("t", bytes(1000)), topic="t", queue_id=0, count=1)
        store.commit()
        assert store.max_offset("t", 0) == 6
