"""`zenit store stats`: what it counts is what the store's records say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer
from store_kit import StillClock, kill, make_store, message, put, unpack_golden
from typer.testing import CliRunner

from zenitmq.broker.repair.stored_state import store_statistics
from zenitmq.broker.state.offset_table import OffsetTable
from zenitmq.broker.state.producer_table import ProducerTable
from zenitmq.broker.state.state_log import GROUPS, OFFSETS, StateLog
from zenitmq.cli.commands import store as store_command
from zenitmq.store.offline.offline import dump_store

COUNT = 90


def fill(directory: Path, clock: StillClock) -> None:
    """Messages in three queues of two topics; a group that commits, and one that is deleted; then copied as if killed."""
    producers = ProducerTable(retention_ms=1 << 40, entries_max=100)
    state = StateLog(str(directory), clock=clock, persist_interval_ms=1 << 40, producers=producers)
    with make_store(directory, clock, dispatchers=(state,), segment_bytes=1 << 16) as opened:
        for n in range(COUNT):
            put(opened, "t" if n % 3 else "u", n % 3, message("t" if n % 3 else "u", b"%06d" % n + b"b" * 10 * n))
            clock.time_ms += 10
        for event in (
            OffsetTable.event_committed("g", [("t", 1, 7, -1), ("u", 0, 3, -1)]),
            OffsetTable.event_committed("gone", [("t", 1, 9, -1)]),
            OffsetTable.event_committed("g", [("t", 1, 20, -1)]),
        ):
            state.stage(opened, OFFSETS, event)
            opened.commit()
        state.stage(opened, GROUPS, state.group_table.event_deleted("gone"))
        opened.commit()
        opened.flush_all(20_000)
        kill(directory, directory.parent / "killed")


@pytest.fixture(params=["s", "killed"])
def store(request, tmp_path) -> Path:
    fill(tmp_path / "s", StillClock())
    return tmp_path / request.param


def counted(directory: Path) -> dict[tuple[str, int], tuple[int, int]]:
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for record in dump_store(str(directory)):
        count, size = found.get((record.topic, record.queue_id), (0, 0))
        found[record.topic, record.queue_id] = count + 1, size + record.size_bytes
    return found


def told(document: dict) -> dict[tuple[str, int], tuple[int, int]]:
    return {
        (topic, int(queue_id)): (queue["messages"], queue["bytes"])
        for topic, entry in document["topics"].items()
        for queue_id, queue in entry["queues"].items()
    }


def test_messages_and_bytes_are_those_of_the_records(store: Path) -> None:
    document = store_statistics(str(store))
    assert told(document) == counted(store)
    assert document["queues"]["messages"] == sum(count for count, _ in counted(store).values())
    records = list(dump_store(str(store)))
    assert document["log"]["first_stored_at_ms"] == records[0].stored_at_ms
    assert document["log"]["last_stored_at_ms"] == records[-1].stored_at_ms
    files = [path for path in (store / "commitlog").iterdir() if path.is_file()]
    assert (document["log"]["files"], document["log"]["bytes"]) == (
        len(files),
        sum(path.stat().st_size for path in files),
    )


def test_offsets_are_those_of_the_log_whatever_the_snapshots_hold(store: Path) -> None:
    document = store_statistics(str(store))
    assert document["groups"] == {"g": {"t": {"1": 20}, "u": {"0": 3}}}
    assert document["state_is_whole"]
    shutil.rmtree(store / "config")
    assert store_statistics(str(store))["groups"] == document["groups"]


def test_nothing_is_written(store: Path) -> None:
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in store.rglob("*")}
    store_statistics(str(store))
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in store.rglob("*")}


def test_damage_behind_the_snapshots_is_told(store: Path) -> None:
    shutil.rmtree(store / "config")
    path = store / "commitlog" / f"{0:020d}"
    with open(path, "r+b") as file:
        file.seek(300)
        file.write(b"\xff\xff")
    document = store_statistics(str(store))
    assert not document["state_is_whole"]
    assert document["groups"]["g"] == {"t": {"1": 20}, "u": {"0": 3}}


def test_a_store_in_use_says_so(tmp_path) -> None:
    clock = StillClock()
    with make_store(tmp_path / "s", clock) as opened:
        put(opened, "t", 0, message("t", b"x"))
        assert store_statistics(str(tmp_path / "s"))["in_use"]
    assert not store_statistics(str(tmp_path / "s"))["in_use"]


def test_an_empty_store_has_no_times(tmp_path) -> None:
    with make_store(tmp_path / "s"):
        pass
    document = store_statistics(str(tmp_path / "s"))
    assert (document["log"]["first_stored_at_ms"], document["log"]["last_stored_at_ms"]) == (None, None)
    assert document["topics"] == document["groups"] == {}


@pytest.mark.parametrize("name", ["file-clean", "file-killed"])
def test_rocketmqs_stores(tmp_path, name: str) -> None:
    golden = unpack_golden(name, tmp_path)
    document = store_statistics(str(golden))
    records = {key: count for key, count in counted(golden).items() if key in told(document)}
    assert {key: count for key, count in told(document).items() if count[0]} == records
    assert "desk" in document["groups"]


def test_the_command(store: Path) -> None:
    app = typer.Typer()
    store_command.register(app)
    result = CliRunner().invoke(app, ["store", "stats", str(store)])
    assert result.exit_code == 0
    assert "log.last_stored_at_ms" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["g", "t", "1", "20"] in rows
    as_json = json.loads(CliRunner().invoke(app, ["store", "stats", str(store), "--json"]).stdout)
    assert as_json == json.loads(json.dumps(store_statistics(str(store))))
