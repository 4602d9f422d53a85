"""Rows of numbers as a few texts: for the parts of a snapshot that may have a million rows. Pure.

A text is base64( zlib( rows of signed 64 bit numbers, little-endian, at most 4096 rows ) ).
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

ROWS_MAX: Final = 4096
_LEVEL: Final = 1  # a fraction of the time of the default, for nearly as small a text


def pack_rows(rows: Iterable[Sequence[int]]) -> list[str]:
    """The texts of these rows."""
    rest = iter(rows)
    texts = []
    while part := list(islice(rest, ROWS_MAX)):
        numbers = [number for row in part for number in row]
        content = struct.pack(f"<{len(numbers)}q", *numbers)
        texts.append(base64.b64encode(zlib.compress(content, _LEVEL)).decode())
    return texts


def unpack_rows(texts: Sequence[str], width: int) -> Iterator[tuple[int, ...]]:
    """The reverse. `width`: numbers of a row. Raises ValueError."""
    bytes_max = ROWS_MAX * width * 8
    for text in texts:
        unpacking = zlib.decompressobj()
        try:
            content = unpacking.decompress(base64.b64decode(text, validate=True), bytes_max)
        except zlib.error as error:
            raise ValueError("no packed rows") from error
        if not unpacking.eof or len(content) % (width * 8):
            raise ValueError("no packed rows of that width")
        yield from struct.iter_unpack(f"<{width}q", content)
