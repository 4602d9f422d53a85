"""Tools for stores with batch queues: what they say, check, copy and repair."""

import shutil
import struct
from pathlib import Path

import pytest
from store_kit import SMALL, make_store, message, put, put_batch, read_queue

from zenitmq.broker.repair.store_repair import repair_store
from zenitmq.model.get_status import GetStatus
from zenitmq.store.config import StoreConfig
from zenitmq.store.offline.convert import convert_store
from zenitmq.store.offline.offline import dump_store, open_queues, verify_store
from zenitmq.store.offline.store_size import store_size
from zenitmq.store.queues.batches.batch_table import BATCH_FOLDER

CONFIG = StoreConfig(**SMALL)
UNITS = f"{BATCH_FOLDER}/t/0/{0:020d}"


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with make_store(tmp_path / "s") as store:
        put(store, "p", 0, message("p", b"plain"))
        for begin in range(0, 40, 4):
            put_batch(store, "t", 0, *(message("t", b"%d" % n) for n in range(begin, begin + 4)))
        put(store, "p", 0, message("p", b"plain too"))
    return tmp_path / "s"


def bodies(directory: Path, topic: str = "t") -> list[bytes]:
    with make_store(directory) as store:
        return [one.body for one in read_queue(store, topic, 0)]


ALL = [b"%d" % n for n in range(40)]


def test_a_size_counts_messages_and_each_record_once(filled: Path) -> None:
    with open_queues(str(filled)) as opened:
        found = store_size(str(filled), opened)
    assert found["topics"]["t"]["messages"] == 40
    assert found["queues"]["message_bytes"] <= found["log"]["end_offset"]
    assert found["queues"]["files"] == 2


def test_a_dump_gives_each_message(filled: Path) -> None:
    dumped = list(dump_store(str(filled)))
    assert [one.body for one in dumped] == [b"plain", *ALL, b"plain too"]
    assert [one.queue_offset for one in dumped[1:-1]] == list(range(40))


def test_queues_of_the_other_engine_leave_batches_alone(filled: Path) -> None:
    before = (filled / UNITS).read_bytes()
    assert convert_store(str(filled), "rocksdb", CONFIG, report=lambda _done, _total: None)["queues"] == 1
    assert (filled / UNITS).read_bytes() == before
    with make_store(filled, consume_queue="rocksdb") as store:
        assert [one.body for one in read_queue(store, "t", 0)] == ALL
        assert [one.body for one in read_queue(store, "p", 0)] == [b"plain", b"plain too"]


@pytest.mark.parametrize(
    ("at", "wrong"),
    [
        pytest.param(0, struct.pack(">q", 5), id="a place before"),
        pytest.param(0, struct.pack(">q", 1 << 40), id="a place far behind"),
        pytest.param(8, struct.pack(">i", 99), id="another size"),
        pytest.param(28, struct.pack(">q", 1000), id="a base far behind"),
        pytest.param(36, struct.pack(">h", 2), id="fewer messages"),
    ],
)
def test_a_damaged_unit_is_found_and_rebuilt(filled: Path, at: int, wrong: bytes) -> None:
    assert (verify_store(str(filled))["damaged_units"], verify_store(str(filled))["records"]) == (0, 42)
    whole = (filled / UNITS).read_bytes()
    with (filled / UNITS).open("r+b") as file:
        file.seek(4 * 46 + at)
        file.write(wrong)
    assert verify_store(str(filled))["damaged_units"] >= 1
    assert repair_store(str(filled), report=lambda _done, _total: None)["units"] >= 1
    assert verify_store(str(filled))["damaged_units"] == 0
    assert (filled / UNITS).read_bytes() == whole
    assert bodies(filled) == ALL


def test_a_damaged_batch_comes_back_from_a_copy(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled, tmp_path / "copy")
    (place,) = {one.physical_offset for one in dump_store(str(filled)) if one.body == b"17"}
    with (filled / f"commitlog/{place // 4096 * 4096:020d}").open("r+b") as file:
        file.seek(place % 4096 + 4)
        file.write(b"rot!")
    shutil.rmtree(filled / BATCH_FOLDER)
    shutil.rmtree(filled / "consumequeue")
    (filled / "checkpoint").unlink()
    with make_store(filled) as store:
        assert store.damage.quarantine.ranges
        result = store.get_messages("t", 0, 16, max_messages=10, max_bytes=1 << 20)
        assert (result.status, result.lost_from, result.next_offset) == (GetStatus.MESSAGES_LOST, 16, 20)
        result = store.get_messages("t", 0, 18, max_messages=10, max_bytes=1 << 20)
        assert (result.status, result.lost_from, result.next_offset) == (GetStatus.MESSAGES_LOST, 18, 20)
        assert store.max_offset("t", 0) == 40
    repair_store(str(filled), str(tmp_path / "copy"), report=lambda _done, _total: None)
    assert bodies(filled) == ALL
    assert (filled / UNITS).read_bytes() == (tmp_path / "copy" / UNITS).read_bytes()
