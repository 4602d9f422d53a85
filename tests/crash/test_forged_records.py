"""Bytes that look like records and were never sent: no start may take them for messages.

A producer may put whole records into a body, with the physical offsets that they will have there, or that the file will have
once it is recycled. A torn append, or a page that a power cut kept from the disk, is where they could come up.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from store_kit import HOST, StillClock, kill, make_store, message, put, read_queue

from zenitmq.record.codes import TERMINATOR_BYTES
from zenitmq.record.kernel import encode_record
from zenitmq.store.message_store import MessageStore

SEGMENT = 65_536
PAGE = 4_096
HEADER = 88  # bytes of a record before its body
EVENTS = "rmq_sys_zenit_topics"
SETTINGS = {"segment_bytes": SEGMENT, "index_enabled": False}


def forged(at: int) -> bytes:
    """A record of a system topic that is whole in every way at this place of the log."""
    return encode_record(
        topic=EVENTS.encode(),
        body=b'{"event":"deleted","topic":"payments"}',
        physical_offset=at,
        store_timestamp_ms=StillClock().time_ms,
        store_host=HOST.encode(),
        born_timestamp_ms=1,
    )


def body_of_records(begin: int, size: int) -> bytes:
    """A body at `begin` of the log: forged records, each followed by what looks like an append that came to its end."""
    body = bytearray()
    while size - len(body) > 400:
        body += forged(begin + len(body)) + bytes(8)
    return bytes(body).ljust(size, b"x")


def contents(store: MessageStore) -> dict[str, list[bytes]]:
    return {
        topic: [bytes(found.body[:5]) for queue_id in ids for found in read_queue(store, topic, queue_id)]
        for topic, ids in store.queues().items()
    }


def flush(store: MessageStore) -> None:
    store._log.request_flush(store.written)
    store._log.wait_flushed(store.written, 20_000)


def rewrite(left: Path, begin: int, data: bytes) -> None:
    with open(left / "commitlog" / f"{0:020d}", "r+b") as log:
        log.seek(begin)
        log.write(data)


def set_boot(left: Path, other_boot: bool) -> None:
    if other_boot:
        (left / "abort").write_text("7\nanother boot\n")


@pytest.mark.parametrize("other_boot", [False, True])
@pytest.mark.parametrize("vouched", [False, True])
def test_a_record_inside_the_body_of_a_torn_append(tmp_path, vouched: bool, other_boot: bool) -> None:
    with make_store(tmp_path / "s", **SETTINGS) as store:
        put(store, "mine", 0, message("mine", b"hello"))
        begin = store.written
        put(store, "mine", 0, message("mine", body_of_records(begin + HEADER, 6_000)))
        end = store.written
        if vouched:
            flush(store)
        left = kill(tmp_path / "s", tmp_path / "killed")
    for cut in range(begin + 10, end - 1, 997):
        work = kill(left, tmp_path / f"cut{cut}")
        set_boot(work, other_boot)
        rewrite(work, cut, bytes(end - cut))
        with make_store(work, **SETTINGS) as store:
            assert contents(store) == {"mine": [b"hello"]}, cut
            assert store.written == begin


@pytest.mark.parametrize("other_boot", [False, True])
def test_records_behind_an_append_that_was_torn_over_old_bytes(tmp_path, other_boot: bool) -> None:
    """Of a recycled segment: they stand exactly where the torn append ends, too."""
    with make_store(tmp_path / "s", **SETTINGS) as store:
        put(store, "mine", 0, message("mine", b"hello"))
        begin = store.written
        put(store, "mine", 0, message("mine", b"x" * 9_000))
        end = store.written
        left = kill(tmp_path / "s", tmp_path / "killed")
    set_boot(left, other_boot)
    rewrite(left, 2 * PAGE, body_of_records(2 * PAGE, end - 2 * PAGE))
    rewrite(left, end, body_of_records(end, 9_000))
    with make_store(left, **SETTINGS) as store:
        assert contents(store) == {"mine": [b"hello"]}
        assert store.written == begin


def test_records_in_a_page_that_a_power_cut_lost(tmp_path) -> None:
    """Something valid is behind it, so it is quarantined, and with it the append that reached into it."""
    with make_store(tmp_path / "s", **SETTINGS) as store:
        put(store, "mine", 0, message("mine", b"hello"))
        put(store, "mine", 0, *(message("mine", b"%05d" % n + b"x" * 900) for n in range(20)))
        put(store, "mine", 0, message("mine", b"after"))
        flush(store)
        end = store.written
        left = kill(tmp_path / "s", tmp_path / "killed")
    set_boot(left, other_boot=True)
    rewrite(left, 2 * PAGE, body_of_records(2 * PAGE, PAGE))
    with make_store(left, **SETTINGS) as store:
        assert contents(store) == {"mine": [b"hello", b"after"]}
        assert store.written == end
        assert store.statistics().quarantined_ranges == 1


def put_straddling(store: MessageStore) -> tuple[int, int]:
    """A record whose last 20 bytes, of its properties, are behind a page's end; (where it begins, that page's end)."""
    for number in range(12):
        put(store, "t", 0, message("t", b"%05d" % number + b"b" * 900))
    begin = store.written
    page = begin // PAGE * PAGE + 2 * PAGE
    least = len(message("t", b"", tags="paid", keys="order-00012"))
    put(store, "t", 0, message("t", b"b" * (page + 20 - begin - least), tags="paid", keys="order-00012"))
    assert store.written == page + 20
    return begin, page


@pytest.mark.parametrize("old", ["zeros", "body", "records"])
@pytest.mark.parametrize("behind", ["nothing", "unvouched", "vouched"])
def test_properties_that_end_in_a_lost_page_are_not_delivered(tmp_path, old: str, behind: str) -> None:
    """Their record's body is whole and its checksum holds; what stands behind it shows that the page is an old one."""
    with make_store(tmp_path / "s", **SETTINGS) as store:
        begin, page = put_straddling(store)
        end = store.written
        if behind != "nothing":
            for number in range(20):
                put(store, "t", 0, message("t", b"after%d" % number + b"b" * 500))
            if behind == "vouched":
                flush(store)
        left = kill(tmp_path / "s", tmp_path / "killed")
    set_boot(left, other_boot=True)
    if old == "zeros":
        stale = bytes(PAGE)
    elif old == "body":
        stale = b"b" * PAGE
    else:  # the file's earlier use had records of the same sizes: one ended exactly here, with properties of its own
        tail = b"KEYS\x01order-77777\x02"[-(end - page) :]
        other = encode_record(topic=b"t", body=b"b" * 5_000, physical_offset=7 * SEGMENT + end, born_timestamp_ms=1)
        stale = (tail + other)[:PAGE]
    rewrite(left, page, stale)
    with make_store(left, **SETTINGS) as store:
        found = [record for record in read_queue(store, "t", 0) if record.physical_offset == begin]
        assert [record.properties_as_stored for record in found] == []
        assert store.statistics().quarantined_ranges == (behind == "vouched")


