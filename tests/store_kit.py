"""Small stores for tests: a clock that stands still, batches as a producer encodes them, and what a store holds."""

from __future__ import annotations

import os
import shutil
import tarfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from zenitmq.model.ids import HostAddress
from zenitmq.model.properties import encode_properties
from zenitmq.model.topics.light_queues import is_light_queue, light_properties
from zenitmq.record.kernel import StoredMessage, decode_batch, encode_record, wrap_batch
from zenitmq.store.config import StoreConfig
from zenitmq.store.get_result import GetResult
from zenitmq.store.message_store import MessageStore, Placed
from zenitmq.store.queues.engine_choice import is_rocksdb
from zenitmq.store.queues.queue_engine import QUEUE_FOLDER
from zenitmq.store.queues.rows.rocksdb_units import RocksDbUnits
from zenitmq.store.queues.rows.unit_rows import decode_end

HOST = HostAddress.parse("127.0.0.1", 10911)
ALL_TIME = {"begin_ms": 0, "end_ms": 1 << 62}
SMALL = {
    "segment_bytes": 4096,
    "queue_file_units": 16,
    "consume_queue": "file",
    "index_slots": 32,
    "index_entries": 100,
    "preallocate_segments": 0,
    "recycle_segments": 1,
    "flush_interval_ms": 60_000,
    "checkpoint_interval_ms": 50,
    "disk_clean_ratio": 1.0,
    "disk_force_ratio": 1.0,
    "disk_refuse_ratio": 1.0,
}
WIRE_DATA = Path(__file__).parent / "wire" / "data"


