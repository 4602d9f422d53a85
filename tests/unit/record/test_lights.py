"""The light queues that a record names: their offsets are written into it, and read back from it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from zenitmq.model.properties import encode_properties
from zenitmq.model.topics.light_queues import LIGHT_QUEUES_MAX, OFFSET_DIGITS, light_properties, light_room
from zenitmq.record import codes
from zenitmq.record.sys_flag import LIGHT

A, B = "%LMQ%a", "%LMQ%b|c-$_"


def record(kernel: ModuleType, properties: bytes, **fields: object) -> bytes:
    return bytes(kernel.encode_record(topic=b"t", body=b"body", properties=properties, **fields))


def naming(kernel: ModuleType, *names: str, more: bytes = b"", **fields: object) -> bytes:
    return record(kernel, more + encode_properties(light_properties(names)), **fields)


def raw(names: str, offsets: str) -> bytes:
    return f"INNER_MULTI_DISPATCH\x01{names}\x02INNER_MULTI_QUEUE_OFFSET\x01{offsets}\x02".encode()


def write(kernel: ModuleType, data: bytearray, ends: dict[str, int], find: Callable[[str], int] = lambda _: 0) -> int:
    return int(kernel.write_light_offsets(data, 0, len(data), ends, find))


def units(kernel: ModuleType, data: bytes) -> list[tuple[str, int, bytes]]:
    count = len(kernel.decode_batch(bytes(data)))
    return list(kernel.light_units(data, b"".join(bytes([index]) * 20 for index in range(count))))


def test_the_numbers_of_the_kernel_are_those_of_the_model() -> None:
    assert (codes.LIGHT_NAMES_MAX, codes.LIGHT_DIGITS) == (LIGHT_QUEUES_MAX, OFFSET_DIGITS)


@pytest.mark.parametrize("first", [0, 9, 99, (1 << 63) - 3])
@pytest.mark.parametrize("more", [b"", b"KEYS\x01k\x02INNER_NUM\x012\x02", b"INNER_MULTI_DISPATCHER\x01x\x02"])
def test_what_is_written_is_read(kernel: ModuleType, first: int, more: bytes) -> None:
    data = bytearray(
        naming(kernel, A, B, more=more) + record(kernel, b"") + naming(kernel, B, more=more, born_host=bytes(20))
    )
    ends = {A: first}
    asked: list[str] = []
    assert write(kernel, data, ends, lambda name: asked.append(name) or 7) == 3
    assert asked == [B]
    assert ends == {A: first + 1, B: 9}
    assert units(kernel, data) == [
        (A, first, b"\0" * 20), (B, 7, b"\0" * 20), (B, 8, b"\2" * 20),
    ]  # fmt: skip
    assert kernel.decode_batch(bytes(data))[0].properties["INNER_MULTI_QUEUE_OFFSET"] == f"{first:019d},{7:019d}"


@pytest.mark.parametrize(
    ("names", "room", "reason"),
    [
        ("%LMQ%a", "", codes.BAD_LIGHT_ROOM),
        ("%LMQ%a", "0" * 18, codes.BAD_LIGHT_ROOM),
        ("%LMQ%a", "0" * 20, codes.BAD_LIGHT_ROOM),
        ("%LMQ%a", light_room(2), codes.BAD_LIGHT_ROOM),
        ("%LMQ%a,", light_room(2), codes.BAD_LIGHT_NAMES),
        ("%LMQ%a,%LMQ%a", light_room(2), codes.BAD_LIGHT_NAMES),
        ("%LMQ%", light_room(1), codes.BAD_LIGHT_NAMES),
        ("a", light_room(1), codes.BAD_LIGHT_NAMES),
        ("%LMQ%a/b", light_room(1), codes.BAD_LIGHT_NAMES),
        ("%LMQ%ä", light_room(1), codes.BAD_LIGHT_NAMES),
        ("%LMQ%" + "x" * 251, light_room(1), codes.BAD_LIGHT_NAMES),
        (",".join(f"%LMQ%{n}" for n in range(65)), light_room(65), codes.BAD_LIGHT_NAMES),
    ],
)
def test_a_batch_with_a_wrong_record_moves_nothing(kernel: ModuleType, names: str, room: str, reason: int) -> None:
    ends = {A: 5}
    assert write(kernel, bytearray(naming(kernel, A) + record(kernel, raw(names, room))), ends) == reason
    assert {name: end for name, end in ends.items() if end} == {A: 5}
    assert codes.REASONS[reason]


def test_a_batch_whose_queue_cannot_be_found_moves_nothing(kernel: ModuleType) -> None:
    def refuse(name: str) -> int:
        raise KeyError(name)

    ends = {A: 5}
    run = kernel.RunKernel(record_max=1 << 20, body_max=1 << 20)
    data = bytearray(naming(kernel, A, more=b"KEYS\x01k\x02") + naming(kernel, B))
    with pytest.raises(KeyError):
        run.stamp(data, 0, len(data), b"t", 0, 2, 0, 0, 0, 1, False, ends, refuse)
    assert (ends, run.units_end, run.keys_end) == ({A: 5}, 0, 0)


@pytest.mark.parametrize("value", [raw(A, "5,6"), raw(A + "," + B, "5"), raw(A, "x"), raw(A, "9" * 19), raw("a", "5")])
def test_what_does_not_fit_together_names_no_queue(kernel: ModuleType, value: bytes) -> None:
    assert units(kernel, record(kernel, value)) == []


def test_offsets_as_rocketmq_writes_them_are_read(kernel: ModuleType) -> None:
    assert units(kernel, record(kernel, raw(f"{A},other,{B}", "5,6,17"))) == [(A, 5, b"\0" * 20), (B, 17, b"\0" * 20)]


def test_a_run_tells_that_it_has_some(kernel: ModuleType) -> None:
    run = kernel.RunKernel(record_max=1 << 20, body_max=1 << 20)
    plain = bytearray(record(kernel, b"KEYS\x01k\x02"))
    assert run.stamp(plain, 0, len(plain), b"t", 0, 1, 0, 0, 0, 1, False, {}, len) == 1
    assert (run.is_light, run.has_lights) == (False, False)
    data = bytearray(record(kernel, b"") + naming(kernel, A) + record(kernel, b""))
    assert run.stamp(data, 0, len(data), b"t", 0, 3, 0, 0, 0, 1, False, None, None) == 3
    assert (run.is_light, run.has_lights) == (False, False)
    assert run.stamp(data, 0, len(data), b"t", 0, 3, 0, 0, 0, 1, False, {}, lambda _: 4) == 3
    assert (run.is_light, run.has_lights) == (True, True)
    run.clear()
    assert not run.has_lights
    assert run.scan(data, 0, len(data), 0) == 3
    assert (run.sys_flag, run.has_lights) == (LIGHT, True)
    assert run.scan(plain, 0, len(plain), 0) == 1
    assert run.sys_flag == 0


def test_a_record_is_at_home_in_its_light_queues_too(kernel: ModuleType) -> None:
    data = bytearray(naming(kernel, A, B, physical_offset=50, queue_id=3, queue_offset=2))
    write(kernel, data, {A: 5, B: 17})
    assert kernel.is_record_of(data, 50, b"t", 3, 2)
    assert kernel.is_record_of(data, 50, A.encode(), 0, 5)
    assert kernel.is_record_of(data, 50, B.encode(), 0, 17)
    for physical, name, queue_id, offset in ((51, A, 0, 5), (50, A, 3, 5), (50, A, 0, 17), (50, "%LMQ%x", 0, 5)):
        assert not kernel.is_record_of(data, physical, name.encode(), queue_id, offset)
