"""`zenit store export`: every message that a queue has, once, and never a file that looks whole but is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from store_kit import StillClock, kill, make_store, message, put, read_queue, unpack_golden
from typer.testing import CliRunner

from zenitmq.cli.commands import store as store_command
from zenitmq.model.export_line import ExportedMessage, decode_head, decode_line
from zenitmq.store.offline.export import Selection, export_store, exported_message

SEGMENT_BYTES = 1 << 16
COUNT = 120


class Kept:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.messages: list[ExportedMessage] = []
        self.counts: dict[str, int] | None = None

    def write(self, message: ExportedMessage) -> None:
        self.messages.append(message)

    def end(self, counts: dict[str, int]) -> None:
        self.counts = counts


def exported(directory: Path, **selection) -> Kept:
    kept = Kept()
    export_store(
        str(directory),
        kept,
        Selection(**selection),
        on_damage=lambda low, high, reason: None,
        report=lambda done, total: None,
    )
    return kept


def run(*arguments: str):
    app = typer.Typer()
    store_command.register(app)
    return CliRunner().invoke(app, ["store", "export", *arguments])


@pytest.fixture
def store(tmp_path) -> Path:
    clock = StillClock()
    with make_store(tmp_path / "s", clock, segment_bytes=SEGMENT_BYTES) as opened:
        for n in range(COUNT):
            topic = "rmq_sys_own" if n % 10 == 9 else "t" if n % 2 else "u"
            put(opened, topic, n % 3, message(topic, b"%06d" % n + b"b" * 1500, tags="x", keys=f"k{n}"))
            clock.time_ms += 10
    return tmp_path / "s"


def numbers(kept: Kept) -> list[int]:
    return [int(one.body[:6]) for one in kept.messages]


def test_every_message_of_a_queue_in_the_order_of_the_log(store: Path) -> None:
    assert numbers(exported(store)) == [n for n in range(COUNT) if n % 10 != 9]
    assert numbers(exported(store, with_system=True)) == list(range(COUNT))
    assert numbers(exported(store, topics=frozenset({"t"}))) == [n for n in range(1, COUNT, 2) if n % 10 != 9]
    assert numbers(exported(store, topics=frozenset({"rmq_sys_own"}))) == list(range(9, COUNT, 10))
    begin = StillClock().time_ms
    found = exported(store, with_system=True, begin_ms=begin + 100, end_ms=begin + 200)
    assert numbers(found) == list(range(10, 20))


def test_a_topic_that_was_made_again_has_only_its_new_messages(tmp_path) -> None:
    with make_store(tmp_path / "s") as opened:
        for n in range(5):
            put(opened, "t", 0, message("t", b"%06d" % n))
        opened._queues.delete_topic("t")
        for n in range(5, 8):
            put(opened, "t", 0, message("t", b"%06d" % n))
    found = exported(tmp_path / "s")
    assert found.counts is not None
    assert found.counts["in_no_queue"] in (0, 5)
    with make_store(tmp_path / "s") as opened:
        assert numbers(found) == [int(one.body[:6]) for one in read_queue(opened, "t", 0)]


def test_what_a_killed_broker_had_not_told_its_queues_is_exported(tmp_path) -> None:
    with make_store(tmp_path / "s") as opened:
        for n in range(20):
            put(opened, "t", 0, message("t", b"%06d" % n))
        opened.flush_all(20_000)
        copy = kill(tmp_path / "s", tmp_path / "killed")
    queue = copy / "consumequeue" / "t" / "0"
    last = max(queue.iterdir())
    data = bytearray(last.read_bytes())
    data[3 * 20 :] = bytes(len(data) - 3 * 20)
    last.write_bytes(data)
    assert numbers(exported(copy)) == list(range(20))


@pytest.mark.parametrize("name", ["file-clean", "file-killed"])
def test_rocketmqs_stores(tmp_path, name: str) -> None:
    golden = unpack_golden(name, tmp_path)
    lines = [json.loads(line) for line in (golden.parent / "expected.jsonl").read_text().splitlines()]
    expected = {(line["queue_id"], line["queue_offset"]): line for line in lines if line["topic"] == "trades"}
    found = {(one.queue_id, one.queue_offset): one for one in exported(golden, topics=frozenset({"trades"})).messages}
    assert found.keys() >= expected.keys()
    for place, line in expected.items():
        assert found[place].body == bytes.fromhex(line["body"])
        assert found[place].message_id == line["msg_id"]


def test_the_file_holds_what_the_store_holds(store: Path, tmp_path) -> None:
    target = tmp_path / "out.jsonl"
    result = run(str(store), "--to", str(target), "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    lines = target.read_bytes().splitlines(keepends=True)
    assert decode_head(lines[0]) == {}
    assert [decode_line(line) for line in lines[1:-1]] == exported(store).messages
    counts = decode_line(lines[-1])
    assert document == {"file": str(target), **counts}
    assert counts["messages"] == len(lines) - 2
    assert sorted(os.listdir(tmp_path)) == ["out.jsonl", "s"]


def test_a_table_holds_the_same(store: Path, tmp_path) -> None:
    import pyarrow.parquet as pq

    target = tmp_path / "out.parquet"
    assert run(str(store), "--to", str(target)).exit_code == 0
    table = pq.read_table(target)
    messages = exported(store).messages
    assert table.num_rows == len(messages)
    for name in ("topic", "queue_id", "queue_offset", "physical_offset", "body", "born_at_ms", "stored_at_ms"):
        assert table.column(name).to_pylist() == [getattr(one, name) for one in messages]
    assert table.column("properties_stored").to_pylist() == [one.properties for one in messages]
    assert dict(table.column("properties").to_pylist()[3])["KEYS"] == table.column("keys").to_pylist()[3][0]
    facts = pq.ParquetFile(target).metadata.metadata
    assert json.loads(facts[b"zenit_export_end"])["messages"] == len(messages)
    assert json.loads(facts[b"zenit_export"]) == {"version": 1, "topics": {}}


def test_damage_is_told_counted_and_left_out(store: Path, tmp_path) -> None:
    place = exported(store).messages[50].physical_offset
    with open(store / "commitlog" / f"{place // SEGMENT_BYTES * SEGMENT_BYTES:020d}", "r+b") as file:
        file.seek(place % SEGMENT_BYTES + 300)
        file.write(b"?")
    target = tmp_path / "out.jsonl"
    result = run(str(store), "--to", str(target))
    assert result.exit_code == 1
    assert f"zenit: damaged: bytes [{place}, " in result.stderr
    assert "1 damaged range" in result.stdout
    lines = target.read_bytes().splitlines(keepends=True)
    assert decode_line(lines[-1])["damaged_ranges"] == 1
    assert len(lines) - 2 == COUNT * 9 // 10 - 1


def test_wrong_usage(store: Path, tmp_path) -> None:
    (tmp_path / "is there.jsonl").write_text("mine")
    assert run(str(store), "--to", "x.csv").exit_code == 2
    assert run(str(store), "--to", "x.jsonl", "--topic", "t", "--system").exit_code == 2
    assert run(str(store), "--to", "x.jsonl", "--from", "soon").exit_code == 2
    assert run(str(store), "--to", str(tmp_path / "is there.jsonl")).exit_code != 0
    assert (tmp_path / "is there.jsonl").read_text() == "mine"


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_full_disk_leaves_no_file(store: Path, tmp_path, name: str) -> None:
    """A limit of the size of files stands for it: the write fails after a part of the data."""
    program = (
        "import resource, signal, sys\n"
        "sys.dont_write_bytecode = True\n"  # what it wrote of a module would be cut, and no later process could read it
        "from zenitmq.cli.main import run\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        f"sys.argv[1:] = ['store', 'export', {str(store)!r}, '--to', {str(tmp_path / name)!r}]\n"
        "run()\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert os.listdir(tmp_path) == ["s"]


def test_a_kill_leaves_no_file_that_looks_whole_and_the_next_try_makes_it(store: Path, tmp_path) -> None:
    program = (
        "import os, signal, sys\n"
        "from zenitmq.store.offline.export_file import LineWriter\n"
        "LineWriter.end = lambda self, counts: (self._file.flush(), os.kill(os.getpid(), signal.SIGKILL))\n"
        "from zenitmq.cli.main import run\n"
        f"sys.argv[1:] = ['store', 'export', {str(store)!r}, '--to', {str(tmp_path / 'out.jsonl')!r}]\n"
        "run()\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert result.returncode == -signal.SIGKILL
    assert sorted(os.listdir(tmp_path)) == ["out.jsonl.partial", "s"]
    last = (tmp_path / "out.jsonl.partial").read_bytes().splitlines(keepends=True)[-1]
    assert isinstance(decode_line(last), ExportedMessage)
    assert run(str(store), "--to", str(tmp_path / "out.jsonl")).exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["out.jsonl", "s"]


def test_a_compressed_body_is_exported_plain(tmp_path) -> None:
    import zlib

    from zenitmq.record.kernel import decode_record, encode_record

    plain = b"a" * 9000
    record = encode_record(topic=b"t", body=zlib.compress(plain), properties=b"", sys_flag=1, born_timestamp_ms=1)
    assert exported_message(decode_record(record)).body == plain
