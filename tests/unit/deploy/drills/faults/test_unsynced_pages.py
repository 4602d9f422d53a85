"""What a loss of power leaves of pages: each as it was at some moment, whatever became of those before it."""

from __future__ import annotations

import random

import pytest

from zenitmq.deploy.drills.faults.unsynced_pages import PAGE_BYTES, UndoRecord, keeps_its_size, pages_taken_back

SIZE = 4 * PAGE_BYTES


class File:
    """A file of four pages whose writes are remembered; `moments`: each page as it was after each write."""

    def __init__(self) -> None:
        self.data = bytearray(SIZE)
        self.records: list[UndoRecord] = []
        self.moments = [{bytes(PAGE_BYTES)} for _ in range(4)]

    def write(self, offset: int, data: bytes) -> None:
        old = bytes(self.data[offset : offset + len(data)])
        self.records.append((offset, len(data), SIZE, old if any(old) else b""))
        self.data[offset : offset + len(data)] = data
        for page, seen in enumerate(self.moments):
            seen.add(self.page(page))

    def page(self, number: int) -> bytes:
        return bytes(self.data[number * PAGE_BYTES : (number + 1) * PAGE_BYTES])

    def cut(self, seed: int) -> None:
        for offset, data in pages_taken_back(self.records, random.Random(seed)):
            self.data[offset : offset + len(data)] = data


@pytest.mark.parametrize("seed", range(30))
def test_each_page_is_as_it_was_at_some_moment(seed: int) -> None:
    file, chance = File(), random.Random(seed)
    at = 0
    while at < SIZE:  # appends, with one page written over now and then
        data = bytes([chance.randint(1, 255)]) * min(chance.randint(1, 3000), SIZE - at)
        file.write(at, data)
        at += len(data)
        if chance.random() < 0.3:
            file.write(chance.randrange(at), b"over")
    file.cut(seed)
    assert len(file.data) == SIZE
    assert all(file.page(number) in file.moments[number] for number in range(4))


def test_an_earlier_page_is_lost_and_a_later_one_kept() -> None:
    holes = 0
    for seed in range(50):
        file = File()
        for page in range(4):
            file.write(page * PAGE_BYTES, b"x" * PAGE_BYTES)
        file.cut(seed)
        kept = [file.data[page * PAGE_BYTES] != 0 for page in range(4)]
        holes += kept != sorted(kept, reverse=True)
    assert holes > 10


def test_a_file_that_grew_is_none_whose_pages_are_on_their_own() -> None:
    assert keeps_its_size([(0, 10, 100, b""), (50, 10, 100, b"")], 100)
    assert not keeps_its_size([(0, 10, 100, b""), (95, 10, 100, b"")], 105)
    assert not keeps_its_size([(0, 10, 100, b"")], 50)
