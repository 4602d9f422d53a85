"""`zenit store dump`: which records it prints, and how it tells damage."""

import json
from pathlib import Path

import pytest
import typer
from store_kit import make_store, message, put
from typer.testing import CliRunner

from zenitmq.cli.commands import store

SEGMENT_BYTES = 1 << 16
COUNT = 40


@pytest.fixture
def places(tmp_path):
    """A store of 40 messages in two queues; [the physical offset of each]."""
    with make_store(tmp_path / "s", segment_bytes=SEGMENT_BYTES) as opened:
        for n in range(COUNT):
            put(opened, "t", n % 2, message("t", b"%06d" % n + b"b" * 1500))
        return [opened._queues.get("t", n % 2).unit(n // 2)[0] for n in range(COUNT)]


def spoil(directory: Path, place: int, at: int, data: bytes = b"?") -> None:
    path = directory / "s" / "commitlog" / f"{place // SEGMENT_BYTES * SEGMENT_BYTES:020d}"
    with open(path, "r+b") as file:
        file.seek(place % SEGMENT_BYTES + at)
        file.write(data)


def dumped(*arguments: str) -> tuple[int, list[dict], str]:
    app = typer.Typer()
    store.register(app)
    result = CliRunner().invoke(app, ["store", "dump", *arguments])
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def test_the_command_prints_one_queue_by_its_offsets_or_by_bytes(tmp_path, places) -> None:
    directory = str(tmp_path / "s")
    code, rows, told = dumped(directory, "--topic", "t", "--queue", "1", "--from", "3", "--until", "6")
    assert (code, told) == (0, "")
    assert [(row["queue_id"], row["queue_offset"]) for row in rows] == [(1, 3), (1, 4), (1, 5)]
    code, rows, _ = dumped(
        directory, "--topic", "t", "--queue", "1", "--physical", "--from", str(places[3]), "--until", str(places[9])
    )
    assert [row["queue_offset"] for row in rows] == [1, 2, 3]
    assert dumped(directory, "--topic", "other")[:2] == (0, [])
    assert len(dumped(directory, "--max", "7")[1]) == 7
    assert dumped(directory, "--queue", "1")[0] == 2


def test_the_command_exits_1_names_the_range_and_still_shows_what_it_holds(tmp_path, places) -> None:
    spoil(tmp_path, places[4], 300)
    spoil(tmp_path, places[7], 0, b"\xff")
    code, rows, told = dumped(str(tmp_path / "s"))
    assert code == 1
    assert told.splitlines() == [
        f"zenit: damaged: bytes [{places[n]}, {places[n + 1]}) of the log: no valid record" for n in (4, 7)
    ]
    assert [row["queue_offset"] for row in rows if "damaged" in row] == [2]
    assert len(rows) == COUNT - 1


def test_beside_a_broker_it_says_so(tmp_path) -> None:
    with make_store(tmp_path / "s", segment_bytes=SEGMENT_BYTES) as opened:
        put(opened, "t", 0, message("t", b"1"))
        code, rows, told = dumped(str(tmp_path / "s"))
    assert (code, len(rows)) == (0, 1)
    assert (
        told == f"zenit: a broker runs on {tmp_path / 's'}: its log is read up to where it is known to be whole now\n"
    )
