"""How large a store is: its files, and messages and bytes of each queue, from the queues' units, without reading the log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ...model.errors import OffsetOutOfRange
from ...model.names import is_system_topic
from ...model.topics.light_queues import is_light_queue
from ...record.codes import RECORD_OVERHEAD_BYTES
from ...record.layout import store_timestamp_of
from ..integrity.scrub_reader import ScrubReader
from ..log.commit_log import CHECKSUM_FOLDER, COMMIT_LOG_FOLDER
from ..opening.store_files import is_in_use
from ..queues.batches.batch_table import BATCH_FOLDER
from ..queues.engine_choice import engine_of
from ..queues.queue_engine import QUEUE_FOLDER
from ..queues.queue_places import FILLER_SIZE, UNIT_BYTES, QueuePlaces
from .offline import OfflineQueues
from .offline_compacted import compacted_size
from .offline_log import OfflineLog

INDEX_FOLDER: Final = "index"
_UNIT: Final = np.dtype([("physical", ">i8"), ("size", ">i4"), ("code", ">i8")])
_UNITS_AT_ONCE: Final = 1 << 18
_HEAD_BYTES: Final = RECORD_OVERHEAD_BYTES  # a record is never shorter: its time is in it


def store_size(directory: str, opened: OfflineQueues) -> dict[str, Any]:
    """The document, without what a broker's state adds. Raises OSError."""
    store, queues = opened.store, opened.queues
    topics: dict[str, dict[str, Any]] = {}
    light = {"queues": 0, "messages": 0, "bytes": 0}
    last = -1
    for topic, queue_id in queues.listed():
        queue = queues.get(topic, queue_id)
        assert queue is not None
        low = queue.min_offset(store.log.begin)
        messages, size_bytes, at = _measure(queue, low, store)
        last = max(last, at)
        if is_light_queue(topic):
            light["queues"] += 1
            light["messages"] += messages
            light["bytes"] += size_bytes
            continue
        entry = topics.setdefault(topic, {"system": is_system_topic(topic), "messages": 0, "bytes": 0, "queues": {}})
        entry["messages"] += messages
        entry["bytes"] += size_bytes
        entry["queues"][str(queue_id)] = {
            "min_offset": low,
            "max_offset": queue.next_offset,
            "messages": messages,
            "bytes": size_bytes,
        }
    return {
        "directory": os.path.abspath(directory),
        "closed_cleanly": store.clean,
        "in_use": is_in_use(directory),
        "log": {
            **_files(os.path.join(directory, COMMIT_LOG_FOLDER)),
            "begin_offset": store.log.begin,
            "end_offset": store.end,
            "first_stored_at_ms": _stored_ms(store, int(store.log.begin)),
            "last_stored_at_ms": _stored_ms(store, last),
        },
        "queues": {
            "engine": engine_of(directory),
            **_files(os.path.join(directory, QUEUE_FOLDER), os.path.join(directory, BATCH_FOLDER)),
            "queues": queues.count - light["queues"],
            "messages": sum(entry["messages"] for entry in topics.values()),
            "message_bytes": sum(entry["bytes"] for entry in topics.values()),
        },
        "index": {**_files(os.path.join(directory, INDEX_FOLDER)), "entries": opened.index.entry_count},
        "light_queues": light,
        "compacted": compacted_size(opened.compacted),
        "checksums": _files(os.path.join(directory, CHECKSUM_FOLDER)),
        "topics": topics,
    }


def _measure(queue: QueuePlaces, begin: int, store: OfflineLog) -> tuple[int, int, int]:
    """(messages, their bytes, the place of the last one's record or -1) of a queue from an offset on."""
    count = size_bytes = 0
    last = -1  # messages of one batch have one record
    while begin < queue.next_offset:
        data = queue.read(begin, _UNITS_AT_ONCE)
        if not data:
            begin = queue.resume_offset(begin)
            continue
        units = np.frombuffer(data, _UNIT)
        sizes = units["size"]
        kept = (sizes > 0) & (sizes != FILLER_SIZE) & (units["physical"] >= store.log.begin)
        kept &= units["physical"] < store.end
        if kept.any():
            count += int(kept.sum())
            places = units["physical"][kept]
            size_bytes += int(sizes[kept][np.diff(places, prepend=last) != 0].sum(dtype=np.int64))
            last = int(places[-1])
        begin += len(data) // UNIT_BYTES
    return count, size_bytes, last


def _stored_ms(store: OfflineLog, at: int) -> int | None:
    """When the record there was stored; None if there is none, or if it cannot be read."""
    if not store.log.begin <= at <= store.end - _HEAD_BYTES:
        return None
    try:
        with ScrubReader(store.log, at) as reader:
            data = reader.read(at, at + _HEAD_BYTES)
    except (OffsetOutOfRange, OSError):
        return None
    return store_timestamp_of(data)


def _files(*folders: str) -> dict[str, int]:
    """`bytes`: as long as the files are; `disk_bytes`: what they take of the disk. Files that go meanwhile are left out."""
    found = [facts for folder in folders for facts in _facts(folder)]
    return {
        "files": len(found),
        "bytes": sum(facts.st_size for facts in found),
        "disk_bytes": sum(facts.st_blocks * 512 for facts in found),
    }


def _facts(folder: str) -> Iterator[os.stat_result]:
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.stat(os.path.join(place, name))
            except FileNotFoundError:
                continue
