"""Files of a store directory, damaged: each alone, then all of a small store together."""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

from store_kit import ALL_TIME, StillClock, get, make_store, message, put

from zenitmq.broker.group.epoch_file import FILE_NAME as EPOCH_FILE
from zenitmq.broker.group.epoch_file import parse_epochs, read_epochs, render_epochs
from zenitmq.broker.replication.replica_files import FILE_NAME as REPLICA_FILE
from zenitmq.broker.replication.replica_files import ReplicaFiles
from zenitmq.model.errors import (
    CorruptRecordError,
    OffsetOutOfRange,
    RemoteProtocolError,
    StoreFormatError,
    SystemFault,
)
from zenitmq.record.crc32 import crc32
from zenitmq.record.kernel import RunKernel, decode_batch, encode_record
from zenitmq.store.checksum.checksum_entry import ENTRY
from zenitmq.store.checksum.checksum_log import ChecksumLog
from zenitmq.store.index.index_file import IndexFile, find_slot_count, index_file_bytes
from zenitmq.store.integrity.queue_check import QueueChecker
from zenitmq.store.log.commit_log import CommitLog
from zenitmq.store.log.segment import segment_name
from zenitmq.store.opening.checkpoint import (
    CHECKPOINT_BYTES,
    SLOT_OFFSETS,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
    plan_update,
)
from zenitmq.store.opening.store_files import read_abort
from zenitmq.store.queues.consume_queue import ConsumeQueue, OpenFiles
from zenitmq.store.queues.unit_files import UnitFiles

from .document_targets import checked_lines
from .mutation import Field, mutated, put_number, some_number
from .target import Target
from .wire_targets import some_epochs

SEGMENT_BYTES = 4096
UNITS = 16
SLOTS, ENTRIES = 32, 100


@contextmanager
def folder() -> Iterator[Path]:
    """A directory in memory, where there is such a place."""
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=shared) as path:
        yield Path(path)


# ---- checkpoint

_SLOT_BYTES = 80


def _checkpoint(draw: Random) -> bytes:
    made = Checkpoint(message_time_ms=5, queue_time_ms=6, confirm_offset=7, dispatched_offset=8, flushed_offset=9)  # type: ignore[arg-type]
    data = bytearray(encode_checkpoint(made))
    for at, part in plan_update(bytes(data), made):
        data[at : at + len(part)] = part
    fields: list[Field] = [(at, 8) for at in range(0, 40, 8)]
    fields += [
        (slot + at, width)
        for slot in SLOT_OFFSETS
        for at, width in ((8, 4), (12, 8), (20, 8), (60, 8), (68, 8), (76, 4))
    ]
    data = mutated(data, draw, fields)
    for slot in SLOT_OFFSETS:
        if draw.randrange(3) and len(data) >= slot + _SLOT_BYTES:
            put_number(data, (slot + _SLOT_BYTES - 4, 4), crc32(bytes(data[slot : slot + _SLOT_BYTES - 4])))
    return bytes(data)


def check_checkpoint(data: bytes, _: Random) -> None:
    """A checkpoint that can be written into the same file, and is found there; else one that begins anew."""
    found = decode_checkpoint(data)
    again = bytearray(data)
    writes = plan_update(data, found)
    assert bool(writes) == (found.flushed_offset is not None)
    for at, part in writes:
        again[at : at + len(part)] = part
    if writes:
        assert len(again) == CHECKPOINT_BYTES
        assert decode_checkpoint(bytes(again)) == found
    assert decode_checkpoint(encode_checkpoint(found)).message_time_ms == found.message_time_ms


# ---- checksum log


def _checksum_log(draw: Random) -> bytes:
    data, at = bytearray(), 0
    while at < SEGMENT_BYTES - 200 and len(data) < 400:
        length = draw.randrange(1, 200)
        data += ENTRY.pack(at, length, 7)
        at += length
    return bytes(
        mutated(
            data, draw, [(at, width) for begin in range(0, len(data), 16) for at, width in ((begin, 8), (begin + 8, 4))]
        )
    )


