"""The list of a queue's compacted files: whole, or refused."""

import pytest

from zenitmq.model.errors import StoreFormatError
from zenitmq.store.compaction.compacted_manifest import ListedFile, Manifest

FILES = (ListedFile(0, 100, 2, 99, 3, 8, 1), ListedFile(4, 200, 1, 98, 9, 9, 0))
WHOLE = Manifest(FILES, 12, (4096, 80), 5, 1_700_000_000_000, 1)


def test_it_is_what_was_written() -> None:
    assert Manifest.decode(WHOLE.encode(), "m") == WHOLE
    assert Manifest.decode(Manifest().encode(), "m") == Manifest()
    assert (WHOLE.rows, WHOLE.record_bytes, WHOLE.tombstones) == (3, 300, 1)
    assert FILES[0].size_bytes == 100 + 2 * 72


def test_a_damaged_one_is_refused() -> None:
    data = WHOLE.encode()
    for at in range(len(data)):
        torn = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(StoreFormatError):
            Manifest.decode(torn, "m")
        with pytest.raises(StoreFormatError):
            Manifest.decode(data[:at], "m")


@pytest.mark.parametrize(
    "wrong",
    [
        Manifest(FILES[::-1], 12, (0, 0), 5),
        Manifest(FILES, 9, (0, 0), 5),
        Manifest(FILES, 12, (0, 0), 4),
        Manifest((ListedFile(0, 0, 2, 99, 3, 8, 1),), 12, (0, 0), 5),
        Manifest((ListedFile(0, 10, 0, 99, 3, 8, 1),), 12, (0, 0), 5),
    ],
)
def test_files_that_contradict_each_other_are_refused(wrong: Manifest) -> None:
    with pytest.raises(StoreFormatError):
        Manifest.decode(wrong.encode(), "m")
