"""The kernel's test of records by their properties: what it takes, where it stops, and which values it hands over."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from types import ModuleType

import pytest

Values = Sequence[bytes | None]


def entry(name: str, value: str) -> bytes:
    return f"{name}\x01{value}\x02".encode()


def record(kernel: ModuleType, properties: bytes, body: bytes = b"body", **fields: object) -> bytes:
    encoded: bytes = kernel.encode_record(topic=b"trades", body=body, properties=properties, **fields)
    return encoded


class Log:
    """Records back to back from a physical offset on, and their units."""

    def __init__(self, base: int, *records: bytes) -> None:
        self.base = base
        self.bytes = b"".join(records)
        self.offsets = [base + sum(map(len, records[:index])) for index in range(len(records))]
        rows = zip(self.offsets, map(len, records), strict=True)
        self.units = b"".join(struct.pack(">qiq", offset, size, 0) for offset, size in rows)


def select(
    kernel: ModuleType,
    log: Log,
    test: Callable[[Values], object],
    *names: bytes,
    messages: int = 100,
    size: int = 1 << 20,
    has_time: Callable[[], bool] = lambda: True,
    units: bytes | None = None,
    runs_max: int = 100,
    needs: tuple[tuple[int, int, float | bytes], ...] = (),
) -> tuple[int, int, list[tuple[int, int]]]:
    selector = kernel.UnitSelector(runs_max)
    selector.select_where(
        log.units if units is None else units, memoryview(log.bytes), log.base, names, needs, test, messages, size,
        has_time,
    )  # fmt: skip
    runs = [(selector.runs[2 * i], selector.runs[2 * i + 1]) for i in range(selector.run_count)]
    assert sum(end - begin for begin, end in runs) == selector.size_bytes
    return selector.examined, selector.matched, runs


PROPERTIES: list[tuple[bytes, Values]] = [
    (b"", [None, None]),
    (entry("a", "1"), [b"1", None]),
    (entry("bb", "2") + entry("a", "1"), [b"1", b"2"]),
    (entry("a", "1")[:-1], [b"1", None]),  # the last separator may be missing
    (entry("a", "1") + entry("a", "2"), [b"2", None]),  # the last one counts
    (entry("a", ""), [None, None]),  # no value, no property
    (b"a\x02", [None, None]),
    (b"\x01x\x02" + entry("aa", "1") + entry("b", "2"), [None, None]),
    (entry("a", "x\x01y"), [b"x\x01y", None]),
    (entry("a", "ü") + b"\xff\x01\xfe\x02", ["ü".encode(), None]),
    (b"\x02\x02\x01\x02" + entry("bb", "z" * 3000), [None, b"z" * 3000]),
]


@pytest.mark.parametrize(("properties", "values"), PROPERTIES)
@pytest.mark.parametrize(
    "fields",
    [{}, {"born_host": bytes(20)}, {"store_host": bytes(20)}, {"body": b""}],
    ids=["v4", "born6", "store6", "empty"],
)
def test_the_values_of_the_names_asked_for(kernel: ModuleType, properties: bytes, values: Values, fields: dict) -> None:
    seen: list[Values] = []
    log = Log(1000, record(kernel, properties, **fields))
    select(kernel, log, lambda found: seen.append(list(found)), b"a", b"bb")
    assert seen == [values]


def test_a_long_topic_s_records_are_read(kernel: ModuleType) -> None:
    long = kernel.encode_record(topic=b"%RETRY%" + b"g" * 200, body=b"x", properties=entry("a", "1"))
    assert select(kernel, Log(0, long), lambda values: values == [b"1"], b"a")[1] == 1


def test_neighbours_that_pass_become_one_range(kernel: ModuleType) -> None:
    log = Log(64, *(record(kernel, entry("n", str(number))) for number in (1, 1, 0, 1)))
    examined, matched, runs = select(kernel, log, lambda values: values[0] == b"1", b"n")
    assert (examined, matched) == (4, 3)
    assert runs == [(64, log.offsets[2]), (log.offsets[3], log.base + len(log.bytes))]


@pytest.mark.parametrize("answer", [False, None, 1, "yes"])
def test_only_true_passes(kernel: ModuleType, answer: object) -> None:
    log = Log(0, record(kernel, b""))
    assert select(kernel, log, lambda values: answer) == (1, 0, [])


def test_bounds(kernel: ModuleType) -> None:
    log = Log(0, *(record(kernel, b"") for _ in range(10)))
    size = log.offsets[1]
    everything = lambda values: True  # noqa: E731
    assert select(kernel, log, everything, messages=3)[:2] == (3, 3)
    assert select(kernel, log, everything, size=4 * size)[:2] == (4, 4)
    assert select(kernel, log, everything, size=4 * size - 1)[:2] == (3, 3)
    assert select(kernel, log, everything, size=1)[:2] == (1, 1)
    assert select(kernel, log, lambda values: False, messages=1)[:2] == (10, 0)
    odd = iter(range(10))
    assert select(kernel, log, lambda values: next(odd) % 2 == 1, runs_max=2)[:2] == (5, 2)


def test_it_asks_for_time_every_few_records_and_always_comes_on(kernel: ModuleType) -> None:
    log = Log(0, *(record(kernel, b"") for _ in range(40)))
    assert select(kernel, log, lambda values: False, has_time=lambda: False)[:2] == (16, 0)
    turns = iter([True, False])
    assert select(kernel, log, lambda values: False, has_time=lambda: next(turns))[:2] == (32, 0)


def test_it_stops_where_a_record_is_not_whole_in_the_bytes_given(kernel: ModuleType) -> None:
    log = Log(500, *(record(kernel, b"") for _ in range(3)))
    whole = log.bytes
    log.bytes = whole[:-1]
    assert select(kernel, log, lambda values: True)[:2] == (2, 2)
    log.bytes, log.base = whole, 501
    assert select(kernel, log, lambda values: True) == (0, 0, [])


def test_filler_is_passed_over_and_what_cannot_be_read_is_taken(kernel: ModuleType) -> None:
    log = Log(0, record(kernel, b""), record(kernel, b""))
    filler = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)
    assert select(kernel, log, lambda values: False, units=filler + log.units + filler)[:2] == (4, 0)
    log.bytes = log.bytes[: log.offsets[1]] + bytes(len(log.bytes) - log.offsets[1])
    assert select(kernel, log, lambda values: False)[1:] == (1, [(log.offsets[1], len(log.bytes))])


def test_an_error_of_the_test_comes_out(kernel: ModuleType) -> None:
    def fail(values: Values) -> bool:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        select(kernel, Log(0, record(kernel, b"")), fail)


LESS, EQUAL, GREATER, ANY = 1, 2, 4, 7


@pytest.mark.parametrize(
    ("value", "operand", "outcome"),
    [
        ("10", 10, EQUAL),
        ("9", 10, LESS),
        ("11", 10, GREATER),
        ("+10", 10.0, EQUAL),
        ("-10", 10, LESS),
        ("-10", -10.5, GREATER),
        ("0010", 10, EQUAL),
        ("-0", 0, EQUAL),
        ("10", float("inf"), LESS),
        ("999999999999999", 999999999999999, EQUAL),
        ("999999999999999", 999999999999998.9, GREATER),
        ("1000000000000000", 5, ANY),  # more digits than are looked at here
        ("1.0", 5, ANY),
        ("1e1", 5, ANY),
        ("x", 5, ANY),
        ("-", 5, ANY),
        ("1 ", 5, ANY),
        ("/", 5, ANY),
        (":", 5, ANY),
        ("eu", b"eu", EQUAL),
        ("eu", b"us", LESS | GREATER),
        ("eu", b"e", LESS | GREATER),
        ("e", b"eu", LESS | GREATER),
        ("ü", "ü".encode(), EQUAL),
        ("ü", b"\xc3\xbd", LESS | GREATER),
        ("eu", b"", LESS | GREATER),
    ],
)
def test_what_is_needed_is_looked_at_before_the_test(
    kernel: ModuleType, value: str, operand: float | bytes, outcome: int
) -> None:
    log = Log(0, record(kernel, entry("a", value)))
    for outcomes in range(1, 8):
        _, matched, _ = select(kernel, log, lambda values: True, b"a", needs=((0, outcomes, operand),))
        assert matched == bool(outcomes & outcome), outcomes


def test_a_property_that_is_needed_and_missing_is_never_asked_about(kernel: ModuleType) -> None:
    log = Log(0, *(record(kernel, entry(name, "5")) for name in ("a", "b", "a")))
    seen: list[Values] = []
    assert select(kernel, log, lambda values: seen.append(values), b"b", b"a", needs=((1, ANY, b""),))[:2] == (3, 0)
    assert seen == [[None, b"5"]] * 2
    assert select(kernel, log, lambda values: True, b"a", needs=((0, ANY, b""), (0, GREATER, 5)))[1] == 0


def test_more_is_needed_than_is_looked_at(kernel: ModuleType) -> None:
    names = tuple(b"n%d" % number for number in range(70))
    log = Log(0, record(kernel, b"".join(entry(name.decode(), "1") for name in names)))
    met = tuple((place, EQUAL, 1) for place in range(70))
    assert select(kernel, log, lambda values: values == [b"1"] * 70, *names, needs=met)[1] == 1
    for place in (0, 63, 69):
        needs = tuple((at, LESS if at == place else EQUAL, 1) for at in range(70))
        assert select(kernel, log, lambda values: True, *names, needs=needs)[1] == (place == 69)
