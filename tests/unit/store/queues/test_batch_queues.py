"""Batch queues in a whole store: one record a batch, offsets a message."""

import os
import shutil
from pathlib import Path

import pytest

from zenitmq.model.errors import MessageIllegal, StoreFormatError
from zenitmq.model.get_status import GetStatus
from zenitmq.record.codes import PHYSICAL_OFFSET_AT
from zenitmq.record.kernel import decode_batch, decode_record, hash_text
from zenitmq.record.layout import BATCH_UNIT
from zenitmq.store.opening.store_cut import truncate_store
from zenitmq.store.query import StoreQuery
from zenitmq.store.queues.batches.batch_table import BATCH_FOLDER

from ....store_kit import (
    ALL_TIME,
    StillClock,
    batch,
    get,
    kill,
    make_store,
    message,
    persist,
    put,
    put_batch,
    read_queue,
)

EACH = {"max_messages": 100, "max_bytes": 100_000}


@pytest.fixture(params=["file", "rocksdb", "both"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def some(begin: int, count: int, tags: str = "") -> list[bytes]:
    return [
        message("t", b"body %d" % n, tags=tags, keys=f"k{n}", unique=f"{n:032X}") for n in range(begin, begin + count)
    ]


def bodies(store, topic: str = "t", queue_id: int = 0) -> list[tuple[int, bytes]]:
    return [(one.queue_offset, one.body) for one in read_queue(store, topic, queue_id)]


def expected(count: int) -> list[tuple[int, bytes]]:
    return [(n, b"body %d" % n) for n in range(count)]


def found_at(store, offset: int, **limits) -> tuple[int, int, list[int]]:
    result = get(store, "t", 0, offset, **{**EACH, **limits})
    messages = [one for view in result.slices for one in decode_batch(bytes(view))]
    return result.status, result.next_offset, [one.queue_offset for one in messages]


def test_offsets_count_messages_and_a_pull_gives_whole_batches(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path, consume_queue=engine) as store:
        first = put_batch(store, "t", 0, *some(0, 5))
        second = put_batch(store, "t", 0, *some(5, 3), compress_over=0)
        third = put_batch(store, "t", 0, *some(8, 1))
        assert [placed.queue_offset for placed in (first, second, third)] == [0, 5, 8]
        assert [placed.count for placed in (first, second, third)] == [5, 3, 1]
        assert bodies(store) == expected(9)
        assert store.take_arrivals() == [("t", 0)]
        assert (store.min_offset("t", 0), store.max_offset("t", 0)) == (0, 9)
        assert found_at(store, 3) == (GetStatus.FOUND, 9, list(range(9)))
        assert found_at(store, 6, max_messages=2) == (GetStatus.FOUND, 8, [5, 6, 7])
        assert found_at(store, 1, max_messages=1) == (GetStatus.FOUND, 5, [0, 1, 2, 3, 4])
        assert found_at(store, 1, max_bytes=1) == (GetStatus.FOUND, 5, [0, 1, 2, 3, 4])
        assert found_at(store, 9)[:2] == (GetStatus.OFFSET_OVERFLOW_ONE, 9)
        assert [store.position_of("t", 0, n) for n in (0, 4, 5, 8)] == [
            placed.physical_offset for placed in (first, first, second, third)
        ]
        assert len(decode_batch(store.record_at(second.physical_offset))) == 3
    with make_store(tmp_path, consume_queue=engine) as store:
        assert bodies(store) == expected(9)
        assert put_batch(store, "t", 0, *some(9, 2)).queue_offset == 9


def test_a_unit_has_46_bytes(tmp_path: Path) -> None:
    with make_store(tmp_path, clock=StillClock(1_700_000_000_123)) as store:
        put(store, "u", 0, message("u", b"before"))
        put_batch(store, "t", 2, *some(0, 5, tags="red"))
        placed = put_batch(store, "t", 2, *some(5, 3, tags="red"))
        size = decode_record(store.record_at(placed.physical_offset)).size_bytes
    path = tmp_path / BATCH_FOLDER / "t" / "2" / ("0" * 20)
    held = path.read_bytes()
    assert len(held) == 16 * 46
    assert BATCH_UNIT.unpack_from(held, 46) == (
        placed.physical_offset, size, hash_text(b"red"), 1_700_000_000_123, 5, 3, -1, 0,
    )  # fmt: skip
    assert not any(held[92:])
    assert not (tmp_path / "consumequeue" / "t").exists()


def test_tags_select_batches(tmp_path: Path) -> None:
    with make_store(tmp_path) as store:
        put_batch(store, "t", 0, *some(0, 2, tags="red"))
        put_batch(store, "t", 0, *some(2, 2, tags="blue"))
        put_batch(store, "t", 0, *some(4, 1, tags="blue"), *some(5, 1, tags="red"))
        assert found_at(store, 0, codes=(hash_text(b"red"),)) == (GetStatus.FOUND, 6, [0, 1, 4, 5])
        assert found_at(store, 0, codes=(hash_text(b"green"),)) == (GetStatus.FOUND, 6, [4, 5])
        put_batch(store, "t", 0, *some(6, 2, tags="red"))
        assert found_at(store, 6, codes=(hash_text(b"blue"),)) == (GetStatus.NO_MATCHED_MESSAGE, 8, [])


def test_time_is_searched_by_the_units_time(tmp_path: Path) -> None:
    clock = StillClock(1000)
    with make_store(tmp_path, clock=clock) as store:
        for begin in range(0, 60, 3):
            put_batch(store, "t", 0, *some(begin, 3))
            clock.time_ms += 10
        by_time = store.offset_by_time
        assert by_time("t", 0, 1000, upper=False) == 0
        assert by_time("t", 0, 1001, upper=False) == 3
        assert by_time("t", 0, 1095, upper=False) == 30
        assert by_time("t", 0, 1095, upper=True) == 29
        assert by_time("t", 0, 5000, upper=False) == 60
        assert by_time("t", 0, 5000, upper=True) == 59


def test_queries_give_messages(tmp_path: Path) -> None:
    with make_store(tmp_path, segment_bytes=1 << 16) as store:
        put_batch(store, "t", 0, *some(0, 5))
        put_batch(store, "t", 0, *some(5, 300))
        (found,) = store.query("t", "k3", max_messages=10, unique=False, **ALL_TIME)
        assert (decode_record(found).queue_offset, decode_record(found).body) == (3, b"body 3")
        (found,) = store.query("t", f"{7:032X}", max_messages=10, unique=True, **ALL_TIME)
        assert decode_record(found).queue_offset == 7
        page = store.page(StoreQuery(topic="t", queue_begin=2, queue_end=200), [0], lambda: True)
        assert [decode_record(one).queue_offset for one in page.records] == [*range(199, 4, -1)]
        rest = store.page(StoreQuery(topic="t", queue_begin=2, queue_end=200, start=page.place), [0], lambda: True)
        assert [decode_record(one).queue_offset for one in rest.records] == [4, 3, 2]
        page = store.page(StoreQuery(topic="t", contains=b"body 4", max_messages=1000), [0], lambda: True)
        assert len(page.records) == 11


def test_what_is_no_batch_is_refused(tmp_path: Path) -> None:
    with make_store(tmp_path) as store:
        put(store, "p", 0, message("p", b"plain"))
        with pytest.raises(MessageIllegal, match="no batches"):
            put_batch(store, "p", 0, message("p", b"1"))
        data = batch(*some(0, 3))
        for wrong, count in ((data, 2), (data[:-1], 3), (data.replace(b"INNER_NUM", b"INNER_NUX"), 3)):
            store.arena.view[: len(wrong)] = wrong
            with pytest.raises(MessageIllegal):
                store.stage_batch(0, len(wrong), "t", 0, count)
        store.arena.view[: len(data)] = data
        with pytest.raises(MessageIllegal, match="sysFlag"):
            store.stage(0, len(data), "t", 0, 3)
        assert put_batch(store, "t", 0, *some(0, 3)).queue_offset == 0


@pytest.mark.parametrize("lost", ["nothing", "all queues", "batch queues"])
def test_killed_stores_go_on(tmp_path: Path, engine: str, lost: str) -> None:
    with make_store(tmp_path / "a", consume_queue=engine) as store:
        put(store, "p", 0, message("p", b"plain"))
        for begin in range(0, 160, 4):
            put_batch(store, "t", 0, *some(begin, 4))
        store.flush_all(20_000)
        persist(store, 1_700_000_000_000)
        left = kill(tmp_path / "a", tmp_path / "b")
    if lost != "nothing":
        shutil.rmtree(left / BATCH_FOLDER)
    for folder in ("consumequeue", "shadow") if lost == "all queues" else ():
        shutil.rmtree(left / folder, ignore_errors=True)
    with make_store(left, consume_queue=engine) as store:
        assert bodies(store) == expected(160)
        assert bodies(store, "p") == [(0, b"plain")]
        assert put_batch(store, "t", 0, *some(160, 2)).queue_offset == 160


def test_batch_queues_that_are_gone_after_a_clean_stop_are_made_again(
    tmp_path: Path, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    with make_store(tmp_path, consume_queue=engine) as store:
        put(store, "p", 0, message("p", b"plain"))
        put_batch(store, "t", 0, *some(0, 4))
        put_batch(store, "u", 1, message("u", b"another"))
    shutil.rmtree(tmp_path / BATCH_FOLDER)
    with make_store(tmp_path, consume_queue=engine) as store:
        assert bodies(store) == expected(4)
        assert bodies(store, "u", 1) == [(0, b"another")]
        assert bodies(store, "p") == [(0, b"plain")]
        assert put_batch(store, "t", 0, *some(4, 2)).queue_offset == 4
    shutil.rmtree(tmp_path / BATCH_FOLDER / "u")
    with (
        pytest.raises(StoreFormatError, match=f"{BATCH_FOLDER}: 1 of 2 queues are gone"),
        make_store(tmp_path, consume_queue=engine),
    ):
        pass
    shutil.rmtree(tmp_path / BATCH_FOLDER)
    with make_store(tmp_path, consume_queue=engine) as store:
        assert bodies(store) == expected(6)
        store.delete_topic("t", store.written)
        store.delete_topic("u", store.written)
    caplog.set_level("INFO")
    with make_store(tmp_path, consume_queue=engine):
        assert "replayed=0" in caplog.text, "none is missing"


FIELDS = {"physical": (0, 8), "size": (8, 4), "stored": (20, 8), "begin": (28, 8), "count": (36, 2), "all": (0, 46)}


@pytest.mark.parametrize(
    ("field", "value", "is_clean"),
    [
        *((field, value, True) for field in ("begin", "count") for value in (0, 1, 0x7F, 0xFF)),
        *((field, 0x7F, True) for field in ("physical", "size", "stored", "all")),
        *((field, value, False) for field, value in (("begin", 0), ("count", 0), ("begin", 0x7F), ("all", 0xFF))),
    ],
)
def test_a_damaged_last_unit_is_written_again_from_its_record(
    tmp_path: Path, field: str, value: int, is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with make_store(tmp_path / "s") as store:
        for begin in range(0, 12, 4):
            put_batch(store, "t", 0, *some(begin, 4))
        left = kill(tmp_path / "s", tmp_path / "killed")
    left = tmp_path / "s" if is_clean else left
    path = left / BATCH_FOLDER / "t" / "0" / ("0" * 20)
    held = bytearray(path.read_bytes())
    whole = bytes(held)
    at, size = FIELDS[field]
    held[92 + at : 92 + at + size] = bytes([value]) * size
    path.write_bytes(held)
    with make_store(left) as store:
        assert store.max_offset("t", 0) >= 12, "no offset is used twice"
        offset = put_batch(store, "t", 0, *some(12, 2)).queue_offset
        if field in ("begin", "count"):
            assert offset == 12
            assert "a damaged unit of a queue is written again" in caplog.text
            assert bodies(store) == expected(14)
            assert path.read_bytes()[:138] == whole[:138]


def test_every_tear_leaves_whole_batches(tmp_path: Path) -> None:
    with make_store(tmp_path / "a") as store:
        ends = [put_batch(store, "t", 0, *some(begin, 4)).end for begin in range(0, 12, 4)]
        left = kill(tmp_path / "a", tmp_path / "b")
    queue = left / BATCH_FOLDER / "t" / "0" / ("0" * 20)
    queue.write_bytes(queue.read_bytes()[:92].ljust(16 * 46, b"\0"))  # the units come behind the records
    for at in range(ends[1], ends[2], 31):
        torn = kill(left, tmp_path / f"c{at}")
        path = torn / "commitlog" / ("0" * 20)
        data = bytearray(path.read_bytes())
        data[at : ends[2]] = bytes(ends[2] - at)
        path.write_bytes(data)
        with make_store(torn) as store:
            assert bodies(store) == expected(8)
            assert put_batch(store, "t", 0, *some(8, 3)).queue_offset == 8
            assert bodies(store) == expected(11)


def test_a_cut_takes_whole_batches(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path, consume_queue=engine) as store:
        ends = [put_batch(store, "t", 0, *some(begin, 4)).end for begin in range(0, 12, 4)]
        config = store._config
    truncate_store(str(tmp_path), config, ends[1])
    with make_store(tmp_path, consume_queue=engine) as store:
        assert bodies(store) == expected(8)
        assert put_batch(store, "t", 0, *some(8, 3)).queue_offset == 8


def test_a_slave_dispatches_what_it_appends(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path / "m") as master, make_store(tmp_path / "s", consume_queue=engine) as slave:
        put(master, "p", 0, message("p", b"plain"))
        put_batch(master, "t", 0, *some(0, 4))
        put(master, "p", 0, message("p", b"plain 2"), message("p", b"plain 3"))
        put_batch(master, "t", 0, *some(4, 4))
        while slave.written < master.written:
            chunk = master.chunk(slave.written, 4096)
            slave.append_chunk(chunk.data, chunk.begin, chunk.end)
        assert bodies(slave) == expected(8)
        assert len(bodies(slave, "p")) == 3
        assert slave.queue_minimums(0) == master.queue_minimums(0) == {("p", 0): 0, ("t", 0): -1}


def test_files_expire_and_the_queue_goes_on(tmp_path: Path) -> None:
    with make_store(tmp_path) as store:
        for begin in range(0, 160, 4):
            put_batch(store, "t", 0, *some(begin, 4))
        queues, log = store._queues, store._log
        store.flush_all(20_000)
        log.remove_before(log.segments()[-2].base_offset)
        queues.begin_expiry(log.begin)
        while queues.expire_some(10):
            pass
        low = store.min_offset("t", 0)
        assert 0 < low < 160
        assert [offset for offset, _ in bodies(store)] == list(range(low, 160))
        assert get(store, "t", 0, low - 1, **EACH).status == GetStatus.OFFSET_TOO_SMALL
        assert len(os.listdir(tmp_path / BATCH_FOLDER / "t" / "0")) < 3
    with make_store(tmp_path) as store:
        assert store.min_offset("t", 0) == low
        assert put_batch(store, "t", 0, *some(160, 1)).queue_offset == 160


def test_a_deleted_topic_leaves_nothing_and_may_be_plain_then(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path, consume_queue=engine) as store:
        put_batch(store, "t", 0, *some(0, 4))
        store.delete_topic("t", store.written)
        assert store.max_offset("t", 0) == 0
        assert not (tmp_path / BATCH_FOLDER / "t").exists()
        put(store, "t", 0, message("t", b"body 0"))
        assert bodies(store) == expected(1)


def test_a_broken_batch_is_one_message_whose_body_tells(tmp_path: Path) -> None:
    with make_store(tmp_path) as store:
        placed = put_batch(store, "t", 0, *some(0, 4), compress_over=0)
        record = bytearray(store.record_at(placed.physical_offset))
    record[120] ^= 1
    (broken,) = decode_batch(bytes(record))
    assert (broken.queue_offset, broken.body_crc_matches) == (0, False)
    assert broken.physical_offset == int.from_bytes(record[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8], "big")
