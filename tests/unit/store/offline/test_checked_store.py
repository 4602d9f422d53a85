"""Records between damage: each damaged range comes where it lies, and every other record comes once."""

from pathlib import Path

import pytest
from store_kit import make_store, message, put

from zenitmq.store.offline import offline_log
from zenitmq.store.offline.offline import checked_store, verify_store
from zenitmq.store.offline.offline_log import DamagedRange

SEGMENT_BYTES = 1 << 16
COUNT = 120


@pytest.fixture
def places(tmp_path):
    """A store of 120 messages in two queues; [the physical offset of each]."""
    with make_store(tmp_path / "s", segment_bytes=SEGMENT_BYTES) as store:
        for n in range(COUNT):
            put(store, "t", n % 2, message("t", b"%06d" % n + b"b" * 1500))
        return [store._queues.get("t", n % 2).unit(n // 2)[0] for n in range(COUNT)]


def spoil(directory: Path, place: int, at: int, data: bytes = b"?") -> None:
    path = directory / "s" / "commitlog" / f"{place // SEGMENT_BYTES * SEGMENT_BYTES:020d}"
    with open(path, "r+b") as file:
        file.seek(place % SEGMENT_BYTES + at)
        file.write(data)


@pytest.mark.parametrize("read_bytes", [700, 20_000, 8 << 20])
@pytest.mark.parametrize("at", [0, 4, 300], ids=["size", "magic", "body"])
@pytest.mark.parametrize("spoiled", [(0,), (50,), (50, 51), (COUNT - 1,), range(COUNT)])
def test_every_whole_record_comes_once_and_all_damage_is_told(
    tmp_path, places, monkeypatch, spoiled, at: int, read_bytes: int
) -> None:
    monkeypatch.setattr(offline_log, "READ_BYTES", read_bytes)
    for n in spoiled:
        spoil(tmp_path, places[n], at, b"\xff")
    pieces = list(checked_store(str(tmp_path / "s")))
    whole = [int(piece.body[:6]) for piece in pieces if not isinstance(piece, DamagedRange)]
    assert whole == [n for n in range(COUNT) if n not in spoiled]
    begins = [piece.begin if isinstance(piece, DamagedRange) else piece.physical_offset for piece in pieces]
    assert begins == sorted(begins)
    damage = [piece for piece in pieces if isinstance(piece, DamagedRange)]
    assert all(any(one.begin <= places[n] < one.end for one in damage) for n in spoiled)
    told = [(found["begin"], found["end"]) for found in verify_store(str(tmp_path / "s"))["damaged"]]
    assert sum(one.end - one.begin for one in damage) == sum(high - low for low, high in told)


@pytest.mark.parametrize("begin", [0, 1, 49, 50, 51, 100])
def test_a_part_of_the_log_holds_the_records_that_begin_in_it(tmp_path, places, begin: int) -> None:
    low, high = places[begin], places[begin + 10]
    for first, expected in ((low, begin), (low + 1, begin + 1)):
        found = [int(piece.body[:6]) for piece in checked_store(str(tmp_path / "s"), first, high)]
        assert found == list(range(expected, begin + 10))


def test_without_checksums_the_records_tell_alone(tmp_path, places) -> None:
    for path in (tmp_path / "s" / "checksum").iterdir():
        path.unlink()
    spoil(tmp_path, places[50], 300)
    pieces = list(checked_store(str(tmp_path / "s"), places[45], places[55]))
    assert [int(piece.body[:6]) for piece in pieces if not isinstance(piece, DamagedRange)] == [
        n for n in range(45, 55) if n != 50
    ]
    assert [piece.begin for piece in pieces if isinstance(piece, DamagedRange)] == [places[50]]
