"""Topics, groups and offsets that RocketMQ keeps in RocksDB instead of JSON files, read as those documents.

Its first layout has a RocksDB for each table; names and values are as in the JSON:

    config/topics, config/subscriptionGroups    name -> the table's entry, JSON
    config/consumerOffsets                      topic@group -> {"offsetTable": {queue id: offset}}

Its second layout (`v2`) has one, config/rdb. All keys begin with 01 | table 2 | 02 (1 offsets, 3 topics, 4 groups); then

    topics, groups    name length 2 | name                                                -> 01 | the entry, JSON
    offsets           group length 2 | group | 01 | topic length 2 | topic | 01 | queue id 4 -> offset 8

We only read it: our own snapshots, in JSON, count as soon as there are any.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from rocksdict import AccessType, Options, Rdict

from ..model.errors import StoreFormatError

_LAYOUT_2: Final = "rdb"
_OWN_FILE: Final = "rocksdict-config.json"  # the binding writes it even for a reader
_OFFSET_TABLE: Final = "offsetTable"
_TABLES: Final = {
    "topics.json": ("topicConfigTable", "topics", 3),
    "subscriptionGroup.json": ("subscriptionGroupTable", "subscriptionGroups", 4),
    "consumerOffset.json": (_OFFSET_TABLE, "consumerOffsets", 1),
}
"""{JSON file: (its table, the folder of the first layout, the number of the second)}"""
_JSON: Final = 1
_LENGTH: Final = struct.Struct(">H")
_QUEUE_ID: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")


def read_config(path: str) -> dict[str, Any] | None:
    """The document that would be in the JSON file at `path`; None if RocketMQ keeps no such table in RocksDB beside it.

    Raises StoreFormatError.
    """
    folder, name = os.path.split(path)
    if name not in _TABLES:
        return None
    table, own_folder, number = _TABLES[name]
    second, first = os.path.join(folder, _LAYOUT_2), os.path.join(folder, own_folder)
    directory = next((found for found in (second, first) if os.path.isfile(os.path.join(found, "CURRENT"))), None)
    if directory is None:
        return None
    try:
        return {table: _second_layout(second, number) if directory == second else _first_layout(first, table)}
    except (ValueError, KeyError, IndexError, struct.error, UnicodeDecodeError) as error:
        raise StoreFormatError(directory, f"an entry of {table}: {error}") from error


def _first_layout(directory: str, table: str) -> dict[str, Any]:
    entries = {key.decode(): json.loads(value) for key, value in _rows(directory, b"")}
    return {key: entry[_OFFSET_TABLE] for key, entry in entries.items()} if table == _OFFSET_TABLE else entries


def _second_layout(directory: str, number: int) -> dict[str, Any]:
    prefix = b"\x01" + _LENGTH.pack(number) + b"\x02"
    entries: dict[str, Any] = {}
    for key, value in _rows(directory, prefix):
        name, rest = _text(key[len(prefix) :])
        if number != _TABLES["consumerOffset.json"][2]:
            if value[0] != _JSON:
                raise ValueError(f"{name} is no JSON")
            entries[name] = json.loads(value[1:])
        else:
            topic, rest = _text(rest[1:])
            offsets = entries.setdefault(f"{topic}@{name}", {})
            offsets[str(_QUEUE_ID.unpack(rest[1:])[0])] = _OFFSET.unpack(value)[0]
    return entries


def _text(data: bytes) -> tuple[str, bytes]:
    """A text with its length before it, and what follows."""
    end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    return data[_LENGTH.size : end].decode(), data[end:]


def _rows(directory: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The rows of the default family whose keys begin so. Raises StoreFormatError."""
    own_file = os.path.join(directory, _OWN_FILE)
    had_own_file = os.path.exists(own_file)
    try:
        families = {name: Options(raw_mode=True) for name in Rdict.list_cf(directory, Options(raw_mode=True))}
        rows = Rdict(directory, Options(raw_mode=True), families, access_type=AccessType.read_only(False))
        try:
            found: Any = rows.items(from_key=prefix or None)
            for key, value in found:
                if not key.startswith(prefix):
                    return
                yield key, value
        finally:
            rows.close()
    except Exception as error:  # the binding has no class for RocksDB's errors
        raise StoreFormatError(directory, str(error)[:200]) from error
    finally:
        if not had_own_file:
            with suppress(OSError):
                os.unlink(own_file)