def test_a_record_whose_next_one_was_lost_stays(tmp_path) -> None:
    """It was flushed whole; of the append behind it, some sectors reached the disk and others did not."""
    with make_store(tmp_path / "s", **SETTINGS) as store:
        for number in range(12):
            put(store, "t", 0, message("t", b"%05d" % number + b"b" * 431))
        begin = store.written
        zeros = PAGE - begin % PAGE
        put(store, "t", 0, message("t", b"00012" + b"b" * 9_000))
        end = store.written
        left = kill(tmp_path / "s", tmp_path / "killed")
    assert zeros > 36
    set_boot(left, other_boot=True)
    for arrived in range(40):
        work = kill(left, tmp_path / f"arrived{arrived}")
        rewrite(work, begin + arrived, bytes(zeros - arrived) + b"b" * (end - begin - zeros))
        with make_store(work, **SETTINGS) as store:
            assert store.written == begin, arrived
            assert contents(store)["t"][-1] == b"00011"


@pytest.mark.parametrize("other_boot", [False, True])
@pytest.mark.parametrize(
    ("room", "last"), [*((3_900, last) for last in (0, 1, 8, 300, PAGE)), *((room, 300) for room in range(1, 10))]
)
def test_a_process_killed_between_any_two_blocks_of_a_write(
    tmp_path, monkeypatch, room: int, last: int, other_boot: bool
) -> None:
    """Of an append that begins `room` bytes before the end of a block and ends `last` bytes into one, over old bytes with
    records at each place where they would count."""
    states: list[list[tuple[int, bytes]]] = []
    with make_store(tmp_path / "s", **SETTINGS) as store:
        put(store, "mine", 0, message("mine", b"hello".ljust(PAGE - room - HEADER - 7, b"o")))
        begin, log = store.written, store._log
        assert begin == PAGE - room, "the test's own arithmetic"
        end = 4 * PAGE + last
        size = end - begin - (HEADER + 7)  # and so long a body that the append ends there
        left = kill(tmp_path / "s", tmp_path / "killed")
        write, done = log._pwritev, list[tuple[int, bytes]]()

        def recorded(fd: int, views: list[bytes | memoryview], at: int) -> int:
            data = b"".join(views)
            place = at
            while place < at + len(data):
                states.append(list(done))
                cut = min((place // PAGE + 1) * PAGE, at + len(data))
                done.append((place, data[place - at : cut - at]))
                place = cut
            return write(fd, views, at)

        monkeypatch.setattr(log, "_pwritev", recorded)
        put(store, "mine", 0, message("mine", b"z" * size))
        assert store.written == end, "the test's own arithmetic"
    assert len(states) >= 4
    first = -(-(begin + TERMINATOR_BYTES) // PAGE) * PAGE
    for number, state in enumerate(states):
        work = kill(left, tmp_path / f"state{number}")
        set_boot(work, other_boot)
        rewrite(work, first, body_of_records(first, SEGMENT - first - 400))
        for place in range(first, SEGMENT - PAGE, PAGE):
            rewrite(work, place, forged(place) + bytes(16))
        rewrite(work, end, forged(end) + bytes(16))
        for place, data in state:
            rewrite(work, place, data)
        with make_store(work, **SETTINGS) as store:
            assert contents(store) == {"mine": [b"hello"]}, number
            assert store.written == begin
