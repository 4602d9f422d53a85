"""A record that goes into light queues, and what the queues have of it, byte for byte."""

from pathlib import Path

import pytest
from store_kit import StillClock, kill, light, make_store, message, put

from zenitmq.record.sys_flag import INNER_BATCH, LIGHT
from zenitmq.store.queues.queue_engine import names_lights
from zenitmq.store.queues.rows.rocksdb_units import RocksDbUnits

NAMES = ("%LMQ%a", "%LMQ%$chats$s-1")
PROPERTIES = (
    "494E4E45525F4D554C54495F4449535041544348" "01" "254C4D512561" "2C" "254C4D51252463686174732473" "2D31" "02"
    "494E4E45525F4D554C54495F51554555455F4F4646534554" "01"
)  # fmt: skip


def test_the_record_as_it_is_sent_and_as_it_is_stored(tmp_path: Path) -> None:
    sent = light("t", b"hi", *NAMES)
    digits = b"0" * 19
    assert sent[-(len(PROPERTIES) // 2) - 40 :] == bytes.fromhex(PROPERTIES) + digits + b"," + digits + b"\x02"
    with make_store(tmp_path, StillClock(0x18BCFE56800)) as store:
        put(store, "t", 0, light("t", b"x", NAMES[1]))
        begin = store.written
        put(store, "t", 3, sent)
        stored = bytes(store._log.read(begin, store.written))
    assert stored[-40:] == b"0000000000000000000,0000000000000000001\x02"
    assert stored[:12] + stored[88:-40] == sent[:12] + sent[88:-40]


@pytest.mark.parametrize("engine", ["file", "rocksdb"])
def test_the_units(tmp_path: Path, engine: str) -> None:
    with make_store(tmp_path / "s", StillClock(0x18BCFE56800), consume_queue=engine) as store:
        put(store, "t", 3, message("t", b"x"), light("t", b"hi", *NAMES))
        left = kill(tmp_path / "s", tmp_path / "left")
    size = len(light("t", b"hi", *NAMES))
    unit = len(message("t", b"x")).to_bytes(8, "big") + size.to_bytes(4, "big") + bytes(8)
    if engine == "file":
        for name in NAMES:
            held = (left / "consumequeue" / name / "0" / ("0" * 20)).read_bytes()
            assert held == unit.ljust(320, b"\0")
        return
    rows = RocksDbUnits(str(left / "consumequeue"), writable=False)
    try:
        units, ends = dict(rows.all_units()), dict(rows.ends())
    finally:
        rows.close()
    for name in NAMES:
        prefix = len(name).to_bytes(4, "big") + b"\x01" + name.encode() + b"\x01"
        assert units[prefix + bytes(4) + b"\x01" + bytes(8)] == unit + (0x18BCFE56800).to_bytes(8, "big")
        assert ends[prefix + b"max\x01" + bytes(4)] == unit[:8] + bytes(8)


def test_a_record_that_holds_a_batch_is_in_no_light_queue() -> None:
    """Whatever it names itself, as in a log of RocketMQ: its messages have offsets of their own."""
    assert names_lights(LIGHT, "t")
    assert not names_lights(LIGHT | INNER_BATCH, "t")
    assert not names_lights(0, "t")
