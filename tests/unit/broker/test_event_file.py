"""A broker's events in its directory: kept over restarts, bounded, and never the end of anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zenitmq.broker.event_file import FOLDER, EventFile
from zenitmq.model.events.event import Event
from zenitmq.model.events.table import LOG_CUT, ROLE_CHANGED


def role(epoch: int, at_ms: int | None = None) -> Event:
    return Event(ROLE_CHANGED, epoch if at_ms is None else at_ms, (("epoch", epoch), ("replica_role", "slave")))


def epochs(file: EventFile, since_ms: int = 0) -> list[object]:
    return [event["epoch"] for event in file.document(since_ms)["events"]]


def event_file(path: Path, file_bytes: int = 1000) -> EventFile:
    return EventFile(str(path), node="a", group="g", file_bytes=file_bytes)


def test_the_next_process_has_them_and_knows_whose_they_are(tmp_path: Path) -> None:
    first = event_file(tmp_path)
    assert not first.document(0)["events"]
    first.keep(role(1))
    first.keep(role(2))
    again = event_file(tmp_path)
    again.keep(role(3))
    assert epochs(again) == [1, 2, 3]
    assert epochs(again, since_ms=2) == [2, 3]
    (event, *_) = again.document(0)["events"]
    assert (event["role"], event["node"], event["group"]) == ("broker", "a", "g")


def test_two_files_by_turns_hold_the_newest(tmp_path: Path) -> None:
    file = event_file(tmp_path)
    for epoch in range(100):
        file.keep(role(epoch))
        sizes = [path.stat().st_size for path in (tmp_path / FOLDER).iterdir()]
        assert max(sizes) <= 1000
    assert epochs(file) == list(range(100))
    left = epochs(event_file(tmp_path))
    assert left == list(range(100 - len(left), 100))
    assert len(left) > 5


def test_torn_lines_are_passed_over(tmp_path: Path) -> None:
    file = event_file(tmp_path)
    file.keep(role(1))
    with open(tmp_path / FOLDER / "1.jsonl", "ab") as torn:
        torn.write(b'\xff\n[]\n{"ts": "2026')
    again = event_file(tmp_path)
    again.keep(Event(LOG_CUT, 9, (("epoch", 2), ("offset", 7))))
    assert epochs(again) == [1, 2]


def test_a_disk_that_takes_none_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FOLDER).write_text("in the way")
    file = event_file(tmp_path)
    file.keep(role(1))
    file.keep(role(2))
    assert epochs(file) == [1, 2]
    assert caplog.text.count("events cannot be written") == 1
    os.unlink(tmp_path / FOLDER)
    file.keep(role(3))
    assert epochs(event_file(tmp_path)) == [3]
