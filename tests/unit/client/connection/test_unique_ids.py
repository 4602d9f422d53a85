"""The parts of a message id that the client brings."""

import os
import struct
from datetime import UTC, datetime

from zenitmq.client.connection.unique_ids import BornTime, month_bounds_ms, new_id_prefix


def test_prefix_is_address_process_and_a_salt_of_its_own() -> None:
    first, second = new_id_prefix(bytes((10, 0, 0, 7))), new_id_prefix(bytes((10, 0, 0, 7)))
    assert first[:4] == bytes((10, 0, 0, 7))
    assert struct.unpack(">H", first[4:6])[0] == os.getpid() & 0xFFFF
    assert first[6:] != second[6:]


def test_month_bounds_over_a_year_end() -> None:
    begin, end = month_bounds_ms(int(datetime(2026, 12, 31, 23, 59, tzinfo=UTC).timestamp() * 1000))
    assert datetime.fromtimestamp(begin / 1000, tz=UTC) == datetime(2026, 12, 1, tzinfo=UTC)
    assert datetime.fromtimestamp(end / 1000, tz=UTC) == datetime(2027, 1, 1, tzinfo=UTC)


def test_born_time_never_goes_back(monkeypatch) -> None:
    times = iter([5_000_000, 4_000_000, 5_000_001])
    monkeypatch.setattr("zenitmq.client.connection.unique_ids.now_ms", lambda: next(times))
    born = BornTime()
    assert [born.read() for _ in range(3)] == [(5_000_000, 5_000_000), (5_000_000, 5_000_000), (5_000_001, 5_000_001)]