class StillClock:
    """Stands at `time_ms` until a test moves it."""

    def __init__(self, time_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = time_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.time_ms += duration_ms


def make_store(directory: Any, clock: StillClock | None = None, dispatchers: Any = (), **settings: Any) -> MessageStore:
    return MessageStore(
        str(directory),
        StoreConfig(**{**SMALL, **settings}),
        store_host=HOST,
        clock=clock or StillClock(),
        on_flushed=lambda: None,
        on_poisoned=lambda error: None,
        dispatchers=dispatchers,
    )


def message(topic: str, body: bytes, *, tags: str = "", keys: str = "", unique: str = "") -> bytes:
    """A record as a producer sends it: the broker's fields zero."""
    named = (("KEYS", keys), ("TAGS", tags), ("UNIQ_KEY", unique))
    properties = "".join(f"{name}\x01{value}\x02" for name, value in named if value)
    return encode_record(topic=topic.encode(), body=body, properties=properties.encode(), born_timestamp_ms=1)


def light(topic: str, body: bytes, *names: str) -> bytes:
    """The same of a message that goes into these light queues."""
    properties = encode_properties(light_properties(names))
    return encode_record(topic=topic.encode(), body=body, properties=properties, born_timestamp_ms=1)


def stage(store: MessageStore, topic: str, queue_id: int, *records: bytes) -> Placed:
    """Receives a batch into the arena as the server socket does, and stages it."""
    data, begin = b"".join(records), store.arena.used
    store.arena.view[begin : begin + len(data)] = data
    return store.stage(begin, begin + len(data), topic=topic, queue_id=queue_id, count=len(records))


def put(store: MessageStore, topic: str, queue_id: int, *records: bytes) -> Placed:
    placed = stage(store, topic, queue_id, *records)
    store.commit()
    return placed


def put_unchecked(store: MessageStore, topic: str, queue_id: int, *records: bytes) -> Placed:
    """Whatever checksums their bodies have: as a broker did that did not hold them to their bodies yet."""
    placed = store.stage_own(b"".join(records), topic=topic, queue_id=queue_id, count=len(records))
    store.commit()
    return placed


def get(store: MessageStore, topic: str, queue_id: int, queue_offset: int, **limits: Any) -> GetResult:
    """What a pull finds; what this process has not had in memory yet is read first, as the pull's worker does."""
    result = store.get_messages(topic, queue_id, queue_offset, **limits)
    if not result.untouched:
        return result
    store.known_pages.learn(result.untouched)
    return store.get_messages(topic, queue_id, queue_offset, **limits)


def read_queue(store: MessageStore, topic: str, queue_id: int) -> list[StoredMessage]:
    """All messages of a queue, by pulls."""
    found: list[StoredMessage] = []
    offset = store.min_offset(topic, queue_id)
    while True:
        result = get(store, topic, queue_id, offset, max_messages=5, max_bytes=2000)
        for view in result.slices:
            found += decode_batch(bytes(view), light_queue=topic if is_light_queue(topic) else None)
        if result.next_offset <= offset:
            return found
        offset = result.next_offset


def kill(store_directory: Any, copy: Any) -> Path:
    """What a store killed at this moment leaves behind: its files as they are, `abort` among them.

    One that gets another name meanwhile is left out: it was not there yet.
    """
    shutil.copytree(store_directory, copy, copy_function=_copy_if_there)
    return Path(copy)


def persist(store: MessageStore, now_ms: int) -> None:
    """Makes durable all that is dispatched, as a checkpoint does."""
    mark = (store.written, now_ms)
    store._upkeep.run_in_worker(lambda: store._upkeep._persist(mark)).result(20)


def rot(store: MessageStore, offset: int) -> Callable[[], None]:
    """What makes the record at `offset`, whose bytes rot now, whole again."""
    store.flush_all(20_000)
    segment = store._log.segments()[0]
    whole = bytes(segment.map[offset + 4 : offset + 8])
    os.pwrite(segment.open_fd(), b"rot!", offset + 4)
    damage = store.damage

    def mend() -> None:
        os.pwrite(segment.open_fd(), whole, offset + 4)
        damage.on_whole(*damage.quarantine.rotten[0])

    return mend


def tear_places(log: bytes, begin: int, end: int) -> list[int]:
    """Where the log may be torn: at the begin of each record, within its header, its body, its properties."""
    found, at = [], begin
    while at < end:
        size = int.from_bytes(log[at : at + 4], "big")
        found += [at, at + 3, at + size // 2, at + size - 1]
        at += size
    return [*found, end]


def _copy_if_there(source: str, target: str) -> None:
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)


def tree(directory: Any, *folders: str) -> dict[str, bytes]:
    """{path: bytes} of the files of some folders of a store; empty queue files, unused index files and what the store's
    worker is still making are left out. Of queues in RocksDB: its rows, but for what they reflect and where queues begin."""
    found = {}
    for folder in folders:
        if folder == QUEUE_FOLDER and is_rocksdb(os.path.join(directory, folder)):
            found |= _rows(os.path.join(directory, folder))
            continue
        for path in sorted((Path(directory) / folder).rglob("*")):
            if path.suffix != ".new" and path.is_file() and any(data := path.read_bytes()):
                found[str(path.relative_to(directory))] = data
    return found


def _rows(directory: str) -> dict[str, bytes]:
    rows = RocksDbUnits(directory, writable=False)
    try:
        units = {key.hex(): value for key, value in rows.all_units()}
        ends = {key.hex(): value for key, value in rows.ends() if (end := decode_end(key, value)) and end.is_max}
    finally:
        rows.close()
    return units | ends


def index_bytes(directory: Any) -> list[bytes]:
    """The index files' bytes, oldest first; names hold the time they were made."""
    return list(tree(directory, "index").values())


@cache
def _golden_files(name: str) -> dict[str, bytes]:
    """The files of an archive but for RocketMQ's timer wheel and log: 140 MB of zeros."""
    files = {}
    with tarfile.open(WIRE_DATA / f"{name}.tar.gz") as archive:
        for member in archive:
            if member.isfile() and not member.name.rpartition("store/")[2].startswith("timer"):
                content = archive.extractfile(member)
                assert content is not None
                files[member.name] = content.read()
    return files


def unpack_golden(name: str, directory: Any) -> Path:
    """A store that RocketMQ 5.5 wrote; what was sent to it stands beside, in expected.jsonl."""
    for path, data in _golden_files(name).items():
        target = Path(directory) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return Path(directory) / "store"


def wait_until(condition, deadline_s: float = 20.0) -> None:
    """Waits for another thread without a sleep of its own; fails after a deadline."""
    gate = threading.Event()
    for _ in range(int(deadline_s / 0.005)):
        if condition():
            return
        gate.wait(0.005)
    raise AssertionError("it did not come true in time")


def batch(*records: bytes, compress_over: int = 1 << 30) -> bytes:
    """The record of a producer's batch, for a batch queue."""
    data = b"".join(records)
    return wrap_batch(data, len(data), compress_over)


def put_batch(store: MessageStore, topic: str, queue_id: int, *records: bytes, compress_over: int = 1 << 30) -> Placed:
    """Puts these messages into a batch queue, in one record."""
    data, begin = batch(*records, compress_over=compress_over), store.arena.used
    store.arena.view[begin : begin + len(data)] = data
    placed = store.stage_batch(begin, begin + len(data), topic, queue_id, len(records))
    store.commit()
    return placed
