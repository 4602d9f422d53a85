"""Columns of plain buffers, as tests fill and read them, and what they are to hold by the record kernel's own decoder."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

LONGS = ("queueOffset", "bornTimestamp", "storeTimestamp", "bodyCrc")
INTS = ("queueId", "reconsumeTimes", "flag", "sysFlag")
TEXTS = ("messageId", "keys", "tags", "messageGroup", "traceparent")
NAMES = (*LONGS, *INTS, *TEXTS, "body", "deliverTimestamp", "properties")
MS_MAX = 9_223_372_036_854_775
EVERY_OFFSET = (-(1 << 62), 1 << 62)


def numbers(letter: str, count: int) -> memoryview:
    return memoryview(bytearray(count * (8 if letter == "q" else 4))).cast(letter)


class Columns:
    """Buffers for `rows` rows of some columns. `text_bytes`: room of each text; `entries`: of the map."""

    def __init__(
        self,
        kernel: ModuleType,
        names: tuple[str, ...] = NAMES,
        *,
        rows: int = 64,
        text_bytes: int = 1 << 18,
        body_bytes: int = 1 << 16,
        entries: int = 12_000,
        **options: Any,
    ) -> None:
        self.kernel = kernel
        self._buffers: dict[int, tuple[memoryview, memoryview, memoryview]] = {}
        self.given: dict[str, Any] = {}
        for name in names:
            if name in LONGS:
                self.given[name] = numbers("q", rows)
            elif name in INTS:
                self.given[name] = numbers("i", rows)
            elif name == "deliverTimestamp":
                self.given[name] = numbers("q", rows), memoryview(bytearray(b"\xff" * (rows // 8 + 1)))
            elif name == "properties":
                texts = [self._bytes(entries, text_bytes, has_nulls=False) for _ in range(2)]
                self.given[name] = (numbers("i", rows + 1), *texts)
            elif name == "body":
                self.given[name] = self._bytes(rows, body_bytes, has_nulls=False)
            else:
                self.given[name] = self._bytes(rows, text_bytes, has_nulls=True)
        self.filler = kernel.ColumnFiller(rows, self.given, **options)

    def _bytes(self, rows: int, size_bytes: int, *, has_nulls: bool) -> Any:
        valid = bytearray(b"\xff" * (rows // 8 + 1)) if has_nulls else bytearray()
        buffers = numbers("i", rows + 1), memoryview(bytearray(size_bytes)), memoryview(valid)
        column = self.kernel.BytesColumn(*buffers)
        self._buffers[id(column)] = buffers
        return column

    def fill(self, batch: Any, first: int = 0, offsets: tuple[int, int] = EVERY_OFFSET) -> tuple[int, int]:
        index = self.filler.fill(batch, first, *offsets)
        return index, self.filler.status

    def rows(self) -> list[dict[str, Any]]:
        values = {name: list(self._values(name)) for name in self.given}
        return [{name: values[name][row] for name in values} for row in range(self.filler.rows)]

    def _values(self, name: str) -> Iterator[Any]:
        given, rows = self.given[name], self.filler.rows
        if name == "properties":
            ends, names, values = given
            entries = list(zip(self._pieces(names, ends[rows]), self._pieces(values, ends[rows]), strict=True))
            for row in range(rows):
                yield [(key.decode(), value.decode()) for key, value in entries[ends[row] : ends[row + 1]]]
        elif name == "deliverTimestamp":
            numbers_, valid = given
            yield from (numbers_[row] if valid[row // 8] >> row % 8 & 1 else None for row in range(rows))
            assert self.filler.undelayed == sum(not valid[row // 8] >> row % 8 & 1 for row in range(rows))
        elif name in (*LONGS, *INTS):
            yield from given[:rows]
        elif name == "body":
            yield from self._pieces(given, rows)
        else:
            valid = self._buffers[id(given)][2]
            pieces = self._pieces(given, rows)
            there = [bool(valid[row // 8] >> row % 8 & 1) for row in range(rows)]
            assert given.null_count == there.count(False)
            yield from (piece.decode() if is_there else None for piece, is_there in zip(pieces, there, strict=True))

    def _pieces(self, column: Any, count: int) -> list[bytes]:
        ends, data, _ = self._buffers[id(column)]
        assert ends[0] == 0
        assert ends[count] == column.used_bytes
        return [bytes(data[ends[row] : ends[row + 1]]) for row in range(count)]


def expected_row(message: Any, names: tuple[str, ...] = NAMES) -> dict[str, Any]:
    """What a message is as a row, read through `StoredMessage`."""
    properties = message.properties
    tries = message.reconsume_times
    due = properties.get("TIMER_OUT_MS", "")
    row = {
        "queueOffset": message.queue_offset,
        "bornTimestamp": max(-MS_MAX, min(MS_MAX, message.born_at_ms)) * 1000,
        "storeTimestamp": max(-MS_MAX, min(MS_MAX, message.stored_at_ms)) * 1000,
        "bodyCrc": message.body_crc,
        "queueId": message.queue_id,
        "reconsumeTimes": tries - (1 << 32) if tries >> 31 else tries,
        "flag": message.flag,
        "sysFlag": message.sys_flag - (1 << 32) if message.sys_flag >> 31 else message.sys_flag,
        "messageId": message.message_id,
        "keys": properties.get("KEYS"),
        "tags": properties.get("TAGS"),
        "messageGroup": properties.get("__SHARDINGKEY"),
        "traceparent": properties.get("traceparent"),
        "deliverTimestamp": int(due) * 1000 if due.isascii() and due.isdigit() and len(due) <= 15 else None,
        "properties": list(properties.items()),
    }
    if "body" in names:
        row["body"] = message.body
    return {name: row[name] for name in names}
