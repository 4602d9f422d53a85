"""The manifest: what it says comes back; what is damaged, newer or contradicts itself is refused, with the remedy."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.broker.replication.epochs import EpochList
from zenitmq.deploy.backup.manifest import BackupManifest, LogObject, StatePoint, Stretch, decode_manifest
from zenitmq.model.errors import BackupRefused

SHA = "ab" * 32
OBJECTS = (
    LogObject("log/00000000000000004096-1-aa", 4096, 8192, 4000, SHA, 1, 10),
    LogObject("log/00000000000000008192-2-bb", 8192, 9000, 808, SHA, 2, 20),
)
POINTS = (StatePoint("state/00000000000000004096-1-cc", 4096, 5000, 100, SHA, 5),)
MANIFEST = BackupManifest(
    "9f1c2b3a4d5e6f70",
    "orders-a",
    "",
    4096,
    promised=3,
    epochs=EpochList.of([(1, 0), (2, 8192)]),
    stretches=(Stretch(0, (replace(OBJECTS[0], begin=0, end=300, size_bytes=300),)), Stretch(4096, OBJECTS, POINTS)),
    sequence=7,
    written_ms=99,
)


def framed(document: Any) -> bytes:
    text = json.dumps(document)
    return f"{zlib.crc32(text.encode()):08x}\n{text}".encode()


def document_of(manifest: BackupManifest) -> dict[str, Any]:
    return json.loads(manifest.encode().partition(b"\n")[2])


def test_it_comes_back() -> None:
    assert decode_manifest(MANIFEST.encode(), "here", "orders-a") == MANIFEST
    assert MANIFEST.end == 9000
    assert MANIFEST.gaps == ((300, 4096),)
    assert MANIFEST.stretches[1].usable_points() == POINTS


def test_one_that_was_copied_to_another_groups_place_is_refused() -> None:
    with pytest.raises(BackupRefused, match="the backup of group orders-a, in a place of another name"):
        decode_manifest(MANIFEST.encode(), "here", "orders-b")


@given(st.integers(0, len(MANIFEST.encode()) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_refused(at: int, bits: int) -> None:
    data = bytearray(MANIFEST.encode())
    data[at] ^= bits
    with pytest.raises(BackupRefused):
        decode_manifest(bytes(data), "here", "orders-a")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("version",), 2, "of version 2, and this release knows 1; upgrade"),
        (("segment_bytes",), 0, "segment_bytes 0"),
        (("segment_bytes",), True, "no count"),
        (("stretches", 1, "begin"), 100, "a stretch begins at 100"),
        (("stretches", 1, "objects", 1, "begin"), 8193, "begins at 8193"),
        (("stretches", 1, "objects", 1, "size_bytes"), 5, "has 5 bytes"),
        (("stretches", 1, "objects", 0, "name"), "log/../../etc", "no object's name"),
        (("stretches", 1, "objects", 0, "sha256"), "?", "no checksum"),
        (("stretches", 1, "points", 0, "begin"), 4097, "begins at 4097"),
        (("epochs",), [[2, 0], [1, 5]], "epoch"),
        (("group",), 5, "no name"),
    ],
)
def test_what_contradicts_itself_is_refused(path: tuple[Any, ...], value: Any, said: str) -> None:
    document = document_of(MANIFEST)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(BackupRefused, match=said):
        decode_manifest(framed(document), "here", "orders-a")


@pytest.mark.parametrize("document", [[], {}, {"version": 1}, {**document_of(MANIFEST), "stretches": 5}, None])
def test_what_is_no_manifest_is_refused(document: Any) -> None:
    with pytest.raises(BackupRefused):
        decode_manifest(framed(document), "here", "orders-a")
