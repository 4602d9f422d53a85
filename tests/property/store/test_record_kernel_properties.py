"""Whatever bytes come in, both forms of the kernel agree, and neither reads or writes outside them."""

from __future__ import annotations

import importlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import NAME, interpreted_kernel
from zenitmq.model.errors import CorruptRecordError
from zenitmq.model.properties import decode_properties
from zenitmq.model.tag_hash import java_hash
from zenitmq.record.kernel import WrittenRun

INSTALLED = importlib.import_module(NAME)
INTERPRETED = interpreted_kernel()
LIMITS = {"record_max": 4096, "body_max": 2048}

names = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=12)
properties = st.dictionaries(names, names, max_size=4).map(
    lambda entries: "".join(f"{name}\x01{value}\x02" for name, value in entries.items()).encode()
)
tokens = st.text(st.characters(exclude_characters="\x00\x01\x02 ", exclude_categories=["Cs"]), min_size=1, max_size=12)
messages = st.tuples(
    st.binary(max_size=200), st.none() | tokens, st.none() | st.lists(tokens, min_size=1, max_size=4), properties
)


def accumulate(kernel, sent: list) -> bytearray:
    made = kernel.Accumulator(b"topic", 1 << 16, id_prefix=bytes(10))
    made.begin(1, 2)
    for body, tags, keys, extra in sent:
        assert made.append(body, tags, keys, extra)
    buffer, used, *_ = made.swap(bytearray(1))
    return buffer[:used]


def stamped(kernel, batch: bytearray, count: int) -> tuple:
    run = kernel.RunKernel(**LIMITS)
    result = run.stamp(batch, 0, len(batch), b"topic", kernel.index_topic_hash(b"topic"), count, 1, 10, 20, 30)
    return (
        result,
        bytes(run.units[: run.units_end]),
        list(run.hashes[: run.keys_end]),
        list(run.key_offsets[: run.keys_end]),
    )


def scanned(kernel, data: bytes, crc: bool) -> list:
    run = kernel.RunKernel(**LIMITS)
    seen, begin = [], 0
    while run.scan(data, begin, len(data), 20 + begin, crc):
        seen.append(
            (run.topic, run.queue_id, run.queue_offset, run.count, run.end, run.store_timestamp_ms, run.sys_flag)
        )
        begin = run.end
    return [seen, run.status, bytes(run.units[: run.units_end]), list(run.hashes[: run.keys_end])]


@given(st.lists(messages, min_size=1, max_size=6))
def test_what_is_encoded_comes_back(sent: list) -> None:
    compiled, interpreted = accumulate(INSTALLED, sent), accumulate(INTERPRETED, sent)
    assert compiled == interpreted
    for kernel in (INSTALLED, INTERPRETED):
        for message, (body, tags, keys, extra) in zip(kernel.decode_batch(bytes(compiled)), sent, strict=True):
            assert message.body == body
            assert message.properties_as_stored.startswith(extra)
            if "TAGS\x01" not in extra.decode() and "KEYS\x01" not in extra.decode():
                assert (message.tags, message.keys) == (tags, tuple(" ".join(keys or []).split()))


@given(st.lists(messages, min_size=1, max_size=5))
def test_both_kernels_stamp_and_scan_alike(sent: list) -> None:
    one, other = accumulate(INSTALLED, sent), accumulate(INTERPRETED, sent)
    assert stamped(INSTALLED, one, len(sent)) == stamped(INTERPRETED, other, len(sent))
    assert one == other
    assert scanned(INSTALLED, bytes(one), crc=True) == scanned(INTERPRETED, bytes(one), crc=True)
    assert scanned(INSTALLED, bytes(one), crc=True)[0][0][3] == len(sent)


