"""Checksum entries looked up where an append begins, one segment's at a time."""

import tracemalloc

import pytest

from zenitmq.store.checksum.checksum_log import ChecksumLog
from zenitmq.store.checksum.checksum_table import ChecksumTable

SEGMENT_BYTES = 1000


@pytest.fixture
def log(tmp_path) -> ChecksumLog:
    """Appends of 30 bytes at 0, 30, ... in each of the segments 0, 1, and 4; none in 2 and 3."""
    log = ChecksumLog(str(tmp_path), segment_bytes=SEGMENT_BYTES)
    for base in (0, 1000, 4000):
        for at in range(0, 990, 30):
            log.append(base + at, 30, base + at + 7)
    log.write_out()
    return log


@pytest.mark.parametrize(("begin", "end"), [(0, 5000), (60, 4100), (1000, 1001), (2000, 4000), (4970, 5000)])
def test_it_tells_what_the_files_hold(log: ChecksumLog, begin: int, end: int) -> None:
    expected = {entry.offset: entry for entry in log.entries(begin, end)}
    table = ChecksumTable(log, SEGMENT_BYTES, end)
    assert {at: table.get(at) for at in range(begin, end) if table.get(at) is not None} == expected
    for at in (begin, begin + 1, begin + 29, begin + 30, (begin + end) // 2, end - 1):
        limit = at - at % SEGMENT_BYTES + SEGMENT_BYTES
        assert list(table.behind(at, limit)) == [entry for offset, entry in expected.items() if at < offset < limit]
        assert list(table.behind(at)) == [entry for offset, entry in expected.items() if offset > at]


def test_who_walks_on_may_look_elsewhere_meanwhile(log: ChecksumLog) -> None:
    table = ChecksumTable(log, SEGMENT_BYTES, 5000)
    walked = []
    for entry in table.behind(900):
        walked.append(entry.offset)
        assert table.get(0) is not None
    assert walked == [930, 960, *range(1000, 1990, 30), *range(4000, 4990, 30)]


def test_a_long_log_takes_little_memory(tmp_path) -> None:
    log = ChecksumLog(str(tmp_path), segment_bytes=10_000)
    for at in range(0, 1_000_000, 10):
        log.append(at, 10, at)
    log.write_out()
    table = ChecksumTable(log, 10_000, 1_000_000)
    assert table.get(0) is not None
    tracemalloc.start()
    try:
        for at in range(0, 1_000_000, 10):
            assert table.get(at) is not None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 200_000, "of 100,000 entries"
