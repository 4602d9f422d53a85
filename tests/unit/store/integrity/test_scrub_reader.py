"""Reading the log beside those who use it: the right bytes, few pages, and nothing of a segment that has gone."""

from __future__ import annotations

import errno
import os

import pytest
from store_kit import make_store, message, put

from zenitmq.model.errors import OffsetOutOfRange
from zenitmq.store.integrity.scrub_reader import ScrubReader, check_log

SEGMENT = 4096


@pytest.fixture
def store(tmp_path):
    with make_store(tmp_path / "s", retention_ms=1) as store:
        for number in range(40):
            put(store, "t", 0, message("t", b"%04d" % number * 50))
        store.flush_all(20_000)
        yield store


def test_it_reads_what_the_log_holds_and_checks_it(store) -> None:
    for segment in store._log.segments()[:-1]:
        with ScrubReader(store._log, segment.base_offset + 5) as reader:
            assert reader.read(segment.base_offset, segment.end_offset) == bytes(segment.map)
    checked = check_log(store._log, store.log_checker(), 0, bytes_max=1 << 20, limit=store.flushed)
    assert (checked.end, checked.damaged) == (SEGMENT, ())
    assert checked.read_bytes == checked.vouched_bytes > 0


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the platform does not say what lies in memory")
def test_only_what_came_from_the_disk_is_dropped_from_memory(store, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _fd, at, size, _advice: dropped.append((at, size)))

    real = os.preadv

    def preadv(fd: int, buffers: list[bytearray], at: int, _flags: int) -> int:
        if at >= 1000:
            raise BlockingIOError(errno.EAGAIN, "not in memory")
        return real(fd, buffers, at)

    monkeypatch.setattr(os, "preadv", preadv)
    whole = bytes(store._log.segments()[0].map)
    with ScrubReader(store._log, 0) as reader:
        assert reader.read(0, 100) + reader.read(1000, 1200) == whole[:100] + whole[1000:1200]
        assert dropped == []
    assert dropped == [(1000, 200)]


def test_what_the_file_does_not_have_is_an_error_of_the_disk(store) -> None:
    with ScrubReader(store._log, 0) as reader, pytest.raises(OSError, match="the file ends"):
        reader.read(SEGMENT - 10, SEGMENT + 10)


def test_a_segment_that_has_gone_is_out_of_range(store) -> None:
    held = store._log.segments()
    store._log.remove_before(SEGMENT)
    with pytest.raises(OffsetOutOfRange):
        ScrubReader(store._log, 0)
    store._log._segments = held  # found in the list, and deleted before it was opened
    os.unlink(held[0].path)
    with pytest.raises(OffsetOutOfRange):
        ScrubReader(store._log, 0)
    store._log._segments = held[1:]
    with pytest.raises(OffsetOutOfRange):
        store.copy_of_range(0, 100)
    assert store.damaged_in([(0, 100), (SEGMENT, SEGMENT + 100)]) == []