@settings(max_examples=300)
@given(st.lists(messages, min_size=1, max_size=3), st.data())
def test_flipped_bits_never_break_a_bound(sent: list, data: st.DataObject) -> None:
    batch = accumulate(INSTALLED, sent)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(batch) - 1))
        batch[position] ^= 1 << data.draw(st.integers(0, 7))
    room = bytearray(b"\xee" * 64) + batch + bytearray(b"\xee" * 64)  # what lies around must stay as it is
    outcomes = []
    for kernel in (INSTALLED, INTERPRETED):
        copy = bytearray(room)
        run = kernel.RunKernel(**LIMITS)
        topic_hash = kernel.index_topic_hash(b"topic")
        result = run.stamp(copy, 64, 64 + len(batch), b"topic", topic_hash, len(sent), 1, 10, 20, 30)
        assert copy[:64] == copy[-64:] == b"\xee" * 64
        outcomes.append((result, bytes(copy) if result > 0 else b"", list(run.hashes[: run.keys_end])))
        outcomes.append(tuple(map(str, scanned(kernel, bytes(batch), crc=False))))
        try:
            outcomes.append([m.properties for m in kernel.decode_batch(bytes(batch))])
        except CorruptRecordError as error:
            outcomes.append(error.args)
    half = len(outcomes) // 2
    assert outcomes[:half] == outcomes[half:]


@given(st.binary(max_size=400))
def test_random_bytes_are_refused_alike(data: bytes) -> None:
    assert stamped(INSTALLED, bytearray(data), 1) == stamped(INTERPRETED, bytearray(data), 1)
    assert scanned(INSTALLED, data, crc=True) == scanned(INTERPRETED, data, crc=True)
    if data:
        with pytest.raises(CorruptRecordError):
            INSTALLED.decode_record(data)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_hashes_are_java_s_for_any_text(text: str) -> None:
    assert INSTALLED.hash_text(text.encode()) == INTERPRETED.hash_text(text.encode()) == java_hash(text)


unit_rows = st.lists(
    st.tuples(st.integers(0, 1 << 40), st.integers(1, 5000) | st.just(0x7FFFFFFF), st.integers(-3, 3)), max_size=30
)


@given(
    unit_rows,
    st.lists(st.integers(-3, 3), max_size=3),
    st.integers(1, 40),
    st.integers(1, 20000),
    st.integers(0, 1 << 41),
)
def test_selections_agree_and_cover_what_they_count(
    rows: list, codes: list, messages_max: int, bytes_max: int, limit: int
) -> None:
    data = b"".join(o.to_bytes(8, "big") + s.to_bytes(4, "big") + c.to_bytes(8, "big", signed=True) for o, s, c in rows)
    outcomes = []
    for kernel in (INSTALLED, INTERPRETED):
        selector = kernel.UnitSelector()
        selector.select(data, 0, len(data), tuple(sorted(set(codes))), messages_max, bytes_max, limit)
        runs = [tuple(selector.runs[2 * i : 2 * i + 2]) for i in range(selector.run_count)]
        assert sum(end - begin for begin, end in runs) == selector.size_bytes
        outcomes.append((selector.examined, selector.matched, runs))
    assert outcomes[0] == outcomes[1]
    taken = [r for r in rows[: outcomes[0][0]] if r[1] != 0x7FFFFFFF and (not codes or r[2] in codes)]
    assert len(taken) == outcomes[0][1]


pieces = st.lists(st.sampled_from([b"a", b"bb", b"\x01", b"\x02", b"1", "ü".encode(), b"\xff"]), max_size=30).map(
    b"".join
)


@given(
    st.lists(properties.filter(bool) | pieces, min_size=1, max_size=4), st.lists(st.sampled_from("a bb ü 1".split()))
)
def test_a_selection_hands_over_the_values_that_decoding_finds(fields: list[bytes], asked: list[str]) -> None:
    encoded = [INSTALLED.encode_record(topic=b"topic", body=b"x", properties=field) for field in fields]
    log, at, units = memoryview(b"".join(encoded)), 0, bytearray()
    for one in encoded:
        units += struct.pack(">qiq", at, len(one), 0)
        at += len(one)
    wanted = tuple(dict.fromkeys(asked))
    for kernel in (INSTALLED, INTERPRETED):
        seen: list[list[bytes | None]] = []
        kernel.UnitSelector().select_where(
            bytes(units), log, 0, tuple(name.encode() for name in wanted), (), seen.append, 100, 1 << 30, lambda: True
        )
        shown = [[value if value is None else value.decode("utf-8", "replace") for value in one] for one in seen]
        decoded = [decode_properties(field) for field in fields]
        assert shown == [[found.get(name) for name in wanted] for found in decoded]


