"""Golden bytes of the replication port's frames, both ways; the page that draws them shows the table of the code."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from zenitmq.broker.replication.epochs import ROWS_MAX, EpochList
from zenitmq.broker.replication.frame_codec import decode, encode
from zenitmq.broker.replication.frames import (
    FRAME_BYTES_MAX,
    FRAMES,
    HEADER,
    SESSION_MAX,
    Accepted,
    Ack,
    Chunk,
    Credit,
    Frame,
    FrameField,
    Goodbye,
    Idle,
    Opening,
    RefusalReason,
    Refused,
    Side,
    group_key,
)
from zenitmq.model.errors import RemoteProtocolError
from zenitmq.model.groups.group import Incarnation

PAGE = Path(__file__).parents[4] / "docs" / "formats" / "replication.md"
BEGIN, END = "<!-- frames -->\n", "<!-- end -->"
M, S = Side.MASTER, Side.SLAVE
KEY = 0x0102030405060708
STAMP = (KEY, 7, (3 << 32) + 1)
HEAD = "5a5201{:02x}010203040506070800000000000000070000000300000001"

GOLDEN: list[tuple[Frame, Side, str]] = [
    (
        Opening(*STAMP, "b2", Incarnation("s-9", 3), 500, 400, EpochList.of([(1, 0), (6, 300)]), True),
        M,
        HEAD.format(1)
        + "0000000000000003"
        + "00000000000001f40000000000000190"
        + "01"
        + "02"
        + "03"
        + "0002"
        + "6232"
        + "732d39"
        + "00000000000000010000000000000000"
        + "0000000000000006000000000000012c",
    ),
    (
        Opening(*STAMP, "b", Incarnation("s", 1), 0, 0, EpochList(), False),
        M,
        HEAD.format(1) + "0000000000000001" + "00" * 16 + "00" + "01" + "01" + "0000" + "62" + "73",
    ),
    (Accepted(*STAMP, 300), S, HEAD.format(2) + "000000000000012c"),
    (Refused(*STAMP, RefusalReason.OTHER_EPOCH), S, HEAD.format(3) + "01" + "00" * 16 + "0000"),
    (
        Refused(*STAMP, RefusalReason.BEHIND_RETENTION, 300, 1024, EpochList.of([(5, 900)])),
        S,
        HEAD.format(3)
        + "04"
        + "000000000000012c"
        + "0000000000000400"
        + "0001"
        + "0000000000000005"
        + "0000000000000384",
    ),
    (Credit(*STAMP, 1 << 40), M, HEAD.format(4) + "0000010000000000"),
    (
        Chunk(*STAMP, 6, 300, 500, 290, 0xFFFFFFFE, False),
        S,
        HEAD.format(5)
        + "0000000000000006"
        + "000000000000012c"
        + "00000000000001f4"
        + "0000000000000122"
        + "fffffffe"
        + "00",
    ),
    (
        Chunk(*STAMP, 7, 0, 8 << 20, 0, 0, True),
        S,
        HEAD.format(5) + "0000000000000007" + "00" * 8 + "0000000000800000" + "00" * 8 + "00000000" + "01",
    ),
    (
        Chunk(*STAMP, 7, 1 << 30, 1 << 31, 0, 0, False),
        S,
        HEAD.format(5) + "0000000000000007" + "0000000040000000" + "0000000080000000" + "00" * 8 + "00000000" + "00",
    ),
    (Idle(*STAMP, 500, 499), S, HEAD.format(6) + "00000000000001f4" + "00000000000001f3"),
    (Ack(*STAMP, 500, 400), M, HEAD.format(7) + "00000000000001f4" + "0000000000000190"),
    (Goodbye(*STAMP), M, HEAD.format(8)),
    (Goodbye(*STAMP), S, HEAD.format(8)),
]


@pytest.mark.parametrize(("frame", "at", "expected"), GOLDEN)
def test_a_frame_is_these_bytes_both_ways(frame: Frame, at: Side, expected: str) -> None:
    assert encode(frame).hex() == expected
    data = bytes.fromhex(expected)
    assert decode(data, at) == frame
    assert decode(memoryview(data), at) == frame


def test_every_kind_of_frame_has_golden_bytes() -> None:
    assert {type(frame) for frame, _, _ in GOLDEN} == {layout.cls for layout in FRAMES}
    assert {(type(frame), at) for frame, at, _ in GOLDEN} == {(row.cls, side) for row in FRAMES for side in row.to}


@pytest.mark.parametrize(("frame", "at", "expected"), GOLDEN)
def test_a_frame_cut_anywhere_or_with_a_tail_is_refused(frame: Frame, at: Side, expected: str) -> None:
    data = bytes.fromhex(expected)
    for count in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            decode(data[:count], at)
    with pytest.raises(RemoteProtocolError):
        decode(data + b"\0", at)


@pytest.mark.parametrize(("frame", "at", "expected"), GOLDEN)
def test_a_frame_at_the_wrong_side_is_refused(frame: Frame, at: Side, expected: str) -> None:
    other = S if at is M else M
    if not isinstance(frame, Goodbye):
        with pytest.raises(RemoteProtocolError):
            decode(bytes.fromhex(expected), other)


def test_whatever_bits_are_flipped_only_a_protocol_error_comes_out() -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    refused = 0
    for _ in range(20_000):
        _, at, text = rng.choice(GOLDEN)
        data = bytearray.fromhex(text)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        try:
            frame = decode(bytes(data), at)
        except RemoteProtocolError:
            refused += 1
        else:
            assert encode(frame) == data, f"seed {seed}: {data.hex()}"
    assert refused > 1000, f"seed {seed}"


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (Chunk(*STAMP, 6, 300, 300, 0, 0, False), "nothing in it"),
        (Chunk(*STAMP, 6, 300, 301 + (1 << 30), 0, 0, False), "longer than a segment"),
        (Chunk(*STAMP, 8, 0, 1, 0, 0, False), "data of an epoch to come"),
        (Refused(*STAMP, RefusalReason.BEHIND_RETENTION, 0, 9, EpochList.of([(1, 10)])), "an epoch behind the begin"),
        (Ack(*STAMP, 1, 2), "more flushed than written"),
        (Opening(*STAMP, "b", Incarnation("s", 1), 5, 6, EpochList(), False), "more flushed than written"),
        (Opening(*STAMP, "b", Incarnation("s", 1), 5, 5, EpochList.of([(8, 0)]), False), "an epoch not promised"),
        (Opening(*STAMP, "b", Incarnation("s", 1), 5, 5, EpochList.of([(1, 6)]), False), "an epoch behind the end"),
        (Opening(KEY, 7, SESSION_MAX + 1, "b", Incarnation("s", 1), 5, 5, EpochList(), False), "no number after it"),
        (Refused(*STAMP, RefusalReason.STALE_SESSION, SESSION_MAX + 1), "no number after it"),
        (Opening(*STAMP, "", Incarnation("s", 1), 5, 5, EpochList(), False), "no name"),
        (Opening(*STAMP, "b", Incarnation("", 1), 5, 5, EpochList(), False), "no store"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(frame: Frame, what: str) -> None:
    at = M if isinstance(frame, Ack | Opening) else S
    with pytest.raises(RemoteProtocolError):
        decode(encode(frame), at)


def test_epochs_out_of_order_are_refused() -> None:
    good = encode(Opening(*STAMP, "b", Incarnation("s", 1), 9, 9, EpochList.of([(1, 0), (2, 5)]), False))
    swapped = good[:-32] + good[-16:] + good[-32:-16]
    with pytest.raises(RemoteProtocolError, match="epoch"):
        decode(swapped, M)


def test_the_longest_opening_fits() -> None:
    epochs = EpochList.of((number, number) for number in range(1, ROWS_MAX + 1))
    opening = Opening(KEY, ROWS_MAX, 1, "n" * 255, Incarnation("s" * 255, 1), ROWS_MAX, 0, epochs, False)
    data = encode(opening)
    assert len(data) <= FRAME_BYTES_MAX
    assert decode(data, M) == opening


def test_the_key_tells_groups_and_clusters_apart() -> None:
    keys = {group_key(cluster, name) for cluster in ("zenit", "test") for name in ("broker-a", "broker-b")}
    assert len(keys) == 4
    assert all(0 <= key < 1 << 63 for key in keys)
    assert group_key("zenit", "broker-a") == 0x3689EC84678CA26B


def table() -> str:
    """What stands between the marks of the page."""

    def rows(fields: tuple[FrameField, ...], at: int) -> list[str]:
        lines = ["| at | bytes | field | meaning |", "|---|---|---|---|"]
        for field in fields:
            lines.append(f"| {at} | {field.size_bytes} | {field.name} | {field.meaning} |")
            at += field.size_bytes
        return lines

    size = sum(field.size_bytes for field in HEADER)
    parts = [f"**Header** ({size} bytes, before every frame's own fields)", "", *rows(HEADER, 0)]
    for layout in FRAMES:
        to = " and ".join(side.value for side in layout.to)
        parts += ["", f"**{layout.kind} {layout.cls.__name__}**, to the {to}"]
        parts += ["", *rows(layout.fields, size)] if layout.fields else []
        parts += ["", f"Then: {layout.tail}."] if layout.tail else []
    return "\n".join(parts) + "\n"


def test_the_page_shows_the_table_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    expected = head + BEGIN + table() + END + tail
    if "ZENIT_REWRITE_DOCS" in os.environ:
        PAGE.write_text(expected, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == expected, "run this test once with ZENIT_REWRITE_DOCS=1"
