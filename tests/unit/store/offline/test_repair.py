"""A closed store is repaired from a copy, step by step: only damaged ranges are written, and only with what checksums prove."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from store_kit import kill, make_store, message, put, read_queue

from zenitmq.store.integrity.quarantine import FACTS_FILE, note_quarantine
from zenitmq.store.offline import repair as module
from zenitmq.store.offline.offline import verify_store
from zenitmq.store.offline.repair import (
    DAMAGED_THERE,
    NO_COPY,
    NOT_THERE,
    OTHER_BYTES,
    UNVOUCHED,
    Copy,
    Repaired,
    repair_log,
)
from zenitmq.store.opening.snapshot import read_snapshot

SEGMENT_BYTES = 1 << 16
COUNT = 120


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A closed store of 120 messages, each an append; where each lies."""
    directory = tmp_path_factory.mktemp("written") / "s"
    with make_store(directory, segment_bytes=SEGMENT_BYTES) as store:
        places = [
            int(put(store, "t", 0, message("t", b"%06d" % n + b"b" * 1500, unique=f"{n:032X}")).physical_offset)
            for n in range(COUNT)
        ]
    return directory, places


@pytest.fixture
def two(written: tuple[Path, list[int]], tmp_path: Path) -> tuple[Path, Path]:
    """(a store, another replica's)."""
    for name in ("s", "other"):
        shutil.copytree(written[0], tmp_path / name)
    return tmp_path / "s", tmp_path / "other"


def path_of(directory: Path, place: int, folder: str = "commitlog") -> Path:
    return directory / folder / f"{place // SEGMENT_BYTES * SEGMENT_BYTES:020d}"


def spoil(directory: Path, place: int, at: int = 300, data: bytes = b"??") -> None:
    with open(path_of(directory, place), "r+b") as file:
        file.seek(place % SEGMENT_BYTES + at)
        file.write(data)


def files(directory: Path, folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / folder).rglob("*") if path.is_file()}


def repaired(directory: Path, other: Path | None = None, *, is_replica: bool = True, **more: Any) -> Repaired:
    copy = None if other is None else Copy(str(other), lambda _begin, _end: "", is_replica)
    return repair_log(str(directory), copy, report=lambda _done, _total: None, **more)


def quarantined(directory: Path) -> list[list[int]]:
    known = read_snapshot(str(directory / FACTS_FILE))
    assert known is not None
    found: list[list[int]] = known.document["quarantined"]
    return found


def bodies(directory: Path) -> list[int]:
    with make_store(directory, segment_bytes=SEGMENT_BYTES) as store:
        return [int(record.body[:6]) for record in read_queue(store, "t", 0)]


@pytest.mark.parametrize("at", [0, 4, 300], ids=["size", "magic", "body"])
def test_what_a_replica_has_comes_back_byte_for_byte(
    written: tuple[Path, list[int]], two: tuple[Path, Path], at: int
) -> None:
    directory, other = two
    places = written[1]
    for n in (0, 50, 51, COUNT - 1):
        spoil(directory, places[n], at, b"\xff\xff")
    told: list[tuple[int, int]] = []
    copy = Copy(str(other), lambda _begin, _end: "", is_replica=True)
    planned = repair_log(str(directory), copy, report=lambda *step: told.append(step), dry_run=True)
    assert verify_store(str(directory))["damaged"]
    done = repaired(directory, other)
    assert (done.copied, done.whole, done.left) == (planned.copied, [], [])
    assert [low for low, _ in done.copied] == [places[n] for n in (0, 50, 51, COUNT - 1)]
    assert told[-1][0] == told[-1][1]
    assert files(directory, "commitlog") == files(written[0], "commitlog")
    assert bodies(directory) == list(range(COUNT))
    assert repaired(directory) == Repaired()


def test_what_was_left_out_of_a_queue_comes_back_into_it(
    written: tuple[Path, list[int]], two: tuple[Path, Path]
) -> None:
    directory, other = two
    place, end = written[1][50:52]
    spoil(directory, place)
    shutil.rmtree(directory / "consumequeue")
    assert bodies(directory) == [n for n in range(COUNT) if n != 50]  # it begins anew, from a log with damage
    assert quarantined(directory) == [[place, end]]
    assert repaired(directory, other).copied == [(place, end)]
    assert quarantined(directory) == []
    assert bodies(directory) == list(range(COUNT))


def test_queues_in_rocksdb_get_back_what_was_left_out_too(tmp_path: Path) -> None:
    directory, other = tmp_path / "s", tmp_path / "other"
    settings = {"segment_bytes": SEGMENT_BYTES, "consume_queue": "rocksdb"}
    with make_store(directory, **settings) as store:
        placed = [put(store, "t", 0, message("t", b"%06d" % n + b"b" * 1500)) for n in range(9)]
    shutil.copytree(directory, other)
    spoil(directory, int(placed[4].physical_offset))
    shutil.rmtree(directory / "consumequeue")
    for expected in ([0, 1, 2, 3, 5, 6, 7, 8], list(range(9))):
        with make_store(directory, **settings) as store:
            assert [int(record.body[:6]) for record in read_queue(store, "t", 0)] == expected
        assert repaired(directory, other).left == []


