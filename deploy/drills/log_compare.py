"""Compares the logs of a group's replicas byte for byte, from their stores' files.

Compares everything that all of them have, record by record. Of the filler that ends a segment only the head belongs to the
log; the bytes behind it differ between replicas. The processes may run; the logs must be level. A segment's file is read as
a whole.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from ...record.codes import MAGIC_BLANK
from ...store.log.commit_log import COMMIT_LOG_FOLDER

HEAD: Final = struct.Struct(">iI")  # of a record: its size, its magic


def differences(stores: Mapping[str, str]) -> list[str]:
    """The differences as text, at most one per pair of neighbours. `stores`: directories by replica. Raises OSError."""
    names = sorted(stores)
    segments = {name: _segments(stores[name]) for name in names}
    found = []
    for one, other in pairwise(names):
        offset = _first_difference(segments[one], segments[other])
        if offset is not None:
            found.append(f"the logs of {one} and {other} differ from {offset} on")
    return found


def _segments(store: str) -> dict[int, str]:
    folder = os.path.join(store, COMMIT_LOG_FOLDER)
    return {int(name): os.path.join(folder, name) for name in os.listdir(folder) if name.isdigit()}


def _first_difference(one: Mapping[int, str], other: Mapping[int, str]) -> int | None:
    begin = max((min(each) for each in (one, other) if each), default=0)
    for base in sorted(base for base in {*one, *other} if base >= begin):
        left, right = _content(one.get(base)), _content(other.get(base))
        if left == right:
            continue
        end = max(_end(left), _end(right))
        if left[:end] != right[:end]:
            return base + next(at for at in range(end) if left[at : at + 1] != right[at : at + 1])
    return None


def _content(path: str | None) -> bytes:
    """Nothing of a file that retention has just deleted: a second look leaves it out."""
    if path is None:
        return b""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _end(segment: bytes) -> int:
    """The end of the last record, including the head of the filler."""
    at = 0
    while at + HEAD.size <= len(segment):
        size_bytes, magic = HEAD.unpack_from(segment, at)
        if size_bytes < HEAD.size:
            break
        if magic == MAGIC_BLANK:
            return at + HEAD.size
        at += size_bytes
    return min(at, len(segment))
