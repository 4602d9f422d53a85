"""State files: valid JSON in RocketMQ's shapes, each with the physical offset it reflects and a checksum.

We write a temporary file, sync and rename it, so the file under its name is always whole. In addition to RocketMQ's keys it
has {"zenit": {"reflected": physical offset, "crc32": of the rest}}, which RocketMQ ignores. RocketMQ's own files have bare
integers as keys of inner tables (`0:58`), no "zenit", and a `.bak` beside them, which is read if the file itself is missing
or broken.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...model.queue import PhysicalOffset
from ..log.segment import make_directory, sync_directory
from ..rocksdb_config import read_config

_OURS: Final = "zenit"
_SNAPSHOT_BYTES_MAX: Final = 1 << 30
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # made once: `dumps` makes one a call
_INDENTED_MAX: Final = (
    64 << 10
)  # characters; more would take Python's slow encoder long, and have an entry a line instead
_STRING_OR_BARE_KEY: Final = re.compile(r'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?\d+)(?=\s*:)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`document`: the JSON without our own key. `reflected`: None if RocketMQ wrote it."""

    document: dict[str, Any]
    reflected: PhysicalOffset | None


def write_snapshot(path: str, document: Mapping[str, Any], reflected: int) -> None:
    """Replaces the file by the state as of `reflected`, durably. Blocks on the disk: for a worker. Raises OSError."""
    entries = {name: _entries(value) for name, value in document.items()}
    text = _joined(entries)
    ours = {"reflected": reflected, "crc32": _checksum(text, reflected)}
    if len(text) <= _INDENTED_MAX:
        whole = json.dumps({**document, _OURS: ours}, ensure_ascii=False, indent=1)
    else:
        whole = _joined({**entries, _OURS: _encode(ours)}, between=",\n")
    temporary = path + ".new"
    make_directory(os.path.dirname(path))
    with open(
        temporary, "w", encoding="utf-8", errors="backslashreplace"
    ) as file:  # an unpaired surrogate stays an escape
        file.write(whole)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))


def read_snapshot(path: str) -> Snapshot | None:
    """The state in the file, else in its `.bak`, else in RocksDB beside them if RocketMQ keeps it there; None if there is
    none that is whole. Raises OSError, StoreFormatError (in RocksDB).
    """
    for candidate in (path, path + ".bak"):
        try:
            if os.path.getsize(candidate) > _SNAPSHOT_BYTES_MAX:
                continue
            with open(candidate, encoding="utf-8") as file:
                snapshot = parse_snapshot(file.read())
        except (FileNotFoundError, UnicodeDecodeError):
            continue
        if snapshot is not None:
            return snapshot
    document = read_config(path)
    return None if document is None else Snapshot(document, None)


def parse_snapshot(text: str) -> Snapshot | None:
    """The state in a file's text; None if it is broken."""
    try:
        document = json.loads(_STRING_OR_BARE_KEY.sub(_quote_key, text))
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    ours = document.pop(_OURS, None)
    if ours is None:
        return Snapshot(document, None)
    reflected = ours.get("reflected") if isinstance(ours, dict) else None
    rest = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    if not isinstance(reflected, int) or ours.get("crc32") != _checksum(rest, reflected):
        return None
    return Snapshot(document, PhysicalOffset(reflected))


def _entries(value: object) -> str | list[str]:
    """A value encoded; a table as its entries, one at a time: the encoder holds the interpreter while it runs, and the loop
    would wait for tens of thousands of offsets.
    """
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        return _encode(value)
    return [f"{_encode(key)}:{_encode(entry)}" for key, entry in value.items()]


def _joined(entries: Mapping[str, str | list[str]], between: str = ",") -> str:
    """The document. `between`: entries, of the document and of its tables."""
    tables = (
        f"{_encode(name)}:{value if isinstance(value, str) else '{' + between.join(value) + '}'}"
        for name, value in entries.items()
    )
    return "{" + between.join(tables) + "}"


def _encode(value: object) -> str:
    return _ENCODER.encode(value)


def _checksum(text: str, reflected: int) -> int:
    return zlib.crc32(f"{reflected} {text}".encode("utf-8", "surrogatepass"))


def _quote_key(match: re.Match[str]) -> str:
    return match[0] if match[2] is None else f'{match[1]}"{match[2]}"'
