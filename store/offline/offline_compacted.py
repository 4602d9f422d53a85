"""The compacted files of a store whose broker may be stopped: read whole, checked, measured. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...model.errors import CorruptRecordError, StoreFormatError
from ...record.kernel import StoredMessage, decode_record
from ..compaction.compacted_files import read_manifest
from ..compaction.compacted_queues import CompactedQueues, QueueKey, compacted_queues, queue_folder
from ..compaction.incoming import check_file
from .offline_log import DamagedRange

_ROWS_AT_ONCE = 512


def compacted_messages(compacted: CompactedQueues, key: QueueKey, below: int) -> Iterator[StoredMessage | DamagedRange]:
    """What compacted files have of a queue below queue offset `below`; where a record is damaged, the bytes of the log that it
    was. Raises StoreFormatError, SystemFault, OSError."""
    for reader, rows in compacted.rows_from(key, 0, below, _ROWS_AT_ONCE):
        for row in rows:
            try:
                (found,) = reader.records([row], key[1])
                yield decode_record(found[1])
            except CorruptRecordError as error:
                yield DamagedRange(row.physical, row.physical + row.size, str(error))


def check_compacted(directory: str) -> list[dict[str, str]]:
    """[{"file", "reason"}] of the compacted files, and lists of them, that are damaged. Raises OSError."""
    damaged = []
    for key in compacted_queues(directory):
        folder = queue_folder(directory, key)
        try:
            manifest = read_manifest(folder)
        except StoreFormatError as error:
            damaged.append({"file": error.path, "reason": error.reason})
            continue
        for file in manifest.files:
            try:
                check_file(folder, key[1], file)
            except (StoreFormatError, CorruptRecordError) as error:
                damaged.append({"file": f"{folder}/{file.name}", "reason": error.reason})
    return damaged


def compacted_size(compacted: CompactedQueues) -> dict[str, Any]:
    """{"queues", "messages", "bytes"} of all compacted files."""
    manifests = compacted.manifests.values()
    return {
        "queues": len(manifests),
        "messages": sum(manifest.rows for manifest in manifests),
        "bytes": sum(file.size_bytes for manifest in manifests for file in manifest.files),
    }
