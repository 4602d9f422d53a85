"""What a log that begins elsewhere than at 0 must know: as a document, and as a note that a start carries out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from zenitmq.broker.group.epoch_file import read_epochs
from zenitmq.broker.group.store_directory import DirectoryOnDisk
from zenitmq.broker.replication.beginning import (
    FILE_NAME,
    Beginning,
    beginning_document,
    carry_out_beginning,
    note_beginning,
    parse_beginning,
)
from zenitmq.broker.replication.epochs import EpochList
from zenitmq.model.errors import RemoteProtocolError, StoreFormatError
from zenitmq.store.config import StoreConfig
from zenitmq.store.opening.snapshot import write_snapshot
from zenitmq.store.opening.store_opening import find_segment_bytes

SEGMENT_BYTES = 1 << 20
CONFIG = StoreConfig(segment_bytes=3 * SEGMENT_BYTES)


def beginning(directory: Path) -> Beginning:
    path = directory / "topics.json"
    write_snapshot(str(path), {"topicConfigTable": {}}, SEGMENT_BYTES + 5)
    rows = EpochList.of([(1, 0), (3, SEGMENT_BYTES - 7)])
    return Beginning(SEGMENT_BYTES, SEGMENT_BYTES, rows, {"topics.json": path.read_bytes()}, {("t", 0): 17})


def test_a_document_says_it_all(tmp_path: Path) -> None:
    whole = beginning(tmp_path)
    assert parse_beginning(json.dumps(beginning_document(whole)).encode()) == whole


GOOD: dict[str, Any] = {"begin": 0, "segment_bytes": 4096, "epochs": [[1, 0]], "snapshots": {}, "queue_minimums": []}


def test_the_others_are_wrong_by_what_is_wrong_in_them() -> None:
    assert parse_beginning(json.dumps(GOOD).encode()).begin == 0


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {},
        {**GOOD, "begin": "x"},
        {**GOOD, "begin": 4095},
        {**GOOD, "begin": -4096},
        {**GOOD, "segment_bytes": 0},
        {**GOOD, "segment_bytes": 1 << 40},
        {**GOOD, "epochs": [[2, 0], [1, 0]]},
        {**GOOD, "epochs": [[1, 1]]},
        {**GOOD, "epochs": [[1, -1]]},
        {**GOOD, "snapshots": {"../a.json": ""}},
        {**GOOD, "snapshots": {"topics.json": "e30="}},
        {**GOOD, "queue_minimums": [["../t", 0, 1]]},
        {**GOOD, "queue_minimums": [["t", 0, -1 - (1 << 62)]]},
        {**GOOD, "epochs": [[1]]},
        {**GOOD, "epochs": 7},
        {**GOOD, "snapshots": {"a.json": "%%%"}},
        {**GOOD, "snapshots": []},
        {**GOOD, "queue_minimums": [["t", 0]]},
        {**GOOD, "queue_minimums": None},
    ],
)
def test_whatever_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_beginning(json.dumps(wrong).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"begin": Infinity, "epochs": [], "snapshots": {}, "queue_minimums": []}',
    ],
)
def test_bytes_that_are_no_document_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_beginning(data)


def test_a_start_carries_a_note_out_once(tmp_path: Path) -> None:
    """However often it is cut short: as long as the note lies there, the next start does all of it again."""
    store = tmp_path / "store"
    store.mkdir()
    whole = beginning(tmp_path)
    assert not carry_out_beginning(DirectoryOnDisk(str(store), CONFIG))
    for _ in range(2):
        note_beginning(DirectoryOnDisk(str(store), CONFIG), whole)
        assert carry_out_beginning(DirectoryOnDisk(str(store), CONFIG))
        assert not carry_out_beginning(DirectoryOnDisk(str(store), CONFIG))
    assert EpochList(read_epochs(str(store))) == whole.epochs
    assert find_segment_bytes(str(store)) == SEGMENT_BYTES, "the master's, whatever the settings of this broker say"
    assert sorted(os.listdir(store / "commitlog")) == [f"{SEGMENT_BYTES:020d}"]
    assert (store / "config" / "topics.json").read_bytes() == whole.snapshots["topics.json"]


def test_a_damaged_note_is_not_guessed(tmp_path: Path) -> None:
    note_beginning(DirectoryOnDisk(str(tmp_path), CONFIG), beginning(tmp_path))
    note = tmp_path / FILE_NAME
    note.write_bytes(note.read_bytes()[:-2])
    with pytest.raises(StoreFormatError):
        carry_out_beginning(DirectoryOnDisk(str(tmp_path), CONFIG))