def check_checksum_log(data: bytes, draw: Random) -> None:
    """Entries that ascend, within their segment; a cut keeps those before it."""
    with folder() as directory:
        (directory / segment_name(0)).write_bytes(data)
        log = ChecksumLog(str(directory), segment_bytes=SEGMENT_BYTES)
        found = list(log.entries(0, SEGMENT_BYTES))
        assert all(before.end <= after.offset for before, after in pairwise(found))
        assert all(entry.length and entry.end <= SEGMENT_BYTES for entry in found)
        end = draw.choice((0, 100, SEGMENT_BYTES))
        log.truncate(end)
        left = [(entry.offset, entry.length, entry.crc) for entry in log.entries(0, SEGMENT_BYTES)]
        assert left == [(entry.offset, entry.length, entry.crc) for entry in found if entry.end <= end]


# ---- consume queue


def _queue_file(draw: Random) -> bytes:
    data, at = bytearray(), 0
    for _ in range(draw.choice((0, 1, 5, UNITS))):
        data += struct.pack(">qIq", at, 100, draw.choice((0, 5, -7)))
        at += 100
    data = data.ljust(20 * UNITS, b"\0")
    data = mutated(
        data, draw, [(at, width) for begin in range(0, 20 * UNITS, 20) for at, width in ((begin, 8), (begin + 8, 4))]
    )
    return bytes(data if draw.randrange(8) == 0 else data.ljust(20 * UNITS, b"\0")[: 20 * UNITS])


def check_queue_file(data: bytes, draw: Random) -> None:
    """A queue whose units are those of records within the log, to which another can be added."""
    with folder() as directory:
        (directory / segment_name(0)).write_bytes(data)
        files, log_end = OpenFiles(4), draw.choice((0, 500, 1 << 62))
        try:
            queue = ConsumeQueue(
                "t",
                0,
                directory=str(directory),
                files=files,
                file_bytes=20 * UNITS,
                log_end=log_end,
                scrub=draw.randrange(2) == 1,
            )  # type: ignore[arg-type]
            assert 0 <= queue.next_offset <= UNITS
            for offset in range(queue.next_offset):
                queue.unit(offset)
                queue.end_of(offset)
            assert 0 <= queue.min_offset(draw.choice((0, 100, 1 << 40))) <= queue.next_offset  # type: ignore[arg-type]
            end = queue.next_offset
            queue.append(end, struct.pack(">qIq", 5, 100, 0))
            assert queue.unit(end) == (5, 100, 0)
        finally:
            files.close()