def test_what_is_whole_again_leaves_the_quarantine(written: tuple[Path, list[int]], two: tuple[Path, Path]) -> None:
    directory, _ = two
    place, end, behind = written[1][50:53]
    note_quarantine(str(directory), [(place, end), (end, behind)], [(place, end)], COUNT)
    spoil(directory, end)
    done = repaired(directory)
    assert (done.whole, done.left) == ([(place, end)], [(end, behind, NO_COPY)])
    assert quarantined(directory) == [[end, behind]]


def test_a_damaged_unit_of_a_queue_is_rebuilt(two: tuple[Path, Path]) -> None:
    directory, _ = two
    (path,) = (path for path in (directory / "consumequeue" / "t" / "0").iterdir() if path.name.endswith("320"))
    whole = path.read_bytes()
    path.write_bytes(b"\x00" * 20 + whole[20:])
    assert repaired(directory, dry_run=True).units == 1
    assert repaired(directory).units == 1
    assert path.read_bytes() == whole
    assert repaired(directory).units == 0


def test_two_damaged_copies_repair_each_other(written: tuple[Path, list[int]], two: tuple[Path, Path]) -> None:
    directory, other = two
    place, end = written[1][50:52]
    spoil(directory, place, 300)
    spoil(other, place, 900)
    assert repaired(directory, other, is_replica=False).copied == [(place, end)]
    assert files(directory, "commitlog") == files(written[0], "commitlog")


def test_what_cannot_be_proven_stays_as_it_is_and_says_why(
    written: tuple[Path, list[int]], two: tuple[Path, Path]
) -> None:
    directory, other = two
    place, end = written[1][50:52]
    spoil(directory, place)
    before = files(directory, "commitlog")
    whole = path_of(other, place).read_bytes()
    spoil(other, place, 300, b"!!")
    reasons = [repaired(directory).left, repaired(directory, other).left]
    path_of(other, place).write_bytes(whole)
    differs = Copy(str(other), lambda _begin, _end: "written in another epoch", is_replica=True)
    reasons.append(repair_log(str(directory), differs, report=lambda _done, _total: None).left)
    for base in range(place // SEGMENT_BYTES * SEGMENT_BYTES, COUNT * 2000, SEGMENT_BYTES):
        for folder in ("commitlog", "checksum"):
            path_of(other, base, folder).unlink(missing_ok=True)
    reasons.append(repaired(directory, other).left)
    whys = (NO_COPY, DAMAGED_THERE, "written in another epoch", NOT_THERE)
    assert reasons == [[(place, end, why)] for why in whys]
    assert files(directory, "commitlog") == before


@pytest.mark.parametrize("is_replica", [True, False])
def test_without_checksums_here_only_a_replicas_are_proof(
    written: tuple[Path, list[int]], two: tuple[Path, Path], *, is_replica: bool
) -> None:
    directory, other = two
    place, end = written[1][50:52]
    spoil(directory, place)
    path_of(directory, place, "checksum").unlink()
    done = repaired(directory, other, is_replica=is_replica)
    if is_replica:
        assert done.copied == [(place, end)]
        assert files(directory, "commitlog") == files(written[0], "commitlog")
    else:
        assert done.left == [(place, end, OTHER_BYTES)]
    path_of(other, place, "checksum").unlink()
    spoil(directory, place)
    assert repaired(directory, other).left == [(place, end, UNVOUCHED)]


class Kills:
    """What a kill would leave before each write, and in the middle of it; a full disk fails the n-th."""

    def __init__(self, directory: Path, copies: Path) -> None:
        self.directory, self.root = directory, copies
        self.copies: list[Path] = []

    def keep(self) -> None:
        self.copies.append(kill(self.directory, self.root / str(len(self.copies))))

    def write_fully(self, fd: int, data: bytes, at: int) -> None:
        self.keep()
        os.pwrite(fd, data[: len(data) // 2], at)
        self.keep()
        os.pwrite(fd, data, at)
        self.keep()


def test_a_kill_anywhere_leaves_what_a_repetition_repairs(
    written: tuple[Path, list[int]], two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, other = two
    places = written[1]
    for n in (50, 80):
        spoil(directory, places[n], 0, b"\xff" * 1500)
    shutil.rmtree(directory / "consumequeue")
    assert len(bodies(directory)) == COUNT - 2
    kills = Kills(directory, tmp_path / "kills")
    (tmp_path / "kills").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(module, "write_fully", kills.write_fully)
        for name in ("_fill_queues", "_lift"):
            step = getattr(module, name)

            def watched(*given: Any, step: Any = step) -> None:
                kills.keep()
                step(*given)

            patched.setattr(module, name, watched)
        repaired(directory, other)
    assert len(kills.copies) == 8
    for copy in kills.copies:
        assert repaired(copy, other).left == []
        assert quarantined(copy) == []
        assert files(copy, "commitlog") == files(directory, "commitlog")
        assert files(copy, "consumequeue") == files(directory, "consumequeue")
    assert bodies(kills.copies[-1]) == list(range(COUNT))


def test_a_full_disk_is_told_and_the_range_stays_known(
    written: tuple[Path, list[int]], two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, other = two
    place, end = written[1][50:52]
    spoil(directory, place)
    note_quarantine(str(directory), [(place, end)], [(place, end)], COUNT)

    def full(_fd: int, _data: bytes, _at: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_fully", full)
        with pytest.raises(OSError, match="No space"):
            repaired(directory, other)
    assert quarantined(directory) == [[place, end]]
    assert repaired(directory, other).left == []
