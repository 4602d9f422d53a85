"""The record by which a delayed message is taken back, byte for byte: RocketMQ's broker may read it in a store of ours."""

import pytest

from zenitmq.broker.delay.timing import RECALL_BODY, due_of, recall_properties
from zenitmq.model.names import TIMER_TOPIC
from zenitmq.model.properties import decode_properties, encode_properties
from zenitmq.record.kernel import decode_record, encode_record

ROWS = [
    (
        1_700_000_000_000,
        (
            b"TIMER_DEL_UNIQKEY\x01orders+7F000001000218B4AAC2000000000001\x02"
            b"TIMER_DELIVER_MS\x011700000000001\x02TIMER_OUT_MS\x011700000000000\x02"
            b"UNIQ_KEY\x017F000001000218B4AAC2000000000001\x02TAGS\x01_RECALL_TAG_\x02"
        ),
    ),
    (
        1_699_999_999_999,
        (
            b"TIMER_DEL_UNIQKEY\x01orders+7F000001000218B4AAC2000000000001\x02"
            b"TIMER_DELIVER_MS\x011700000000000\x02TIMER_OUT_MS\x011699999999000\x02"
            b"UNIQ_KEY\x017F000001000218B4AAC2000000000001\x02TAGS\x01_RECALL_TAG_\x02"
        ),
    ),
]


@pytest.mark.parametrize(("deliver_at_ms", "properties"), ROWS)
def test_the_properties_of_a_recall(deliver_at_ms: int, properties: bytes) -> None:
    named = recall_properties("orders", "7F000001000218B4AAC2000000000001", deliver_at_ms)
    assert encode_properties(named) == properties
    assert decode_properties(properties) == named
    record = decode_record(
        encode_record(
            topic=TIMER_TOPIC.encode(),
            body=RECALL_BODY,
            properties=properties,
            prepared_transaction_offset=-1 - 4096,
        )
    )
    assert (record.body, record.properties) == (b"0", named)
    assert due_of(record.topic, record.properties, 0) is None, "it waits for nothing itself"
