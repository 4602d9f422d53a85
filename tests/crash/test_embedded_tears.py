"""A log of an embedded engine after a kill or a loss of power: cut at every byte, and with rotten ones."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from zenitmq.local.embedded.log_store import LogStore
from zenitmq.local.embedded.queue_log import CUT_FOLDER, QueueLog
from zenitmq.local.embedded.queue_logs import QueueLogs
from zenitmq.model.arena import Arena
from zenitmq.model.clock import SystemClock
from zenitmq.model.ids import HostAddress
from zenitmq.model.queue import QueueOffset
from zenitmq.record.kernel import decode_batch
from zenitmq.record.new_record import NewRecord
from zenitmq.store.config import StoreConfig

SEGMENT = 16384
BODIES = [b"first", b"", b"the third, which is longer", b"x" * 50]


def opened(directory: Path) -> tuple[QueueLogs, LogStore]:
    logs = QueueLogs(str(directory), segment_bytes=SEGMENT)
    config = StoreConfig(record_bytes_max=8192, body_bytes_max=4096)
    host = HostAddress.parse("0.0.0.9", 3)
    store = LogStore(logs, None, config, host=host, clock=SystemClock(), arena=Arena(1, 1))  # type: ignore[arg-type]
    return logs, store


def append(store: LogStore, *bodies: bytes) -> None:
    for body in bodies:
        store.stage_record(NewRecord("t", 0, body))


def bodies_of(store: LogStore) -> list[bytes]:
    found: list[bytes] = []
    while True:
        result = store.get_messages("t", 0, QueueOffset(len(found)), max_messages=100, max_bytes=1 << 20)
        if not result.count:
            return found
        found += [message.body for message in decode_batch(b"".join(result.slices))]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    directory = tmp_path / "written"
    logs, store = opened(directory)
    append(store, *BODIES)
    logs.close()
    return directory


def file_of(directory: Path) -> Path:
    (path,) = (directory / "queues" / "t" / "0").iterdir()
    return path


def test_cut_at_every_byte_of_its_end_it_keeps_the_whole_records_and_goes_on(written: Path, tmp_path: Path) -> None:
    whole = file_of(written).read_bytes().rstrip(b"\0")
    ends = [0]
    while ends[-1] < len(whole):
        ends.append(ends[-1] + int.from_bytes(whole[ends[-1] : ends[-1] + 4], "big"))
    whole = whole.ljust(ends[-1], b"\0")
    for cut in range(ends[2], len(whole)):
        directory = tmp_path / "cut"
        shutil.copytree(written, directory)
        file_of(directory).write_bytes(whole[:cut].ljust(SEGMENT, b"\0"))
        for _ in range(2):  # the second opening finds it whole
            logs, store = opened(directory)
            kept = sum(1 for end in ends[1:] if whole[:end] == whole[:cut].ljust(end, b"\0")[:end])
            assert bodies_of(store)[:kept] == BODIES[:kept]
            logs.close()
        logs, store = opened(directory)
        append(store, b"after")
        logs.close()
        logs, store = opened(directory)
        assert bodies_of(store) == [*BODIES[:kept], b"after"]
        logs.close()
        torn = whole[ends[kept] : cut].rstrip(b"\0")
        kept_aside = b"".join(path.read_bytes() for path in (directory / CUT_FOLDER).glob("*"))
        assert kept_aside == torn
        shutil.rmtree(directory)


@pytest.mark.parametrize("seed", range(60))
def test_rotten_bytes_never_change_a_message_or_stop_an_opening(written: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = file_of(written)
    data = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 4)):
        data[chance.randrange(600)] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    logs, store = opened(written)
    found = bodies_of(store)
    append(store, b"after")
    assert bodies_of(store) == [*found, b"after"]
    logs.close()
    assert all(body in BODIES for body in found)


def test_what_a_longer_write_left_behind_the_end_does_not_come_back(tmp_path: Path) -> None:
    logs, store = opened(tmp_path / "store")
    append(store, b"1111", b"2222", b"3333")
    log = logs.find("t", 0)
    assert isinstance(log, QueueLog)
    size = (log.end - log.files[0].segment.base_offset) // 3
    logs.close()
    path = file_of(tmp_path / "store")
    data = bytearray(path.read_bytes())
    data[size : 2 * size] = bytes(size)  # the page of the second was never written, that of the third was
    path.write_bytes(data)
    logs, store = opened(tmp_path / "store")
    append(store, b"4444")
    logs.close()
    logs, store = opened(tmp_path / "store")
    assert bodies_of(store) == [b"1111", b"4444"]
    logs.close()
