"""A log in pieces: what a slave is sent, what it takes, and that its store becomes its master's, byte for byte."""

import os
import random
import shutil
from itertools import pairwise

import pytest
from store_kit import ALL_TIME, StillClock, index_bytes, kill, make_store, message, put, read_queue, stage, tree

from zenitmq.model.errors import (
    CorruptRecordError,
    OffsetOutOfRange,
    RemoteProtocolError,
    StoreNotWriteable,
    StorePoisoned,
)
from zenitmq.model.names import STATE_TOPICS
from zenitmq.record.codes import RECORD_OVERHEAD_BYTES
from zenitmq.record.kernel import decode_batch, encode_record
from zenitmq.record.new_record import NewRecord
from zenitmq.store.integrity.log_check import LogChecker
from zenitmq.store.log import chunk_reader
from zenitmq.store.log.commit_log import CommitLog
from zenitmq.store.message_store import MessageStore
from zenitmq.store.queues.consume_queue import ConsumeQueue

SEGMENT = 4096


def fill(store: MessageStore, clock: StillClock, *, seed: int, turns: int) -> None:
    """Turns of batches, of records of the broker, and of invisible ones, over many queues."""
    chosen = random.Random(seed)
    for turn in range(turns):
        for _ in range(chosen.randrange(1, 4)):
            topic, queue_id = chosen.choice("tu"), chosen.randrange(3)
            if chosen.random() < 0.2:
                flags = chosen.choice([0, 0x4, 0x8, 0xC])
                store.stage_record(
                    NewRecord(topic=topic, queue_id=queue_id, body=b"own", properties={"KEYS": "o"}, sys_flag=flags)
                )
            else:
                body = b"%d" % turn * chosen.randrange(1, 60)
                records = [
                    message(topic, body, keys=f"k{turn}", unique=f"{chosen.getrandbits(64):032X}")
                    for _ in range(chosen.randrange(1, 5))
                ]
                stage(store, topic, queue_id, *records)
        store.commit()
        clock.time_ms += chosen.randrange(3)


def copy(master: MessageStore, slave: MessageStore, bytes_max: int = 1 << 20) -> None:
    while slave.written < master.written:
        chunk = master.chunk(slave.written, bytes_max=bytes_max)
        assert chunk.begin == slave.written < chunk.end
        slave.append_chunk(bytes(chunk.data), chunk.begin, chunk.end)


def log_bytes(store: MessageStore) -> bytes:
    return b"".join(bytes(segment.map) for segment in store._log.segments())


def entries(store: MessageStore) -> list[tuple[int, int]]:
    store._log.checksums.write_out()
    return [(entry.offset, entry.end) for entry in store._log.checksums.entries(0, store.written)]


@pytest.fixture
def pair(tmp_path):
    clock = StillClock()
    with make_store(tmp_path / "m", clock) as master, make_store(tmp_path / "s", clock) as slave:
        yield master, slave, clock


