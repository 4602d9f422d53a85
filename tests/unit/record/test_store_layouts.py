"""The layout tables are what the code packs by, and their texts cover whole structures."""

import pytest

from zenitmq.model.errors import ConfigError
from zenitmq.record.codes import ENTRY_BYTES, INDEX_HEADER_BYTES, RECORD_OVERHEAD_BYTES, UNIT_BYTES
from zenitmq.record.kernel import encode_record
from zenitmq.record.layout import CHECKSUM_LAYOUT, INDEX_ENTRY, INDEX_HEADER, LAYOUTS, RECORD, UNIT, store_timestamp_of
from zenitmq.store.checksum.checksum_entry import ENTRY
from zenitmq.store.config import DELAY_LEVELS, StoreConfig, parse_delay_levels


def test_sizes() -> None:
    assert (UNIT.size, INDEX_HEADER.size, INDEX_ENTRY.size) == (UNIT_BYTES, INDEX_HEADER_BYTES, ENTRY_BYTES)
    assert CHECKSUM_LAYOUT.size_bytes == ENTRY.size
    assert len({layout.name for layout in LAYOUTS}) == len(LAYOUTS)


def test_the_record_table_reads_a_record() -> None:
    """Walked field by field, the table gives back what was encoded."""
    given: dict[str, int | bytes] = {
        "queueId": 3, "flag": 4, "queueOffset": 5, "physicalOffset": 6, "bornTimestamp": 7, "storeTimestamp": 8,
        "reconsumeTimes": 9, "preparedTransactionOffset": 10, "body": b"body", "topic": b"topic",
        "properties": b"a\1b\2",
    }  # fmt: skip
    record = encode_record(
        topic=b"topic", body=b"body", properties=b"a\1b\2", queue_id=3, flag=4, queue_offset=5, physical_offset=6,
        born_timestamp_ms=7, store_timestamp_ms=8, reconsume_times=9, prepared_transaction_offset=10,
        born_host=bytes(20),
    )  # fmt: skip
    varying = {"bornHost": 20, "storeHost": 8, "topicLength": 1}
    found: dict[str, int | bytes] = {}
    at = 0
    for field in RECORD.fields:
        assert field.at in (None, at)
        size = varying.get(field.name, field.size)
        size = found[size] if isinstance(size, str) else size
        assert isinstance(size, int)
        is_bytes = field.name in ("body", "topic", "properties") or size == 20
        found[field.name] = record[at : at + size] if is_bytes else int.from_bytes(record[at : at + size], "big")
        at += size
    assert at == len(record) == found["totalSize"] == RECORD_OVERHEAD_BYTES + 12 + 4 + 5 + 4
    assert {name: found[name] for name in given} == given
    assert store_timestamp_of(record) == 8


def test_delay_levels() -> None:
    levels = parse_delay_levels(DELAY_LEVELS)
    assert (len(levels), levels[0], levels[4], levels[17]) == (18, 1000, 60_000, 7_200_000)
    for text in ("", "1", "s", "1x", "-1s", "1 s"):
        with pytest.raises(ConfigError):
            parse_delay_levels(text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"record_bytes_max": 4 << 20},
        {"disk_clean_ratio": 0.95},
        {"disk_refuse_ratio": 0.8},
        {"flush_mode": "sometimes"},
        {"segment_bytes": 100},
        {"delay_levels": "soon"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_settings_that_do_not_go_together(wrong) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong)).partition("_")[0]):
        StoreConfig(**wrong)
