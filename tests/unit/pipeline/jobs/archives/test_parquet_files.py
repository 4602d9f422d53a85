"""Rows to files: each row once, each file of one topic and day, in order, and what is said of it is true."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zenitmq.pipeline.column_names import COLUMN_NAMES
from zenitmq.pipeline.jobs.archives import parquet_files
from zenitmq.pipeline.jobs.archives.archive_tree import ArchiveTree, StagedFile
from zenitmq.pipeline.jobs.archives.file_check import check_file
from zenitmq.pipeline.jobs.archives.manifest import FileRange
from zenitmq.pipeline.jobs.archives.merge_plan import merges
from zenitmq.pipeline.jobs.archives.parquet_files import (
    STORED_NAMES,
    RowFiles,
    conform,
    staged_of,
    staged_text,
    write_rows,
)
from zenitmq.pipeline.jobs.compact import merge_files
from zenitmq.pipeline.schema import arrow_schema

DAY_US = 86_400_000_000
NOON_US = 20_000 * DAY_US + DAY_US // 2  # 2024-10-04


def row(
    offset: int, *, topic: str = "orders", broker: str = "a", queue_id: int = 0, stored_us: int = NOON_US
) -> dict[str, Any]:
    return {
        "topic": topic,
        "broker": broker,
        "queueId": queue_id,
        "queueOffset": offset,
        "messageId": f"{broker}-{queue_id}-{offset}",
        "body": b"body %d" % offset,
        "properties": [("n", str(offset))],
        "bornTimestamp": stored_us - 1,
        "storeTimestamp": stored_us + offset,
        "bodyCrc": offset,
    }


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    schema = arrow_schema(COLUMN_NAMES)
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def written(directory: Path, *batches: pa.RecordBatch, target_bytes: int = 1 << 30) -> list[StagedFile]:
    files = RowFiles(str(directory), target_bytes)
    for each in batches:
        files.add(each)
    return files.finish()


def offsets(staged: StagedFile) -> list[int]:
    return pq.read_table(staged.path, partitioning=None).column("queueOffset").to_pylist()


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    rows = [row(offset) for offset in range(5, 9)]
    (staged,) = written(tmp_path, batch(*rows[:2]), batch(), batch(*rows[2:]))
    table = pq.read_table(staged.path, partitioning=None)
    assert table.schema.remove_metadata().equals(arrow_schema(STORED_NAMES))
    assert table.to_batches()[0].equals(batch(*rows).select(STORED_NAMES))
    assert (staged.topic, staged.date) == ("orders", "2024-10-04")
    file = staged.file
    assert (file.rows, file.ranges) == (4, (FileRange("a", 0, 5, 9),))
    data = Path(staged.path).read_bytes()
    assert (file.size_bytes, file.crc32) == (len(data), zlib.crc32(data))
    assert (file.stored_from_ms, file.stored_to_ms) == (NOON_US // 1000, NOON_US // 1000)


def test_topics_and_days_have_files_of_their_own(tmp_path: Path) -> None:
    late = row(1, stored_us=NOON_US + DAY_US)
    files = written(tmp_path, batch(row(0), late, row(0, topic="%RETRY%g"), row(2)))
    assert sorted((each.topic, each.date, tuple(offsets(each))) for each in files) == [
        ("%RETRY%g", "2024-10-04", (0,)),
        ("orders", "2024-10-04", (0, 2)),
        ("orders", "2024-10-05", (1,)),
    ]


def test_a_file_is_in_order_of_queue_and_offset(tmp_path: Path) -> None:
    in_order = [row(7), row(9), row(0, queue_id=1), row(0, broker="b")]
    (one,) = written(tmp_path, batch(*in_order))
    ranges = (FileRange("a", 0, 7, 8), FileRange("a", 0, 9, 10), FileRange("a", 1, 0, 1), FileRange("b", 0, 0, 1))
    assert one.file.ranges == ranges
    first, second = written(tmp_path, batch(row(0, broker="b"), row(0)))
    assert (first.file.ranges, second.file.ranges) == ((FileRange("b", 0, 0, 1),), (FileRange("a", 0, 0, 1),))


def test_a_file_that_has_its_size_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "ROW_GROUP_BYTES", 1)
    files = written(tmp_path, *(batch(row(offset)) for offset in range(4)), target_bytes=1)
    assert [offsets(each) for each in files] == [[0], [1], [2], [3]]


def test_few_files_and_few_rows_are_held_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "OPEN_FILES_MAX", 2)
    monkeypatch.setattr(parquet_files, "PENDING_BYTES_MAX", 1)
    files = written(tmp_path, batch(*(row(0, topic=f"t{number}") for number in range(5))), batch(row(1, topic="t4")))
    assert sorted((each.topic, tuple(offsets(each))) for each in files) == [
        ("t0", (0,)),
        ("t1", (0,)),
        ("t2", (0,)),
        ("t3", (0,)),
        ("t4", (0, 1)),
    ]


def test_times_of_another_zone_are_the_same_times() -> None:
    schema = arrow_schema(COLUMN_NAMES)
    rows = batch(row(3))
    place = schema.get_field_index("storeTimestamp")
    elsewhere = rows.column(place).cast(pa.timestamp("us", tz="Asia/Tokyo"))
    foreign = rows.set_column(place, "storeTimestamp", elsewhere)
    assert foreign.schema != schema
    assert conform(foreign).equals(rows)


def test_a_task_tells_what_it_wrote(tmp_path: Path) -> None:
    (staged,) = write_rows(iter([batch(row(0), row(1))]), str(tmp_path), 1 << 30)
    assert offsets(staged) == [0, 1]
    assert staged_of(staged_text(staged)) == staged
    assert write_rows(iter([]), str(tmp_path), 1 << 30) == []


def test_a_task_that_fails_leaves_no_open_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "ROW_GROUP_BYTES", 1)

    def rows() -> Any:
        yield batch(row(0))
        raise ValueError("the broker is gone")

    with pytest.raises(ValueError, match="gone"):
        write_rows(rows(), str(tmp_path), 1 << 30)
    descriptors = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_open(name)]
    assert not [path for path in descriptors if path.startswith(str(tmp_path))]


def _is_open(descriptor: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{descriptor}")


@pytest.fixture
def tree(tmp_path: Path) -> ArchiveTree:
    made = ArchiveTree(str(tmp_path / "archive"))
    made.create()
    made.identify()
    return made


def commit(tree: ArchiveTree, number: int, *rows: dict[str, Any]) -> None:
    tree.commit(f"batch-{number}", written(Path(tree.staging(f"batch-{number}")), batch(*rows)), query="q")


def test_a_file_is_checked_against_its_manifest(tree: ArchiveTree) -> None:
    commit(tree, 0, row(0), row(1), row(5))
    (file,) = tree.catalogue().files
    good = check_file(tree.root, file)
    assert (good.problem, good.ranges, good.topic) == ("", file.ranges, "orders")
    path = Path(tree.place(file.path))
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"?" + data[101:])
    assert "CRC-32" in check_file(tree.root, file).problem
    path.write_bytes(b"no Parquet")
    assert "10 bytes" in check_file(tree.root, file).problem
    path.unlink()
    assert check_file(tree.root, file).problem == "it is missing"
    (other,) = written(path.parent, batch(row(0)))
    os.rename(other.path, path)
    exact = type(file)(file.path, 3, other.file.size_bytes, other.file.crc32, 1, 2, file.ranges)
    assert "not those that its manifest lists" in check_file(tree.root, exact).problem


def test_files_are_merged_in_order_with_every_row(tree: ArchiveTree, tmp_path: Path) -> None:
    rows = [row(offset, queue_id=queue_id) for queue_id in (0, 1) for offset in range(6)]
    commit(tree, 0, *rows[0:2], *rows[6:8])
    commit(tree, 1, *rows[2:6], *rows[8:12])
    (merge,) = merges(tree.catalogue().files, before="2024-10-05", target_bytes=1 << 20)
    (text,) = merge_files(tree.root, str(tmp_path), merge)
    merged = staged_of(text)
    assert merged.file.ranges == (FileRange("a", 0, 0, 6), FileRange("a", 1, 0, 6))
    table = pq.read_table(merged.path, partitioning=None)
    assert table.combine_chunks().to_batches()[0].equals(batch(*rows).select(STORED_NAMES))