@pytest.mark.parametrize("bytes_max", [1, 700, 1 << 20])
@pytest.mark.parametrize("seed", range(6))
def test_a_slave_s_store_is_its_master_s(tmp_path, pair, seed: int, bytes_max: int) -> None:
    master, slave, clock = pair
    for _ in range(4):
        fill(master, clock, seed=seed, turns=8)
        copy(master, slave, bytes_max)
    assert len(master._log.segments()) > 2, f"seed={seed}"
    assert (slave.written, log_bytes(slave)) == (master.written, log_bytes(master)), f"seed={seed}"
    assert tree(tmp_path / "s", "consumequeue") == tree(tmp_path / "m", "consumequeue"), f"seed={seed}"
    assert index_bytes(tmp_path / "s") == index_bytes(tmp_path / "m"), f"seed={seed}"
    assert slave.queues() == master.queues()
    assert sorted(slave.take_arrivals()) == sorted(master.take_arrivals())
    assert slave.statistics().messages_staged == master.statistics().messages_staged
    covered = entries(slave)
    assert covered[0][0] == 0
    assert all(
        end == begin or end < begin <= -(-end // SEGMENT) * SEGMENT for (_, end), (begin, _) in pairwise(covered)
    )


def test_a_chunk_is_whole_records_of_one_segment(pair) -> None:
    """It ends before a record that would not fit, at the limit, at the end; a long record goes alone."""
    master, _, _ = pair
    sizes = [put(master, "t", 0, message("t", bytes(size))).end for size in (100, 300, 50)]
    assert master.chunk(0, bytes_max=1 << 20).end == sizes[2]
    assert master.chunk(0, bytes_max=sizes[2]).end == sizes[2]
    assert master.chunk(0, bytes_max=sizes[2] - 1).end == sizes[1]
    assert master.chunk(0, bytes_max=1).end == sizes[0]
    assert master.chunk(0, bytes_max=1 << 20, limit=sizes[1]).end == sizes[1]
    assert master.chunk(sizes[0], bytes_max=1 << 20).data == log_bytes(master)[sizes[0] : sizes[2]]
    for begin, limit in ((sizes[2], None), (sizes[0], sizes[0])):
        empty = master.chunk(begin, bytes_max=100, limit=limit)
        assert (empty.begin, empty.end, len(empty.data)) == (begin, begin, 0)
    for outside in (-1, sizes[2] + 1):
        with pytest.raises(OffsetOutOfRange):
            master.chunk(outside, bytes_max=100)


def test_of_a_blank_eight_bytes_are_sent(pair) -> None:
    master, slave, _ = pair
    first = put(master, "t", 0, message("t", bytes(3000))).end
    put(master, "t", 0, message("t", bytes(2000)))
    chunk = master.chunk(0, bytes_max=1 << 20)
    assert (len(chunk.data), chunk.end) == (first + 8, SEGMENT)
    assert bytes(chunk.data[first:]) == (SEGMENT - first).to_bytes(4, "big") + bytes.fromhex("CBD43194")
    cut = master.chunk(0, bytes_max=first)
    assert (cut.end, len(cut.data)) == (SEGMENT, first + 8)
    alone = master.chunk(first, bytes_max=1)
    assert (len(alone.data), alone.end) == (8, SEGMENT)
    assert master.chunk(SEGMENT, bytes_max=1 << 20).end == master.written
    slave.append_chunk(bytes(chunk.data[:first]), 0, first)
    slave.append_chunk(bytes(alone.data), first, SEGMENT)
    assert slave.written == SEGMENT
    copy(master, slave)
    assert log_bytes(slave) == log_bytes(master)


def test_a_slave_that_ends_with_a_blank_goes_on_as_master(tmp_path, pair) -> None:
    """It neither writes a second blank nor gives a queue offset twice, whichever role its tails were looked up in."""
    master, slave, _ = pair
    put(slave, "t", 0, message("t", b"own"))
    put(master, "t", 0, message("t", b"own"))
    for size in (3000, 2000):
        put(master, "t", 0, message("t", bytes(size)))
    chunk = master.chunk(slave.written, bytes_max=1 << 20)
    slave.append_chunk(bytes(chunk.data), chunk.begin, chunk.end)
    assert slave.written == SEGMENT
    placed = put(slave, "t", 0, message("t", b"after"))
    assert (placed.physical_offset, placed.queue_offset) == (SEGMENT, 2)
    assert [m.body[:5] for m in read_queue(slave, "t", 0)] == [b"own", bytes(5), b"after"]
    slave.flush_all(20_000)
    assert slave.flushed == slave.written


@pytest.mark.parametrize("ended", ["clean", "killed", "power cut, flushed", "power cut"])
def test_the_end_behind_a_blank_outlives_a_restart(tmp_path, ended: str) -> None:
    """A slave may have acknowledged it, so it must not end lower afterwards; but for a power cut, where the bytes of a
    blank may be old ones, and only its checksum entry, which is flushed with it, says that they are not."""
    with make_store(tmp_path / "m") as master, make_store(tmp_path / "s") as slave:
        for size in (3000, 2000):
            put(master, "t", 0, message("t", bytes(size)))
        chunk = master.chunk(0, bytes_max=1 << 20)
        slave.append_chunk(bytes(chunk.data), 0, chunk.end)
        if ended == "power cut, flushed":
            slave.flush_all(20_000)
        killed = kill(tmp_path / "s", tmp_path / "killed")
    left = tmp_path / "s" if ended == "clean" else killed
    if ended.startswith("power cut"):
        (left / "abort").write_text("7\nanother boot\n")
    with make_store(left) as slave:
        assert slave.written == (len(chunk.data) - 8 if ended == "power cut" else SEGMENT)
        placed = put(slave, "t", 0, message("t", bytes(1500)))
        assert (placed.physical_offset, placed.queue_offset) == (SEGMENT, 1)


@pytest.mark.parametrize("ended", ["clean", "killed"])
def test_what_a_failed_sync_left_in_memory_is_read_from_the_disk(tmp_path, monkeypatch, ended: str) -> None:
    """After an end that was not clean, cached pages behind the checkpoint are dropped before the log's end is looked for."""
    with make_store(tmp_path / "s") as store:
        put(store, "t", 0, message("t", b"x"))
        killed = kill(tmp_path / "s", tmp_path / "killed")
    dropped: list[int] = []
    monkeypatch.setattr(CommitLog, "drop_cached_pages", lambda _, begin: dropped.append(begin))
    with make_store(killed if ended == "killed" else tmp_path / "s") as store:
        assert store.max_offset("t", 0) == 1
    assert dropped == ([0] if ended == "killed" else [])


def damage(data: bytes, what: str) -> bytes:
    first = int.from_bytes(data[:4], "big")
    changed = bytearray(data)
    match what:
        case "size":
            changed[first + 3] ^= 1
        case "magic":
            changed[first + 7] ^= 1
        case "offset":
            changed[first + 35] ^= 1
        case "inner length":
            changed[first + 84 + 3] ^= 1
        case "topic":
            at = bytes(changed).index(b"topic", first)
            changed[at : at + 5] = b"../.."
        case "queue id":
            changed[first + 12] |= 0x80
        case "zeros":
            changed[first : first + 8] = bytes(8)
        case "rest":
            return data + bytes(5)
        case "short":
            return data[:-1]
        case "nothing":
            return b""
    return bytes(changed)


@pytest.mark.parametrize(
    "what",
    ["size", "magic", "offset", "inner length", "topic", "queue id", "zeros", "rest", "short", "nothing"],
)
def test_a_damaged_chunk_leaves_no_trace(tmp_path, pair, what: str) -> None:
    master, slave, _ = pair
    for number in range(3):
        put(master, "topic", 0, message("topic", b"%d" % number * 40, keys="k"))
    good = master.chunk(0, bytes_max=1 << 20)
    bad = damage(bytes(good.data), what)
    with pytest.raises(CorruptRecordError):
        slave.append_chunk(bad, 0, len(bad) if what == "rest" else good.end)
    assert (slave.written, slave.queues(), slave.take_arrivals()) == (0, {}, [])
    assert tree(tmp_path / "s", "commitlog", "consumequeue") == {}
    slave.append_chunk(bytes(good.data), 0, good.end)
    assert [m.queue_offset for m in read_queue(slave, "topic", 0)] == [0, 1, 2]
    assert len(slave.query("topic", "k", max_messages=9, unique=False, **ALL_TIME)) == 3


@pytest.mark.parametrize("at", [0, 3, 4, 7])
def test_a_damaged_blank_leaves_no_trace(pair, at: int) -> None:
    master, slave, _ = pair
    for size in (3000, 2000):
        put(master, "t", 0, message("t", bytes(size)))
    chunk = master.chunk(0, bytes_max=1 << 20)
    bad = bytearray(chunk.data)
    bad[at - 8] ^= 1
    with pytest.raises(CorruptRecordError):
        slave.append_chunk(bad, 0, chunk.end)
    with pytest.raises(CorruptRecordError):
        slave.append_chunk(bytes(chunk.data), 0, chunk.end + SEGMENT)
    with pytest.raises(CorruptRecordError):
        slave.append_chunk(b"1234", 0, SEGMENT)
    assert slave.written == 0


def test_chunks_go_to_the_end_only(pair) -> None:
    master, slave, _ = pair
    ends = [put(master, "t", 0, message("t", b"%d" % n)).end for n in range(3)]
    second = bytes(master.chunk(ends[0], bytes_max=1).data)
    with pytest.raises(OffsetOutOfRange):
        slave.append_chunk(second, ends[0], ends[1])
    copy(master, slave)
    with pytest.raises(OffsetOutOfRange):
        slave.append_chunk(second, ends[0], ends[1])
    assert slave.written == ends[2]


class Told:
    """A dispatcher of the topics' events and of one other topic."""

    topics = frozenset({STATE_TOPICS[0], "t"})
    run_flags = 0

    def __init__(self) -> None:
        self.runs: list[tuple[str, int, int, list[bytes]]] = []
        self.ends: list[int] = []
        self.on_event = lambda body: None

    def on_run(self, run) -> None:
        bodies = [m.body for m in decode_batch(bytes(run.records))]
        self.runs.append((run.topic, run.begin, run.end, bodies))
        if run.topic == STATE_TOPICS[0]:
            self.on_event(bodies[0])

    def advance(self, end: int) -> None:
        self.ends.append(end)

    def reflected(self) -> int:
        return 0

    def persist(self) -> int:
        return 0


def test_dispatchers_are_told_as_the_master_s_are(tmp_path) -> None:
    """The same runs, though chunks and turns are not the same; and a deletion counts at its place in the log."""
    told = {"m": Told(), "s": Told()}
    with (
        make_store(tmp_path / "m", dispatchers=[told["m"]]) as master,
        make_store(tmp_path / "s", dispatchers=[told["s"]]) as slave,
    ):
        told["s"].on_event = lambda _: slave.delete_topic("u", slave.written)
        for _ in range(2):
            put(master, "u", 0, message("u", b"before"))
        put(master, "t", 0, message("t", b"x"), message("t", b"y"))
        master.stage_record(NewRecord(topic=STATE_TOPICS[0], queue_id=0, body=b"delete u"))
        master.commit()
        master.delete_topic("u", master.written)
        put(master, "u", 0, message("u", b"anew"))
        put(master, "t", 0, message("t", b"z"))
        chunk = master.chunk(0, bytes_max=1 << 20)
        slave.append_chunk(bytes(chunk.data), 0, chunk.end)
        assert told["s"].runs == told["m"].runs
        assert told["s"].ends[-1] == told["m"].ends[-1] == slave.written
        for store in (master, slave):
            assert [(m.body, m.queue_offset) for m in read_queue(store, "u", 0)] == [(b"anew", 0)]
        assert tree(tmp_path / "s", "consumequeue") == tree(tmp_path / "m", "consumequeue")


def test_a_slave_with_a_full_disk_takes_nothing_until_there_is_room(pair, monkeypatch) -> None:
    master, slave, clock = pair
    ends = [put(master, "t", 0, message("t", b"%d" % n)).end for n in range(2)]
    chunks = [bytes(master.chunk(begin, bytes_max=1).data) for begin in (0, ends[0])]

    def no_space(*_args):
        raise OSError(28, "no space")

    with monkeypatch.context() as full:
        full.setattr(ConsumeQueue, "append", no_space)
        slave.append_chunk(chunks[0], 0, ends[0])
        with pytest.raises(StoreNotWriteable):
            slave.append_chunk(chunks[1], ends[0], ends[1])
    assert slave.written == ends[0]
    slave.on_tick(clock.time_ms)
    slave.append_chunk(chunks[1], ends[0], ends[1])
    assert [m.body for m in read_queue(slave, "t", 0)] == [b"0", b"1"]


@pytest.mark.parametrize("where", ["log", "queue"])
def test_a_disk_that_fails_a_slave_is_final(pair, monkeypatch, where: str) -> None:
    master, slave, _ = pair
    end = put(master, "t", 0, message("t", b"x")).end

    def fails(*_args):
        raise OSError(5, "io")

    if where == "log":
        monkeypatch.setattr(slave._log, "_pwritev", fails)
    else:
        monkeypatch.setattr(ConsumeQueue, "append", fails)
    with pytest.raises(StorePoisoned):
        slave.append_chunk(bytes(master.chunk(0, bytes_max=1).data), 0, end)
    with pytest.raises((StorePoisoned, OffsetOutOfRange)):
        slave.append_chunk(bytes(master.chunk(0, bytes_max=1).data), 0, end)


def test_a_write_that_comes_back_short_is_gone_on_with(pair, monkeypatch) -> None:
    master, slave, clock = pair
    fill(master, clock, seed=1, turns=10)
    real = os.pwritev
    monkeypatch.setattr(slave._log, "_pwritev", lambda fd, views, at: real(fd, (b"".join(views)[:50],), at))
    copy(master, slave)
    assert log_bytes(slave) == log_bytes(master)


def test_a_segment_that_went_meanwhile_is_out_of_range(tmp_path) -> None:
    clock = StillClock()
    with make_store(tmp_path / "s", clock, retention_ms=1) as store:
        for _ in range(3):
            put(store, "t", 0, message("t", bytes(3000)))
        held = store.chunk(0, bytes_max=1 << 20)
        before = bytes(held.data)
        segment = store._log.segments()[0]
        store.flush_all(20_000)
        assert store._log.remove_before(SEGMENT) == [segment]
        assert bytes(held.data) == before  # the view pins it
        with pytest.raises(OffsetOutOfRange):
            store.chunk(0, bytes_max=100)
        assert store.chunk(SEGMENT, bytes_max=100).begin == store.begin
        del held


def test_damage_in_the_master_s_log_is_not_sent(pair) -> None:
    master, _, _ = pair
    ends = [put(master, "t", 0, message("t", bytes(200))).end for _ in range(4)]
    segment = master._log.segments()[0]
    os.pwrite(segment.open_fd(), (RECORD_OVERHEAD_BYTES - 1).to_bytes(4, "big"), ends[1])
    assert master.chunk(0, bytes_max=ends[2] - 1).end == ends[1]
    with pytest.raises(CorruptRecordError):
        master.chunk(ends[1], bytes_max=300)
    master.damage.add(ends[0], ends[1], "in a test")
    with pytest.raises(CorruptRecordError):
        master.chunk(ends[0], bytes_max=300)
    assert master.chunk(0, bytes_max=ends[1]).end == ends[0]


def flip(store_directory, position: int) -> None:
    """Turns a bit of the log on the disk, and in memory where it lies there."""
    path = store_directory / "commitlog" / f"{position - position % SEGMENT:020d}"
    with open(path, "r+b") as file:
        byte = os.pread(file.fileno(), 1, position % SEGMENT)
        os.pwrite(file.fileno(), bytes([byte[0] ^ 1]), position % SEGMENT)


def test_what_has_rotted_since_it_was_written_is_quarantined_and_never_sent(tmp_path) -> None:
    """Properties, which no record protects by itself: the append's checksum tells."""
    with make_store(tmp_path / "m") as store:
        appends = [
            put(store, "t", 0, *(message("t", b"%04d" % n, tags="paid", keys="k") for _ in range(3))) for n in range(12)
        ]
        tags = bytes(store.chunk(appends[4].physical_offset, 1000).data).index(b"paid")
    flip(tmp_path / "m", appends[4].physical_offset + tags)
    with make_store(tmp_path / "m") as master, make_store(tmp_path / "s") as slave:
        damaged = (appends[4].physical_offset, appends[4].end)
        changes = []
        master.damage.on_change = lambda: changes.append(master.damage.unsendable)
        with pytest.raises(CorruptRecordError):
            copy(master, slave)
        assert (changes, master.damage.quarantine.rotten) == ([(damaged,)], (damaged,))
        with pytest.raises(CorruptRecordError):  # what lies before it is sent
            copy(master, slave)
        assert slave.written == damaged[0]
        assert master.chunk_end(damaged[1], 1000) > damaged[1]
        assert len(changes) == 1
        flip(tmp_path / "m", appends[4].physical_offset + tags)
        master.damage.on_whole(*damaged)
        copy(master, slave)
        assert {m.tags for m in read_queue(slave, "t", 0)} == {"paid"}
        assert log_bytes(slave)[: slave.written] == log_bytes(master)[: slave.written]


def test_a_record_that_has_rotted_keeps_back_the_append_that_it_lies_in(tmp_path) -> None:
    with make_store(tmp_path / "m") as store:
        appends = [put(store, "t", 0, *(message("t", b"%04d" % n, keys="k") for _ in range(3))) for n in range(6)]
    begin, end = appends[2].physical_offset, appends[2].end
    second = begin + (end - begin) // 3
    flip(tmp_path / "m", second + 4)
    with make_store(tmp_path / "m") as master:
        with pytest.raises(CorruptRecordError):
            master.chunk(second, 100)  # even where it begins within the append
        assert master.damage.quarantine.ranges == ((second, second + (end - begin) // 3),)
        assert master.damage.unsendable == ((begin, end),)
        assert [m.body for m in read_queue(master, "t", 0)][5:9] == [b"0001", b"0002", b"0002", b"0003"]


def without_entries(directory, bodies: list[bytes]) -> list[int]:
    """A store of these messages that has no checksums; where each begins, and the log's end."""
    with make_store(directory, segment_bytes=65_536) as store:
        begins = [put(store, "t", 0, message("t", body)).physical_offset for body in bodies]
        end = store.written
    shutil.rmtree(directory / "checksum")
    return [*begins, end]


def send_all(master: MessageStore, begin: int, bytes_max: int) -> None:
    while True:
        begin = master.chunk(begin, bytes_max).end


@pytest.mark.parametrize("followed", [1 << 24, 700])
@pytest.mark.parametrize("bytes_max", [1 << 20, 500])
@pytest.mark.parametrize("into", [1, 40, 150, 88])
def test_who_asks_for_the_log_from_the_middle_of_a_record_on_hides_no_message(
    tmp_path, monkeypatch, into: int, bytes_max: int, followed: int
) -> None:
    """A broken or hostile slave, where no checksum entry says where appends begin. In the body lies a whole record (88) too."""
    monkeypatch.setattr(chunk_reader, "FOLLOWED_BYTES", followed)
    bodies = [b"%04d" % n * 50 for n in range(30)]
    place = without_entries(tmp_path / "measured", bodies)[20] + 88
    bodies[20] = encode_record(
        topic=b"t", body=b"x", queue_offset=9, physical_offset=place, born_timestamp_ms=1
    ) + bytes(90)
    begins = without_entries(tmp_path / "s", bodies)
    with make_store(tmp_path / "s", segment_bytes=65_536) as master:
        for _ in range(40):
            with pytest.raises((RemoteProtocolError, CorruptRecordError)) as raised:
                send_all(master, begins[20] + into, bytes_max)  # a forged record is sent, what follows it is not
            assert master.damage.quarantine.ranges == ()
            if raised.type is RemoteProtocolError:
                break
        assert raised.type is RemoteProtocolError
        assert [found.body for found in read_queue(master, "t", 0)] == bodies


@pytest.mark.parametrize("rotten", [[20], [4], [19], [4, 20]])
@pytest.mark.parametrize("followed", [1 << 24, 700])
def test_without_entries_damage_is_found_where_the_records_before_lead_to_it(
    tmp_path, monkeypatch, followed: int, rotten: list[int]
) -> None:
    monkeypatch.setattr(chunk_reader, "FOLLOWED_BYTES", followed)
    begins = without_entries(tmp_path / "s", [b"%04d" % n * 50 for n in range(30)])
    for number in rotten:
        with open(tmp_path / "s" / "commitlog" / f"{0:020d}", "r+b") as file:
            file.seek(begins[number] + 4)
            file.write(b"rot!")
    damaged = tuple((begins[number], begins[number + 1]) for number in rotten)
    with make_store(tmp_path / "s", segment_bytes=65_536) as master:
        for _ in range(60):
            with pytest.raises((CorruptRecordError, RemoteProtocolError)):
                send_all(master, begins[20] if 20 in rotten else begins[20] + 40, 500)
            if master.damage.quarantine.ranges == damaged:
                break
        assert master.damage.quarantine.ranges == damaged


def test_what_was_written_lately_is_sent_as_it_is(pair, monkeypatch) -> None:
    """It lies in memory as it was when its checksum was made: it is not read a second time."""
    master, slave, clock = pair
    fill(master, clock, seed=3, turns=10)
    monkeypatch.setattr(LogChecker, "check", lambda *_args, **_named: pytest.fail("it was looked at"))
    copy(master, slave)


def test_a_limit_at_a_blank_leaves_the_blank_to_the_next_chunk(pair) -> None:
    master, _, _ = pair
    first = put(master, "t", 0, message("t", bytes(3000))).end
    put(master, "t", 0, message("t", bytes(2000)))
    chunk = master.chunk(0, 1 << 20, limit=first)
    assert (chunk.end, len(chunk.data)) == (first, first)
    chunk = master.chunk(first, 1 << 20, limit=SEGMENT)
    assert (chunk.end, len(chunk.data)) == (SEGMENT, 8)