def _checked_store(draw: Random) -> bytes:
    """Records of two topics, and behind them what the queue file of one of them holds; either is damaged."""
    data, units = bytearray(), bytearray()
    for number in range(draw.choice((1, 4, UNITS))):
        topic, slot = (b"t", number // 2) if number % 2 == 0 else (b"other", number // 2)
        record = encode_record(
            topic=topic, body=bytes(draw.choice((0, 3, 90))), queue_offset=slot, physical_offset=len(data)
        )
        if topic == b"t":
            units += struct.pack(">qIq", len(data), len(record), 0)
        data += record
    headers = [(4, 4), (12, 4), (20, 8), (28, 8), (36, 4)]
    return bytes(mutated(data, draw, headers)[:SEGMENT_BYTES].ljust(SEGMENT_BYTES, b"\0") + mutated(units, draw))


def check_queue_checker(data: bytes, draw: Random) -> None:
    """Whatever the log and a queue's file hold, what is called wrong is a unit of the file that is not the record's."""
    records, units = data[:SEGMENT_BYTES], data[SEGMENT_BYTES:]
    with folder() as directory:
        (directory / "commitlog").mkdir()
        (directory / "commitlog" / segment_name(0)).write_bytes(records.ljust(SEGMENT_BYTES, b"\0"))
        queue = directory / "consumequeue" / "t" / "0"
        queue.mkdir(parents=True)
        held = units[: 20 * UNITS].ljust(20 * UNITS, b"\0")
        (queue / segment_name(0)).write_bytes(held)
        log = CommitLog(str(directory), segment_bytes=SEGMENT_BYTES)
        try:
            checker = QueueChecker(
                log,
                RunKernel(record_max=SEGMENT_BYTES, body_max=SEGMENT_BYTES),
                UnitFiles(str(directory / "consumequeue"), file_bytes=20 * UNITS),
            )
            low = draw.randrange(SEGMENT_BYTES)
            damaged = draw.choice(((), ((low, low + 100),)))
            for wrong in checker.check(lambda begin, end: records[begin:end], 0, SEGMENT_BYTES, damaged):
                assert (wrong.topic, wrong.queue_id) == ("t", 0)
                assert wrong.held == held[20 * wrong.queue_offset : 20 * wrong.queue_offset + 20]
                assert len(wrong.unit) == 20
                assert wrong.unit != wrong.held
                assert checker.is_still_there(wrong)
        finally:
            log.close()


# ---- index file


@cache
def _index_seed() -> bytes:
    with folder() as directory:
        path = directory / "index"
        path.write_bytes(bytes(index_file_bytes(SLOTS, ENTRIES)))
        file = IndexFile(str(path), slots=SLOTS, entries=ENTRIES)
        draw = Random(1)
        hashes = memoryview(struct.pack("40I", *(draw.getrandbits(31) for _ in range(40)))).cast("I")
        offsets = memoryview(struct.pack("40q", *range(0, 4000, 100))).cast("q")
        for at in range(0, 40, 4):
            file.put(hashes, offsets, at, at + 4, 1_700_000_000_000 + at * 1000)
        file.close()
        return path.read_bytes()


def _index_file(draw: Random) -> bytes:
    fields: list[Field] = [(0, 8), (8, 8), (16, 8), (24, 8), (32, 4), (36, 4), (36, 4), (36, 4)]
    fields += [(at, 4) for at in range(40, index_file_bytes(SLOTS, ENTRIES), 4)]
    data = mutated(bytearray(_index_seed()), draw, fields)
    return bytes(data if draw.randrange(8) == 0 else data.ljust(len(_index_seed()), b"\0")[: len(_index_seed())])


def check_index_file(data: bytes, draw: Random) -> None:
    """A file that is searched, put into, and cut, within its bytes."""
    with folder() as directory:
        path = directory / "index"
        path.write_bytes(data)
        find_slot_count(str(path), len(data), slots=SLOTS, entries=ENTRIES)
        file = IndexFile(str(path), slots=SLOTS, entries=ENTRIES)
        try:
            key = struct.unpack_from(">I", _index_seed(), 40 + 4 * SLOTS + 20)[0]
            found, *_ = file.search(
                key,
                begin_ms=0,
                end_ms=1 << 62,
                below=1 << 62,
                behind=draw.randrange(ENTRIES),
                steps_max=99,
                found_max=8,
            )
            assert len(found) <= 8
            file.chains_hold()
            file.keys_at_end()
            file.count_below(draw.choice((0, 1000, 1 << 40)))
            if file.room >= 3:
                hashes, offsets = memoryview(bytearray(12)).cast("I"), memoryview(bytearray(24)).cast("q")
                file.put(hashes, offsets, 0, 3, 1_700_000_000_000)
            file.cut(draw.randrange(1, file.header.count + 1), 5)
            assert file.chains_hold() or file.header.count > 1
        finally:
            file.close()


# ---- small files

_REPLICA = {
    "version": 1, "store_id": "5f0c", "starts": 3, "promised": 2, "intent_epoch": 1, "intent_offset": 5, "boot_id": "b",
    "clean_end": -1, "ran_async": False, "set_back": False, "group_id": "9d1e",
}  # fmt: skip


def check_replica_file(data: bytes, _: Random) -> None:
    """A life that counts itself, and can be written down."""
    with folder() as directory:
        (directory / REPLICA_FILE).write_bytes(data)
        files = ReplicaFiles.open(str(directory))
        assert files.incarnation.starts > 0
        assert files.promised >= 0
        files.start_facts(100)
        files.note_registered("5f0c")
        files.promise(files.promised + 1)
        files.intend(5, 100)
        files.clear_intent()
        files.mark_clean(100)
        ReplicaFiles.open(str(directory))


def _epoch_file(draw: Random) -> bytes:
    text = render_epochs(some_epochs(draw).rows)
    if draw.randrange(3):
        count, _, lines = text.split("\n", 2)
        text = f"{count}\n0\n" + bytes(mutated(bytearray(lines.encode()), draw)).decode("latin-1")
    return bytes(mutated(bytearray(text.encode()), draw))


def check_epoch_file(data: bytes, _: Random) -> None:
    """Rows that are the same when they are written again."""
    with folder() as directory:
        (directory / EPOCH_FILE).write_bytes(data)
        rows = read_epochs(str(directory))
        assert parse_epochs(render_epochs(rows)) == rows


def check_abort(data: bytes, _: Random) -> None:
    """Always a mark."""
    with folder() as directory:
        (directory / "abort").write_bytes(data)
        mark = read_abort(str(directory))
        assert mark is not None
        assert mark.pid >= 0


# ---- a whole store


@cache
def _store_files() -> dict[str, bytes]:
    """A small store that was closed well, by the names of its files."""
    with folder() as directory:
        clock = StillClock()
        with make_store(directory, clock) as store:
            for number in range(30):
                clock.time_ms += 1000
                put(
                    store,
                    "orders",
                    number % 2,
                    message("orders", b"x" * (number * 7), tags="t", keys=f"k{number}", unique="u" * 32),
                )
        return {
            str(path.relative_to(directory)): path.read_bytes()
            for path in sorted(directory.rglob("*"))
            if path.is_file()
        }


def _damage(draw: Random) -> bytes:
    """Lines of JSON: which file, which bytes of it, by what; and whether the process that had it died."""
    files, changes = _store_files(), []
    for _ in range(draw.choice((1, 1, 2, 4))):
        name = draw.choice(list(files))
        size = len(files[name])
        at = draw.randrange(size) if size else 0
        part = draw.choice(
            (
                b"\xff",
                b"\0",
                bytes(20),
                b"\xff" * 20,
                some_number(draw, size).to_bytes(8, "big"),
                draw.randbytes(4),
                bytes(4096),
            )
        )
        changes.append([name, draw.choice((at, at // 4 * 4, at // 20 * 20)), draw.choice((part, part, part[:1])).hex()])
    return json.dumps({"changes": changes, "abort": draw.choice(("", "7\nanother boot\n", "7\n"))}).encode()


def check_store(data: bytes, _: Random) -> None:
    """It opens or says which file it cannot read; what it gives out are whole records; it takes messages; it opens again."""
    plan = json.loads(data)
    with folder() as directory:
        for name, content in _store_files().items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            damaged = bytearray(content)
            for changed, at, part in plan["changes"]:
                if changed == name:
                    damaged[at : at + len(bytes.fromhex(part))] = bytes.fromhex(part)
            path.write_bytes(damaged[: len(content)])
        if plan["abort"]:
            (directory / "abort").write_text(plan["abort"])
        clock = StillClock(1_700_000_100_000)
        for _ in range(2):
            _use_store(directory, clock)
        shutil.rmtree(directory)
        directory.mkdir()


def _use_store(directory: Path, clock: StillClock) -> None:
    with make_store(directory, clock) as store:
        for queue_id in (0, 1):
            offset = store.min_offset("orders", queue_id)
            for _ in range(100):
                result = get(store, "orders", queue_id, offset, max_messages=5, max_bytes=2000)
                for view in result.slices:
                    _read_records(bytes(view))
                if result.next_offset <= offset:
                    break
                offset = result.next_offset
            store.offset_by_time("orders", queue_id, 1_700_000_010_000, upper=queue_id == 0)
        store.query("orders", "k5", max_messages=8, unique=False, **ALL_TIME)
        put(store, "orders", 0, message("orders", b"one more", keys="k5"))


def _read_records(data: bytes) -> None:
    for each in decode_batch(data):
        try:
            assert each.record
            each.body  # noqa: B018 - its checksum is compared
        except (CorruptRecordError, RemoteProtocolError):
            continue


FILE_TARGETS = (
    Target("checkpoint", _checkpoint, check_checkpoint, (StoreFormatError,)),
    Target("checksum-log", _checksum_log, check_checksum_log),
    Target("queue-file", _queue_file, check_queue_file, (StoreFormatError,)),
    Target("queue-checker", _checked_store, check_queue_checker),
    Target("index-file", _index_file, check_index_file, (StoreFormatError,)),
    Target("replica-file", checked_lines(_REPLICA), check_replica_file, (StoreFormatError,)),
    Target("epoch-file", _epoch_file, check_epoch_file, (StoreFormatError,)),
    Target("abort-file", lambda draw: bytes(mutated(bytearray(b"7\n5f0c-boot\n"), draw)), check_abort),
    Target("store", _damage, check_store, (StoreFormatError, CorruptRecordError, OffsetOutOfRange, SystemFault)),
)
