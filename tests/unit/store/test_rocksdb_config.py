"""RocketMQ's topics, groups and offsets in RocksDB, in both of its layouts, read as its JSON files say them."""

import struct
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from zenitmq.model.errors import StoreFormatError
from zenitmq.store.opening.snapshot import read_snapshot, write_snapshot
from zenitmq.store.rocksdb_config import read_config

TOPIC = b'{"topicName":"t","perm":6}'


def rows(path: Path) -> Rdict:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    return Rdict(str(path), options)


def fill(path: Path, values: dict[bytes, bytes]) -> None:
    made = rows(path)
    for key, value in values.items():
        made.put(key, value)
    made.close()


def sized(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def offset_key(group: str, topic: str, queue_id: int, table: int = 1) -> bytes:
    return (
        b"\x01" + struct.pack(">H", table) + b"\x02" + sized(group) + b"\x01" + sized(topic) + b"\x01"
        + struct.pack(">i", queue_id)
    )  # fmt: skip


def test_the_first_layout(tmp_path: Path) -> None:
    fill(tmp_path / "topics", {b"t": TOPIC})
    fill(tmp_path / "subscriptionGroups", {b"g": b'{"groupName":"g"}'})
    fill(tmp_path / "consumerOffsets", {b"t@g": b'{"offsetTable":{"0":9,"3":1}}'})
    assert read_config(str(tmp_path / "topics.json")) == {"topicConfigTable": {"t": {"topicName": "t", "perm": 6}}}
    assert read_config(str(tmp_path / "subscriptionGroup.json")) == {
        "subscriptionGroupTable": {"g": {"groupName": "g"}}
    }
    assert read_config(str(tmp_path / "consumerOffset.json")) == {"offsetTable": {"t@g": {"0": 9, "3": 1}}}
    assert read_config(str(tmp_path / "delayOffset.json")) is None


def test_the_second_layout(tmp_path: Path) -> None:
    tables = ((3, b"\x02"), (4, b"\x02"), (3, b"\x01"))
    topic, group, version = (b"\x01" + struct.pack(">H", table) + kind for table, kind in tables)
    fill(
        tmp_path / "rdb",
        {
            version + b"data_version": bytes(24),
            topic + sized("t"): b"\x01" + TOPIC,
            group + sized("g"): b'\x01{"groupName":"g"}',
            offset_key("g", "t", 0): struct.pack(">q", 9),
            offset_key("g", "t", 3): struct.pack(">q", 1),
            offset_key("g", "t", 0, table=2): struct.pack(">q", 77),
        },
    )
    assert read_config(str(tmp_path / "topics.json")) == {"topicConfigTable": {"t": {"topicName": "t", "perm": 6}}}
    assert read_config(str(tmp_path / "subscriptionGroup.json")) == {
        "subscriptionGroupTable": {"g": {"groupName": "g"}}
    }
    assert read_config(str(tmp_path / "consumerOffset.json")) == {"offsetTable": {"t@g": {"0": 9, "3": 1}}}


def test_our_own_snapshot_counts_more(tmp_path: Path) -> None:
    fill(tmp_path / "topics", {b"t": TOPIC})
    path = str(tmp_path / "topics.json")
    found = read_snapshot(path)
    assert found is not None
    assert found.reflected is None
    write_snapshot(path, {"topicConfigTable": {}}, 7)
    found = read_snapshot(path)
    assert found is not None
    assert (found.document, found.reflected) == ({"topicConfigTable": {}}, 7)
    assert read_snapshot(str(tmp_path / "consumerOffset.json")) is None


@pytest.mark.parametrize("value", [b"{", b"\xff"])
def test_a_damaged_entry_is_told(tmp_path: Path, value: bytes) -> None:
    fill(tmp_path / "topics", {b"t": value})
    with pytest.raises(StoreFormatError, match="an entry of topicConfigTable"):
        read_config(str(tmp_path / "topics.json"))


@pytest.mark.parametrize(("key", "value"), [(b"", b"\x01{}"), (sized("t"), b"\x02{}"), (b"\x00\x09t", b"\x01{}x")])
def test_a_damaged_entry_of_the_second_layout_is_told(tmp_path: Path, key: bytes, value: bytes) -> None:
    fill(tmp_path / "rdb", {b"\x01\x00\x03\x02" + key: value})
    with pytest.raises(StoreFormatError, match="rdb"):
        read_config(str(tmp_path / "topics.json"))
