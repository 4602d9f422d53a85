"""Reading an export: wrong lines are refused by their number, and a file that was cut anywhere never looks whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.model.test_export_line import LINE, PLAIN

from zenitmq.model.errors import StoreFormatError
from zenitmq.model.export_line import encode_end, encode_head
from zenitmq.store.offline.export_file import read_export

WHOLE = encode_head({"orders": {"queues": 4}}) + LINE + LINE + encode_end({"messages": 2})


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "x.jsonl"
    path.write_bytes(WHOLE)
    return path


def test_head_and_messages_come_with_their_lines(file: Path) -> None:
    assert list(read_export(str(file))) == [(1, {"orders": {"queues": 4}}), (2, PLAIN), (3, PLAIN)]


def test_cut_at_any_byte_it_is_refused(file: Path) -> None:
    for size in range(len(WHOLE)):
        file.write_bytes(WHOLE[:size])
        with pytest.raises(StoreFormatError, match=r"line \d"):
            list(read_export(str(file)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (WHOLE.replace(b'"queue_id":3', b'"queue_id":"3"', 1), "line 2: queue_id"),
        (encode_head({}) + LINE + encode_end({"messages": 2}), "line 3: it ends 1 messages"),
        (encode_head({}) + LINE + LINE[:-1] + b"x\n" + encode_end({"messages": 2}), "line 3: it is no JSON"),
        (WHOLE + LINE, "line 5: the export ends before it"),
        (LINE + WHOLE, "line 1: it does not begin an export"),
        (b"", "it was cut"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(file: Path, data: bytes, reason: str) -> None:
    file.write_bytes(data)
    with pytest.raises(StoreFormatError, match=reason):
        list(read_export(str(file)))


def test_a_line_of_a_gibibyte_is_refused_without_being_read(tmp_path) -> None:
    path = tmp_path / "x.jsonl"
    with open(path, "wb") as sparse:
        sparse.write(encode_head({}))
        sparse.truncate(1 << 30)
    with pytest.raises(StoreFormatError, match="line 2: it is longer than 1048576 bytes"):
        list(read_export(str(path), 1 << 20))