class Target:
    """A queue that runs go to, as `scan_runs` knows it."""

    def __init__(self, name: tuple[bytes, int], next_offset: int) -> None:
        self.name = name
        self.next_offset = next_offset


placed = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"bb", b"events"]),
        st.integers(0, 2),  # queue
        st.sampled_from([0, 0, 0, 1]),  # queue offsets left out before it
        st.sampled_from([0, 0, 1]),  # ms since the one before
        st.sampled_from([0, 0, 0, 0, 4, 8, 12]),  # sysFlag
        st.booleans(),  # has a key
    ),
    max_size=30,
)


def laid_out(kernel, records: list) -> bytes:
    data, ends, now = b"", dict[tuple[bytes, int], int](), 5
    for topic, queue_id, gap, later, flag, has_key in records:
        offset = ends.get((topic, queue_id), 7) + gap
        ends[topic, queue_id], now = offset + 1, now + later
        data += kernel.encode_record(
            topic=topic,
            body=b"x" * len(data[:3]),
            properties=b"KEYS\x01k\x02" if has_key else b"",
            queue_id=queue_id,
            queue_offset=offset,
            physical_offset=20 + len(data),
            sys_flag=flag,
            store_timestamp_ms=now,
        )
    return data


def facts_of(run: WrittenRun) -> tuple:
    return (run.target.name, run.queue_offset, run.count, run.begin, run.end, run.store_timestamp_ms, run.units_begin,
            run.units_end, run.keys_begin, run.keys_end, run.at, run.sys_flag)  # fmt: skip


@pytest.mark.parametrize("kernel", [INSTALLED, INTERPRETED], ids=["installed", "interpreted"])
@given(records=placed, tail=st.sampled_from([b"", bytes(40), b"\xff" * 40]))
def test_many_runs_in_one_call_are_those_of_many_calls(kernel, records: list, tail: bytes) -> None:
    data = laid_out(kernel, records) + tail
    one, many = kernel.RunKernel(**LIMITS), kernel.RunKernel(**LIMITS)
    begin = 0
    while begin < len(data):
        targets, runs = dict[tuple[bytes, int], Target](), list[WrittenRun]()
        found_at = list[tuple[int, int]]()

        def find(position: int, size: int, asked=found_at) -> Target:
            asked.append((position, size))
            return Target((many.topic, many.queue_id), many.queue_offset)

        plain = many.scan_runs(data, begin, len(data), 20 + begin, targets, find, b"events", runs)
        expected, at, visible, ends = list[tuple](), begin, True, dict[tuple[bytes, int], int]()
        while at < len(data):
            units_begin, keys_begin = one.units_end, one.keys_end
            if not one.scan(data, at, len(data), 20 + at):
                break
            key = (one.topic, one.queue_id)
            visible &= ends.get(key, one.queue_offset) == one.queue_offset and not one.sys_flag & 0xC
            ends[key] = one.queue_offset + one.count
            expected.append(
                (key, one.queue_offset, one.count, 20 + at, 20 + one.end, one.store_timestamp_ms, units_begin,
                 one.units_end, keys_begin, one.keys_end, at, one.sys_flag)
            )  # fmt: skip
            at = one.end
            if one.topic == b"events":
                break
        assert [facts_of(run) for run in runs] == expected
        assert (plain, many.status, many.count, many.end) == (visible, one.status, one.count, one.end)
        assert bytes(many.units[: many.units_end]) == bytes(one.units[: one.units_end])
        assert list(many.hashes[: many.keys_end]) == list(one.hashes[: one.keys_end])
        assert len(found_at) == len(targets) == len(ends)
        gathered = {target.name: (first, bytes(units)) for target, first, units in many.units_by_target(runs)}
        assert gathered == {
            key: (
                next(run[1] for run in expected if run[0] == key),
                b"".join(bytes(one.units[run[6] : run[7]]) for run in expected if run[0] == key),
            )
            for key in ends
        }
        if not many.count:
            break
        begin = many.end
