"""Logs are compared record by record; what lies behind a segment's filler is nobody's."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.deploy.drills.log_compare import differences
from zenitmq.record.codes import MAGIC_BLANK

SEGMENT = 64


def record(body: bytes) -> bytes:
    return (8 + len(body)).to_bytes(4, "big") + bytes(4) + body


def filler(rest: int, behind: bytes = b"") -> bytes:
    return rest.to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big") + behind


FIRST = record(b"one") + record(b"two")


class Group:
    """Three replicas whose stores hold these segments."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.stores = {name: str(folder / name) for name in "abc"}
        for name in "abc":
            self.write(name, 0, FIRST + filler(SEGMENT - len(FIRST), name.encode() * 8))
            self.write(name, SEGMENT, record(b"three"))

    def write(self, name: str, base: int, data: bytes) -> None:
        folder = self._folder / name / "commitlog"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{base:020d}").write_bytes(data.ljust(SEGMENT, b"\0"))


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def test_logs_that_differ_behind_their_filler_are_the_same(group: Group) -> None:
    assert differences(group.stores) == []


def test_one_byte_is_found_and_named(group: Group) -> None:
    group.write("b", SEGMENT, record(b"thrEe"))
    at = SEGMENT + 8 + 3
    assert differences(group.stores) == [
        f"the logs of a and b differ from {at} on",
        f"the logs of b and c differ from {at} on",
    ]


def test_a_record_that_one_lacks_is_found(group: Group) -> None:
    group.write("c", SEGMENT, b"")
    assert differences(group.stores) == [f"the logs of b and c differ from {SEGMENT + 3} on"]


def test_a_segment_that_one_lacks_at_the_end_is_found_and_one_that_expired_is_not_missed(group: Group) -> None:
    for name in "ab":
        group.write(name, 2 * SEGMENT, record(b"four"))
    assert differences(group.stores) == [f"the logs of b and c differ from {2 * SEGMENT} on"]
    group.write("c", 2 * SEGMENT, record(b"four"))
    (Path(group.stores["a"]) / "commitlog" / f"{0:020d}").unlink()
    assert differences(group.stores) == []
